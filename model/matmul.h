/* Matrix products for training: C (M,N) = start + A (M,K) B (K,N). See matmul.c. */
#ifndef MATMUL_H
#define MATMUL_H

#include "real.h"
#include <stddef.h>

/* A matrix as its first element and the steps (in reals) from row to row and column to column: a
   transpose is the same memory with the two steps exchanged. */
struct matrix {
    real *data;
    size_t row, column;
};

static inline struct matrix rows(const real *data, size_t row) { // row-major, `row` reals a row
    return (struct matrix){(real *)data, row, 1};
}

static inline struct matrix transposed(struct matrix a) {
    return (struct matrix){a.data, a.column, a.row};
}

/* What the sum starts from: zero, C itself (accumulate), or a bias (N) added to each row. */
enum matmul_start { MATMUL_ZERO, MATMUL_ADD, MATMUL_BIAS };

/* Reals of workspace for a product with K x N right-hand sides (see matmul()). */
size_t matmul_workspace(size_t K, size_t N);

/* The product, shared out over the threads. C is row-major (column step 1) and overlaps neither A
   nor B; `bias` is (N) with MATMUL_BIAS, else unused. Each element of C is summed over k in the
   same order whatever the sizes of the other dimensions and the number of threads. */
void matmul(size_t M, size_t N, size_t K, struct matrix a, struct matrix b, struct matrix c,
            enum matmul_start start, const real *bias, real *workspace);

/* The same within the calling thread, B packed before by matmul_pack() into matmul_packed_size()
   reals: for small products inside a parallel loop. Uses the first N columns and the first K of the
   packed matrix's `packed_K` rows; `start` is MATMUL_ZERO or MATMUL_ADD. */
size_t matmul_packed_size(size_t K, size_t N);
void matmul_pack(size_t K, size_t N, struct matrix b, real *packed);
void matmul_packed(size_t M, size_t N, size_t K, struct matrix a, const real *packed,
                   size_t packed_K, struct matrix c, enum matmul_start start);

/* The definition, for the tests: three loops, sums in k's order. */
void matmul_reference(size_t M, size_t N, size_t K, struct matrix a, struct matrix b,
                      struct matrix c, enum matmul_start start, const real *bias);

#endif
