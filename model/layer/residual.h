/* The residual stream: sum = a x + drop(F(x)), F the sub-layer's function. */
#ifndef RESIDUAL_H
#define RESIDUAL_H

#include "model/layer/dropout.h"

/* sum (count) = a x + drop(f). `first` is the first element's index for dropout. sum may be x. */
void residual_forward(size_t first, size_t count, real *sum, real a, const real *x, const real *f,
                      struct dropout drop);

/* sum (count) = a x + f; sum may be x. Backward is such a sum too: dx = a dsum + F'(dsum). */
void residual_add(size_t count, real *sum, real a, const real *x, const real *f);

/* to (count) = s from, for a branch with a factor; to may be from. */
void residual_scale(size_t count, real *to, real s, const real *from);

#endif
