/* Activations, elementwise.

     gelu        f(x)  = x Phi(x)                 Phi(x) = (1 + erf(x / sqrt 2)) / 2
                 f'(x) = Phi(x) + x phi(x)        phi(x) = exp(-x^2 / 2) / sqrt(2 pi)

     gelu-tanh   f(x)  = x g(x)                   g(x) = (1 + tanh u) / 2
                 f'(x) = g(x) + x g'(x)           g'(x) = (1 - tanh^2 u) u' / 2
                                                  u = sqrt(2 / pi) (x + 0.044715 x^3)

     relu        f(x)  = max(x, 0)
                 f'(x) = 1 where x > 0, else 0

     relu2       f(x)  = max(x, 0)^2
                 f'(x) = 2 max(x, 0)

     silu        f(x)  = x s(x)                   s(x) = 1 / (1 + exp(-x)) = (1 + tanh(x / 2)) / 2
                 f'(x) = s(x) (1 + x (1 - s(x)))

   With a gate there are twice as many hidden units, a token's row being [x, u], and y = f(x) u.
   With du and dx their gradients:

                 du = dy f(x),  dx = (dy u) f'(x)

   reglu, geglu, swiglu: f is relu, gelu, silu; geglu-tanh: f is gelu-tanh.

   gelu is exact; gelu-tanh is GPT-2's approximation of it. Hendrycks and Gimpel 2016
   (arXiv:1606.08415). relu2: So et al. 2021, Primer (arXiv:2109.08668). Gates: Shazeer 2020
   (arXiv:2002.05202). */
#include "model/layer/activation.h"
#include "model/math/profile.h"
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

static void relu2_forward(size_t count, real *y, const real *x) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) y[i] = x[i] < 0 ? 0 : x[i] * x[i]; // NaN stays NaN
}

static void relu2_backward(size_t count, real *dx, real *y, const real *dy, const real *x) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        y[i] = x[i] < 0 ? 0 : x[i] * x[i];
        dx[i] = x[i] > 0 ? dy[i] * 2 * x[i] : 0;
    }
}

static void silu_forward(size_t count, real *y, const real *x) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) y[i] = x[i] * sigmoid_real(x[i]);
}

static void silu_backward(size_t count, real *dx, real *y, const real *dy, const real *x) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        real s = sigmoid_real(x[i]);
        y[i] = x[i] * s;
        dx[i] = dy[i] * s * mul_add(x[i], 1 - s, 1);
    }
}

const struct activation activations[] = {
    {"gelu", gelu_forward, gelu_backward, false},
    {"gelu-tanh", gelu_tanh_forward, gelu_tanh_backward, false},
    {"relu", relu_forward, relu_backward, false},
    {"relu2", relu2_forward, relu2_backward, false},
    {"silu", silu_forward, silu_backward, false},
    {"reglu", relu_forward, relu_backward, true},
    {"geglu", gelu_forward, gelu_backward, true},
    {"geglu-tanh", gelu_tanh_forward, gelu_tanh_backward, true},
    {"swiglu", silu_forward, silu_backward, true},
    {0},
};

size_t activation_inputs(const struct activation *a, size_t H) {
    return a->gated ? 2 * H : H;
}

/* y (count) = y u */
static void multiply(size_t count, real *y, const real *u) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) y[i] *= u[i];
}

void activation_forward(const struct activation *a, size_t M, size_t H, real *y, const real *x) {
    if (!a->gated) a->forward(M * H, y, x);
    for (size_t m = 0; a->gated && m < M; m++, y += H, x += 2 * H) {
        a->forward(H, y, x);
        multiply(H, y, x + H);
    }
    profile_lap(PROFILE_ELEMENTWISE);
}

void activation_backward(const struct activation *a, size_t M, size_t H, real *dx, real *y,
                         const real *dy, const real *x) {
    if (!a->gated) a->backward(M * H, dx, y, dy, x);
    for (size_t m = 0; a->gated && m < M; m++, y += H, dy += H, x += 2 * H, dx += 2 * H) {
        const real *u = x + H;
        real *du = dx + H;
#pragma omp simd
        for (size_t i = 0; i < H; i++) du[i] = dy[i] * u[i];
        a->backward(H, dx, y, du, x); // y = f(x)
#pragma omp simd
        for (size_t i = 0; i < H; i++) {
            du[i] = dy[i] * y[i];
            y[i] *= u[i];
        }
    }
    profile_lap(PROFILE_ELEMENTWISE);
}
