/* Reductions over a row of n numbers: each lane sums every LANES-th element; the lanes are added in
   halves until one is left; the remaining elements, too few for a vector, are added last.

   (`omp simd reduction` adds the lanes one after another. On a row as short as one token's channels
   that takes longer than the loop itself.) */
#pragma once

#include "model/math/simd.h"
#include <math.h>

SIMD_INLINE vec_short short_add(vec_short a, vec_short b) {
    return a + b;
}

SIMD_INLINE vec_short short_max(vec_short a, vec_short b) {
    for (int i = 0; i < SHORT_LANES; i++) a[i] = a[i] > b[i] ? a[i] : b[i];
    return a;
}

SIMD_INLINE real lanes_sum(vec v) {
    vec_short s = vec_fold(v, short_add);
    return SHORT_LANES > 2 ? (s[0] + s[2 % SHORT_LANES]) + (s[1] + s[3 % SHORT_LANES])
                           : s[0] + s[1];
}

SIMD_INLINE real lanes_max(vec v) {
    vec_short s = vec_fold(v, short_max);
    if (SHORT_LANES > 2) s = short_max(s, (vec_short){s[2 % SHORT_LANES], s[3 % SHORT_LANES]});
    return s[0] > s[1] ? s[0] : s[1];
}

/* max x, for n > 0. NaN if x[0] is NaN; other NaNs may be ignored. */
static inline real row_max(size_t n, const real *x) {
    vec lanes = vec_splat(x[0]);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) lanes = vec_max(vec_load(x + i), lanes);
    real largest = lanes_max(lanes);
    for (; i < n; i++) largest = x[i] > largest ? x[i] : largest;
    return largest;
}

/* sum x */
static inline real row_sum(size_t n, const real *x) {
    vec sums = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) sums += vec_load(x + i);
    real sum = lanes_sum(sums);
    for (; i < n; i++) sum += x[i];
    return sum;
}

/* sum a (x - mean) */
static inline real row_dot_about(size_t n, const real *a, const real *x, real mean) {
    vec sums = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        sums = vec_mul_add(vec_load(a + i), vec_load(x + i) - mean, sums);
    real sum = lanes_sum(sums);
    for (; i < n; i++) sum = mul_add(a[i], x[i] - mean, sum);
    return sum;
}

/* sum a b */
static inline real row_dot(size_t n, const real *a, const real *b) {
    return row_dot_about(n, a, b, 0);
}

/* sum a b (x - mean) */
static inline real row_dot_product_about(size_t n, const real *a, const real *b, const real *x,
                                         real mean) {
    vec sums = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        sums = vec_mul_add(vec_load(a + i) * vec_load(b + i), vec_load(x + i) - mean, sums);
    real sum = lanes_sum(sums);
    for (; i < n; i++) sum = mul_add(a[i] * b[i], x[i] - mean, sum);
    return sum;
}

/* sum (x - mean)^2 */
static inline real row_squares_about(size_t n, const real *x, real mean) {
    vec sums = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vec deviation = vec_load(x + i) - mean;
        sums = vec_mul_add(deviation, deviation, sums);
    }
    real sum = lanes_sum(sums);
    for (; i < n; i++) sum = mul_add(x[i] - mean, x[i] - mean, sum);
    return sum;
}

/* to += factor from */
static inline void row_add(size_t n, real *to, real factor, const real *from) {
#pragma omp simd
    for (size_t i = 0; i < n; i++) to[i] = mul_add(factor, from[i], to[i]);
}
