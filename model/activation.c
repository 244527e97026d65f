/* GELU   f(x) = x Phi(x), Phi(x) = (1 + erf(x / sqrt 2)) / 2, exact, not the tanh approximation
          f'(x) = Phi(x) + x phi(x), phi(x) = exp(-x^2 / 2) / sqrt(2 pi)
   ReLU   f(x) = max(x, 0), f'(x) = 1 where x > 0

   Hendrycks and Gimpel 2016 (arXiv:1606.08415). */
#include "activation.h"
#include "blocks.h"
#include "vecmath.h"

static inline real gaussian_cdf(real x) {
    return (real)0.5 * (1 + erf_real(x * (real)0.70710678118654752));
}

static inline real gaussian_density(real x) {
    return (real)0.39894228040143268 * exp_real((real)-0.5 * x * x);
}

static void gelu_forward(size_t count, real *y, const real *x) {
#pragma omp parallel for
    for (size_t begin = 0; begin < count; begin += BLOCK) {
        size_t end = block_end(begin, count);
#pragma omp simd
        for (size_t i = begin; i < end; i++) y[i] = x[i] * gaussian_cdf(x[i]);
    }
}

static void gelu_backward(size_t count, real *dx, const real *dy, const real *x) {
#pragma omp parallel for
    for (size_t begin = 0; begin < count; begin += BLOCK) {
        size_t end = block_end(begin, count);
#pragma omp simd
        for (size_t i = begin; i < end; i++)
            dx[i] = dy[i] * (gaussian_cdf(x[i]) + x[i] * gaussian_density(x[i]));
    }
}

static void relu_forward(size_t count, real *y, const real *x) {
#pragma omp parallel for
    for (size_t begin = 0; begin < count; begin += BLOCK) {
        size_t end = block_end(begin, count);
#pragma omp simd
        for (size_t i = begin; i < end; i++) y[i] = x[i] < 0 ? 0 : x[i]; // NaN passes
    }
}

static void relu_backward(size_t count, real *dx, const real *dy, const real *x) {
#pragma omp parallel for
    for (size_t begin = 0; begin < count; begin += BLOCK) {
        size_t end = block_end(begin, count);
#pragma omp simd
        for (size_t i = begin; i < end; i++) dx[i] = x[i] > 0 ? dy[i] : 0;
    }
}

const struct activation activations[] = {
    {"gelu", gelu_forward, gelu_backward},
    {"relu", relu_forward, relu_backward},
    {0},
};
