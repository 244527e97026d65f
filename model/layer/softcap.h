/* A soft limit of logits: y = c tanh(x / c), nearly x where |x| is small against c. */
#ifndef SOFTCAP_H
#define SOFTCAP_H

#include "model/math/real.h"
#include <stddef.h>

/* y (count) = c tanh(x / c); y may be x. */
void softcap_forward(real c, size_t count, real *y, const real *x);

/* dy (count) becomes dx = dy (1 - (y / c)^2). */
void softcap_backward(real c, size_t count, real *dy, const real *y);

#endif
