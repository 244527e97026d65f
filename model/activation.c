/* GELU   f(x) = x Phi(x), Phi(x) = (1 + erf(x / sqrt 2)) / 2, exact, not the tanh approximation
          f'(x) = Phi(x) + x phi(x), phi(x) = exp(-x^2 / 2) / sqrt(2 pi)
   ReLU   f(x) = max(x, 0), f'(x) = 1 where x > 0

   Hendrycks and Gimpel 2016 (arXiv:1606.08415). */
#include "activation.h"
#include "vecmath.h"

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
        dx[i] = dy[i] * (integral + x[i] * density);
    }
}

static void relu_forward(size_t count, real *y, const real *x) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) y[i] = x[i] < 0 ? 0 : x[i]; // NaN passes
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
    {"relu", relu_forward, relu_backward},
    {0},
};
