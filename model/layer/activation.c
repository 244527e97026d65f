/* Activations.

     gelu        f(x)  = x Phi(x)                 Phi(x) = (1 + erf(x / sqrt 2)) / 2
                 f'(x) = Phi(x) + x phi(x)        phi(x) = exp(-x^2 / 2) / sqrt(2 pi)

     gelu-tanh   f(x)  = x g(x)                   g(x) = (1 + tanh u) / 2
                 f'(x) = g(x) + x g'(x)           g'(x) = (1 - tanh^2 u) u' / 2
                                                  u = sqrt(2 / pi) (x + 0.044715 x^3)

     relu        f(x)  = max(x, 0)
                 f'(x) = 1 where x > 0, else 0

   gelu is exact; gelu-tanh is GPT-2's approximation of it. Hendrycks and Gimpel 2016
   (arXiv:1606.08415). */
#include "model/layer/activation.h"
#include "model/math/vecmath.h"

static void gelu_forward(size_t count, real *y, const real *x) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        real density;
        y[i] = x[i] * normal_real(x[i], &density);
    }
}

static void gelu_backward(size_t count, real *dx, real *y, const real *dy, const real *x) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        real density, integral = normal_real(x[i], &density);
        y[i] = x[i] * integral;
        dx[i] = dy[i] * mul_add(x[i], density, integral);
    }
}

/* g(x), and its derivative in *slope. */
static inline real tanh_gate(real x, real *slope) {
    const real a = (real)0.79788456080286536, b = (real)0.044715;
    real t = tanh_real(a * (x + b * x * x * x));
    *slope = (real)0.5 * (1 - t * t) * a * (1 + 3 * b * x * x);
    return (real)0.5 * (1 + t);
}

static void gelu_tanh_forward(size_t count, real *y, const real *x) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        real slope;
        y[i] = x[i] * tanh_gate(x[i], &slope);
    }
}

static void gelu_tanh_backward(size_t count, real *dx, real *y, const real *dy, const real *x) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        real slope, gate = tanh_gate(x[i], &slope);
        y[i] = x[i] * gate;
        dx[i] = dy[i] * (gate + x[i] * slope);
    }
}

static void relu_forward(size_t count, real *y, const real *x) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) y[i] = x[i] < 0 ? 0 : x[i]; // NaN stays NaN
}

static void relu_backward(size_t count, real *dx, real *y, const real *dy, const real *x) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        y[i] = x[i] < 0 ? 0 : x[i];
        dx[i] = x[i] > 0 ? dy[i] : 0;
    }
}

const struct activation activations[] = {
    {"gelu", gelu_forward, gelu_backward},
    {"gelu-tanh", gelu_tanh_forward, gelu_tanh_backward},
    {"relu", relu_forward, relu_backward},
    {0},
};
