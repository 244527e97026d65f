/* One row times a matrix, y (N) = start (N) + x (K) B (K,N): a matrix product for a single token.
   See row_product.c. */
#ifndef ROW_PRODUCT_H
#define ROW_PRODUCT_H

#include "model/math/real.h"
#include <stddef.h>

enum { BLOCK_K = 256 }; // values of k whose products are summed before the sum is added to y

struct row_product {
    const real *x, *b; // (K), (K,N)
    size_t x_step;     // from x_k to x_k+1
    size_t b_row;      // row stride
    const real *start; // (N), or NULL: zeros
    real *y;           // (N)
};

/* Computes y for the columns 0 .. n - 1, by the calling thread, and returns n <= N. The N - n
   columns that are left are fewer than four vectors: a tile of matmul.c is as fast for them. */
size_t row_product(size_t N, size_t K, const struct row_product *p);

#endif
