/* Sums of the residual stream and a branch: sum = a x + b drop(f), f = F(x)

   Backward: df = drop(b dsum)
             dx = a dsum + dinner, where dinner is the gradient of df through F */
#ifndef RESIDUAL_H
#define RESIDUAL_H

#include "model/layer/dropout.h"
#include "model/math/reduce.h"
#include "model/math/team.h"

/* sum = a x + b drop(f), for some elements of the batch. The arrays start with the first of them;
   dropout needs their numbers in the batch. sum may be x. */
static inline void residual_forward(struct range elements, real *sum, real a, const real *x, real b,
                                    const real *f, struct dropout drop) {
    size_t count = elements.end - elements.begin;
    if (drop.threshold) {
#pragma omp simd
        for (size_t i = 0; i < count; i++)
            sum[i] = mul_add(a, x[i], b * f[i] * dropout_factor(drop, elements.begin + i));
    } else {
#pragma omp simd
        for (size_t i = 0; i < count; i++) sum[i] = mul_add(a, x[i], b * f[i]);
    }
    profile_lap(PROFILE_ELEMENTWISE);
}

/* to (count) = s from, for a branch with a factor; to may be from. */
static inline void residual_scale(size_t count, real *to, real s, const real *from) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) to[i] = s * from[i];
    profile_lap(PROFILE_ELEMENTWISE);
}

/* to = drop(b from): a branch, or in backward its gradient; to may be from. */
static inline void residual_branch(struct range elements, real *to, real b, const real *from,
                                   struct dropout drop) {
    size_t count = elements.end - elements.begin;
    if (drop.threshold) {
#pragma omp simd
        for (size_t i = 0; i < count; i++)
            to[i] = b * from[i] * dropout_factor(drop, elements.begin + i);
        profile_lap(PROFILE_ELEMENTWISE);
    } else
        residual_scale(count, to, b, from);
}

/* sum (count) = a x + f; sum may be x or f. */
static inline void residual_add(size_t count, real *sum, real a, const real *x, const real *f) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) sum[i] = mul_add(a, x[i], f[i]);
    profile_lap(PROFILE_ELEMENTWISE);
}

/* The sum of x^2 over each row block of the given rows, in squares (row_blocks), for probes. x (rows,C)
   points to the first of the rows. */
static inline void residual_squares(struct range rows, size_t C, real *squares, const real *x) {
    for (size_t n = rows.begin, size; n < rows.end; n += ROWS, x += size) {
        size = (team_row_block(n, rows).end - n) * C;
        squares[n / ROWS] = row_dot(size, x, x);
    }
}

#endif
