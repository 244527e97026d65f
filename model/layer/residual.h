/* The residual stream: x <- a x + drop(F). */
#ifndef RESIDUAL_H
#define RESIDUAL_H

#include "model/layer/dropout.h"

/* sum (count) = a x + drop(f), elements counted from `first`; sum may be x. */
void residual_forward(size_t first, size_t count, real *sum, real a, const real *x, const real *f,
                      struct dropout drop);

/* dx (count) = a dsum + dinner. */
void residual_backward(size_t count, real *dx, real a, const real *dsum, const real *dinner);

#endif
