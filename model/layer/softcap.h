/* A soft limit of logits, nearly x where |x| is small against c:

     y = c tanh(x / c)

   Backward: dx = dy (1 - tanh^2(x / c)) = dy (1 - (y / c)^2)

   Bello et al. 2016 (arXiv:1611.09940); Gemma 2 (arXiv:2408.00118). Attention caps its scores by
   itself, with a query in each lane. */
#ifndef SOFTCAP_H
#define SOFTCAP_H

#include "model/math/vecmath.h"

/* y may be x. */
static inline void softcap_forward(real c, size_t count, real *y, const real *x) {
    const real inverse = 1 / c;
#pragma omp simd
    for (size_t i = 0; i < count; i++) y[i] = c * tanh_real(inverse * x[i]);
}

/* dy (count) becomes dx. */
static inline void softcap_backward(real c, size_t count, real *dy, const real *y) {
    const real inverse = 1 / c;
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        real t = inverse * y[i];
        dy[i] *= 1 - t * t;
    }
}

#endif
