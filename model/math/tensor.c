/* Declares tensors, gives them their initial values, which are random numbers of a stream for
   each name, and keeps rows or columns at unit length. */
#include "model/math/tensor.h"
#include "data/die.h"
#include "data/random.h"
#include "model/math/reduce.h"
#include "model/math/team.h"
#include "model/math/vecmath.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

struct param tensor_take(struct tensor_list *list, const char *module, const char *name,
                         size_t rows, size_t columns, double mean, double deviation) {
    const size_t step = 64 / sizeof(real);
    char full[TENSOR_NAME];
    size_t size = rows ? rows : 1, offset = list->size;
    snprintf(full, sizeof full, "%s%s%s", module, *module ? "." : "", name);
    if (__builtin_mul_overflow(size, columns ? columns : 1, &size) ||
        __builtin_add_overflow(list->size, (size + step - 1) / step * step, &list->size))
        die(STATUS_USAGE,
            "memory: %s has more elements than a program of %zu bits can address (try a smaller "
            "--n-embd or --n-layer)",
            full, 8 * sizeof(void *));
    struct tensor *t = list->tensor ? &list->tensor[list->count] : NULL;
    const struct param param = {.value = list->value ? list->value + offset : NULL,
                                .grad = list->grad ? list->grad + offset : NULL,
                                .stride = list->stride,
                                .size = size,
                                .tensor = t};
    if (t) {
        *t = (struct tensor){.shape = {rows, columns},
                             .dimensions = (rows > 0) + (columns > 0),
                             .param = param,
                             .offset = offset,
                             .size = size,
                             .decays = columns > 0,
                             .mean = mean,
                             .deviation = deviation};
        snprintf(t->name, sizeof t->name, "%s", full);
    }
    list->count++;
    return param;
}

void tensor_sums(struct param *param, const struct layout *layout) {
    param->sums = arena_reals(layout->arena, team_row_blocks(layout->B * layout->T) * param->size);
    if (!param->tensor) return; // while counting
    param->tensor->param.sums = param->sums;
    param->tensor->rows = layout->rows;
}

void tensor_keep_unit(struct tensor_list *list, struct param matrix, enum tensor_unit unit) {
    if (matrix.tensor) matrix.tensor->unit = unit;
    list->units++;
}

void tensor_hidden(struct param weight, const size_t rows[TENSOR_MATRICES]) {
    if (weight.tensor) memcpy(weight.tensor->matrix_rows, rows, sizeof weight.tensor->matrix_rows);
}

int64_t *tensor_take_count(struct tensor_list *list, const char *module, const char *name) {
    const struct param count = tensor_take(list, module, name, 0, 0, 0, 0);
    _Static_assert(sizeof(int64_t) % sizeof(real) == 0, "an integer takes whole reals");
    if (count.tensor) {
        count.tensor->size = sizeof(int64_t) / sizeof(real);
        count.tensor->counts = true;
    }
    return (int64_t *)count.value; // aligned: each tensor starts at a multiple of 64 bytes
}

const struct tensor *tensor_nonfinite(const struct tensor_list *list, const real *values) {
    for (size_t i = 0; i < list->count; i++) {
        const struct tensor *t = &list->tensor[i];
        for (size_t j = 0; j < t->size && !t->counts; j++)
            if (!isfinite(values[t->offset + j])) return t;
    }
    return NULL;
}

void tensor_initialize(struct tensor_list *list, uint64_t seed) {
    list->version++;
    for (size_t i = 0; i < list->count; i++) {
        const struct tensor *t = &list->tensor[i];
        real *value = list->value + t->offset;
        if (t->counts) {
            memset(value, 0, sizeof(int64_t));
            continue;
        }
        uint64_t key = random_key(seed, t->name, 0);
#pragma omp parallel for
        for (size_t j = 0; j < t->size; j++)
            value[j] =
                (real)(t->deviation > 0 ? t->mean + t->deviation * random_normal(key, j) : t->mean);
    }
}

/* ---- matrices whose rows or columns keep unit length ---- */

/* After an update of the weights W (rows,columns), for each row i or each column j of a tensor:

     W_ij = W_ij / sqrt(sum_j W_ij^2)    UNIT_ROWS
     W_ij = W_ij / sqrt(sum_i W_ij^2)    UNIT_COLUMNS

   This is a projection, not a part of the function that is learned: the gradient is that of the
   weights as they are. A row or column belongs to one thread, and its sum is taken in the same
   order for any number of threads.

   Loshchilov et al. 2024, nGPT (arXiv:2410.01131), and the authors' code
   (normalize_matrices() in train.py). */

enum { UNIT_BLOCK = 64 / sizeof(real) }; // columns that are taken down the rows together

static real inverse_length(real squares) {
    return squares > 0 ? 1 / sqrt_real(squares) : 1;
}

static void normalize_rows(size_t rows, size_t columns, real *w) {
    struct range share = team_part(rows, 1);
    for (size_t i = share.begin; i < share.end; i++) {
        real *row = w + i * columns, inverse = inverse_length(row_dot(columns, row, row));
#pragma omp simd
        for (size_t j = 0; j < columns; j++) row[j] *= inverse;
    }
}

static void normalize_columns(size_t rows, size_t columns, real *w) {
    struct range share = team_part(columns, UNIT_BLOCK);
    for (size_t begin = share.begin; begin < share.end; begin += UNIT_BLOCK) {
        size_t count = size_min(share.end - begin, UNIT_BLOCK);
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

void tensor_normalize_units(const struct tensor_list *list) {
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
