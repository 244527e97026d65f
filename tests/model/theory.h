/* What the tests of the theory of norms share. */
#ifndef THEORY_H
#define THEORY_H

#include "tests/support.h"

enum { B = 10, T = 7, N = B * T, C = 19, COUNT = N * C }; // three blocks of ROWS tokens

double theory_tolerance(void);

/* y = norm(x), both (B,T,C), with a new norm of this name whose epsilon is negligible. Returns the
   norm. */
struct lone_norm theory_apply(const char *name, real *y, const real *x);

/* Mean and mean square of `count` elements of y that are `step` apart: 1 for a token's channels, C
   for a channel's tokens. */
void theory_moments(const real *y, size_t count, size_t step, double *mean, double *square);

#endif
