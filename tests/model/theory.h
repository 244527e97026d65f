/* What the tests of the theory of norms share. */
#ifndef THEORY_H
#define THEORY_H

#include "tests/support.h"

enum { B = 10, T = 7, N = B * T, C = 19, COUNT = N * C }; // three blocks of ROWS tokens

static inline double theory_tolerance(void) {
    return in_double() ? 1e-12 : 2e-5;
}

/* y = norm(x), both (B,T,C), with a new norm of this name whose epsilon is negligible. Returns the
   norm. */
static inline struct lone_norm theory_apply(const char *name, real *y, const real *x) {
    struct norm_options options = small_norms;
    norms_set(&options, "norm-eps", 1e-20);
    struct lone_norm lone = lone_norm_with(norm_find(name), &options, B, T, C);
    lone_norm_forward(&lone, y, x);
    return lone;
}

/* Mean and mean square of `count` elements of y that are `step` apart: 1 for a token's channels, C
   for a channel's tokens. */
static inline void theory_moments(const real *y, size_t count, size_t step, double *mean,
                                  double *square) {
    *mean = *square = 0;
    for (size_t i = 0; i < count; i++) {
        *mean += (double)y[i * step] / (double)count;
        *square += (double)y[i * step] * (double)y[i * step] / (double)count;
    }
}

#endif
