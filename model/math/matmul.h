/* Matrix products for training: C (M,N) = S + A (M,K) B (K,N). See matmul.c. */
#ifndef MATMUL_H
#define MATMUL_H

#include "model/math/real.h"
#include <stddef.h>

/* A matrix: its first element, and the strides in reals from one row to the next and from one
   column to the next. The transpose is the same memory with the strides exchanged. */
struct matrix {
    real *data;
    size_t row_stride, column_stride;
};

/* A row-major matrix. A product only writes to its C, so `data` may be const for the others. */
static inline struct matrix matrix_of(const real *data, size_t row_stride) {
    return (struct matrix){(real *)data, row_stride, 1};
}

static inline struct matrix matrix_transposed(struct matrix a) {
    return (struct matrix){a.data, a.column_stride, a.row_stride};
}

/* A matrix whose rows are all the same `row`, such as a bias; zeros if `row` is NULL. */
static inline struct matrix matrix_repeated(const real *row) {
    return (struct matrix){(real *)row, 0, 1};
}

static inline struct matrix matrix_zeros(void) {
    return matrix_repeated(NULL);
}

/* C = S + A B, by the calling thread. `start` is S (M,N), what the sums start from: C itself to
   accumulate, matrix_repeated(bias), or matrix_zeros().

   B, C and S are row-major. C does not overlap A or B. Each element of C is summed over k in an
   order that does not depend on M and N, so a product may be split into pieces of rows and columns
   and gives the same bits. */
void matmul(size_t M, size_t N, size_t K, struct matrix a, struct matrix b, struct matrix c,
            struct matrix start);

/* The same by the definition, for the tests: three loops. Sums are rounded as in the fast form:
   256 values of k are summed at a time, and each such partial sum is added to C. */
void matmul_reference(size_t M, size_t N, size_t K, struct matrix a, struct matrix b,
                      struct matrix c, struct matrix start);

/* to (columns,rows) = the transpose of from (rows,columns), with the row strides `to_row` and
   `from_row`. */
void matmul_transpose(size_t rows, size_t columns, real *to, size_t to_row, const real *from,
                      size_t from_row);

#endif
