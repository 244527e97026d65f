/* Matrix products for training: C (M,N) = start + A (M,K) B (K,N). See matmul.c. */
#ifndef MATMUL_H
#define MATMUL_H

#include "model/math/real.h"
#include <stddef.h>

/* A matrix as its first element and the steps (in reals) from row to row and column to column: a
   transpose is the same memory with the two steps exchanged. */
struct matrix {
    real *data;
    size_t row, column;
};

static inline struct matrix matrix_of(const real *data,
                                      size_t row) { // row-major, `row` reals a row
    return (struct matrix){(real *)data, row, 1};
}

static inline struct matrix matrix_transposed(struct matrix a) {
    return (struct matrix){a.data, a.column, a.row};
}

/* What the sum starts from: zero, C itself (accumulate), or a bias (N) added to each row. */
enum matmul_start { MATMUL_ZERO, MATMUL_ADD, MATMUL_BIAS };

/* The product, by the calling thread. B and C are row-major (column step 1), C overlaps neither A
   nor B; `bias` is (N) with MATMUL_BIAS, else unused. Each element of C is summed over k in the
   same order whatever M and N are, so a product may be cut into pieces of rows and columns without
   a change of bits. */
void matmul(size_t M, size_t N, size_t K, struct matrix a, struct matrix b, struct matrix c,
            enum matmul_start start, const real *bias);

/* to (columns,rows) = the transpose of from (rows,columns); rows `to_row` and `from_row` apart. */
void matmul_transpose(size_t rows, size_t columns, real *to, size_t to_row, const real *from,
                      size_t from_row);

/* The definition, for the tests: three loops. The sums' order is the fast form's: of 256 steps at a
   time, added in turn to what the product starts from. */
void matmul_reference(size_t M, size_t N, size_t K, struct matrix a, struct matrix b,
                      struct matrix c, enum matmul_start start, const real *bias);

#endif
