/* After an update of the weights W (rows,columns), for each row i or each column j of a tensor:

     W_ij = W_ij / sqrt(sum_j W_ij^2)    UNIT_ROWS
     W_ij = W_ij / sqrt(sum_i W_ij^2)    UNIT_COLUMNS

   This is a projection, not a part of the function that is learned: the gradient is that of the
   weights as they are. A row or column belongs to one thread, and its sum is taken in the same
   order for any number of threads.

   Loshchilov et al. 2024, nGPT (arXiv:2410.01131), and the authors' code
   (normalize_matrices() in train.py). */
#include "model/math/unit.h"
#include "model/math/reduce.h"
#include "model/math/team.h"
#include "model/math/vecmath.h"

enum { UNIT_BLOCK = 64 / sizeof(real) }; // columns that are taken down the rows together

static real inverse_length(real squares) {
    return squares > 0 ? 1 / sqrt_real(squares) : 1;
}

static void normalize_rows(size_t rows, size_t columns, real *w) {
    struct range own = team_part(rows, 1);
    for (size_t i = own.begin; i < own.end; i++) {
        real *row = w + i * columns, inverse = inverse_length(row_dot(columns, row, row));
#pragma omp simd
        for (size_t j = 0; j < columns; j++) row[j] *= inverse;
    }
}

static void normalize_columns(size_t rows, size_t columns, real *w) {
    struct range own = team_part(columns, UNIT_BLOCK);
    for (size_t begin = own.begin; begin < own.end; begin += UNIT_BLOCK) {
        size_t count = size_min(own.end - begin, UNIT_BLOCK);
        real squares[UNIT_BLOCK] = {0}, inverse[UNIT_BLOCK];
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < count; j++) {
                real element = w[i * columns + begin + j];
                squares[j] = mul_add(element, element, squares[j]);
            }
        for (size_t j = 0; j < count; j++) inverse[j] = inverse_length(squares[j]);
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < count; j++) w[i * columns + begin + j] *= inverse[j];
    }
}

void unit_normalize(const struct tensor_list *list) {
    for (size_t k = 0; k < list->count; k++) {
        const struct tensor *t = &list->tensor[k];
        real *w = list->value + t->offset;
        switch (t->unit) {
        case UNIT_NONE: break;
        case UNIT_ROWS: normalize_rows(t->shape[0], t->shape[1], w); break;
        case UNIT_COLUMNS: normalize_columns(t->shape[0], t->shape[1], w); break;
        }
    }
}
