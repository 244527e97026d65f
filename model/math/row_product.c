/* One row times a matrix: y_j = start_j + sum over k of x_k B_kj.

   A weight that serves a single token is used once, so the time is that of reading it. A product of
   many tokens reads B in narrow strips from top to bottom, a cache line or three of each row, and
   finds it in the cache for the next rows of A. For one row this order is slow: the lines are a row
   of B apart, often on different pages, and neither the processor's prefetching nor its address
   translation keeps up. So the strips here are wide, and each row of a strip is fetched some rows
   ahead.

   As in matmul(), an element's sum over BLOCK_K values of k is complete before it is added. */
#include "model/math/row_product.h"
#include "model/math/simd.h"

enum {
    WIDE = 8,   // vectors in a strip, in registers with x and a vector of B
    NARROW = 4, // in the strips that are left
    AHEAD = 8,  // rows of B between what is fetched and what is read
    LINE = 64 / sizeof(real),
};

/* A strip of v <= WIDE vectors, from column `first` on. (Clang unrolls a loop whole only if its
   count is that of the pragma. Hence the loops up to WIDE.) */
SIMD_INLINE void strip(const size_t v, size_t first, size_t K, const struct row_product *p) {
    const real *x = p->x, *b = p->b + first;
    size_t x_step = p->x_step, b_row = p->b_row;
    real *y = p->y + first;
    for (size_t begin = 0; begin == 0 || begin < K; begin += BLOCK_K) {
        vec sum[WIDE] = {0};
        for (size_t k = begin; k < size_min(begin + BLOCK_K, K); k++, x += x_step, b += b_row) {
            vec xk = vec_splat(*x);
#pragma GCC unroll 8
            for (size_t j = 0; j < WIDE; j++)
                if (j < v) sum[j] = vec_mul_add(xk, vec_load(b + j * LANES), sum[j]);
            const real *ahead = b + AHEAD * b_row; // beyond B this fetches in vain
#pragma GCC unroll 8
            for (size_t j = 0; j < WIDE * LANES; j += LINE)
                if (j < v * LANES) __builtin_prefetch(ahead + j);
        }
        const real *from = begin ? y : p->start ? p->start + first : NULL;
        if (from)
#pragma GCC unroll 8
            for (size_t j = 0; j < WIDE; j++)
                if (j < v) sum[j] += vec_load(from + j * LANES);
#pragma GCC unroll 8
        for (size_t j = 0; j < WIDE; j++)
            if (j < v) vec_store(y + j * LANES, sum[j]);
    }
}

size_t row_product(size_t N, size_t K, const struct row_product *p) {
    size_t j = 0;
    for (; j + WIDE * LANES <= N; j += WIDE * LANES) strip(WIDE, j, K, p);
    for (; j + NARROW * LANES <= N; j += NARROW * LANES) strip(NARROW, j, K, p);
    return j;
}
