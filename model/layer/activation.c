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
#include "model/math/simd.h"
#include "model/math/vecmath.h"

/* y = f(x), and dx = dy f'(x) */
struct point {
    real y, dx;
};

static inline struct point gelu_at(real x, real dy) {
    real density, integral = normal_real(x, &density);
    return (struct point){x * integral, dy * mul_add(x, density, integral)};
}

static inline struct point gelu_tanh_at(real x, real dy) {
    const real a = (real)0.79788456080286536, b = (real)0.044715;
    real t = tanh_real(a * (x + b * x * x * x)), gate = (real)0.5 * (1 + t);
    real slope = (real)0.5 * (1 - t * t) * a * (1 + 3 * b * x * x);
    return (struct point){x * gate, dy * (gate + x * slope)};
}

static inline struct point relu_at(real x, real dy) {
    return (struct point){x < 0 ? 0 : x, x > 0 ? dy : 0}; // NaN stays NaN
}

static inline struct point relu2_at(real x, real dy) {
    return (struct point){x < 0 ? 0 : x * x, x > 0 ? dy * 2 * x : 0}; // NaN stays NaN
}

static inline struct point silu_at(real x, real dy) {
    real s = sigmoid_real(x);
    return (struct point){x * s, dy * s * mul_add(x, 1 - s, 1)};
}

/* The compiler makes one copy of this for each activation. */
SIMD_INLINE void map(struct point (*function)(real x, real dy), size_t count, real *dx, real *y,
                     const real *dy, const real *x) {
    if (!dx) {
#pragma omp simd
        for (size_t i = 0; i < count; i++) y[i] = function(x[i], 0).y;
        return;
    }
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        struct point point = function(x[i], dy[i]);
        y[i] = point.y;
        dx[i] = point.dx;
    }
}

/* y (count) = f(x); and dx (count) = dy f'(x), unless dx and dy are NULL. */
static void apply(const struct activation *a, size_t count, real *dx, real *y, const real *dy,
                  const real *x) {
    switch (a->curve) {
    case CURVE_GELU: map(gelu_at, count, dx, y, dy, x); break;
    case CURVE_GELU_TANH: map(gelu_tanh_at, count, dx, y, dy, x); break;
    case CURVE_RELU: map(relu_at, count, dx, y, dy, x); break;
    case CURVE_RELU2: map(relu2_at, count, dx, y, dy, x); break;
    case CURVE_SILU: map(silu_at, count, dx, y, dy, x); break;
    }
}

const struct activation activations[] = {
    {"gelu", CURVE_GELU, false},  {"gelu-tanh", CURVE_GELU_TANH, false},
    {"relu", CURVE_RELU, false},  {"relu2", CURVE_RELU2, false},
    {"silu", CURVE_SILU, false},  {"reglu", CURVE_RELU, true},
    {"geglu", CURVE_GELU, true},  {"geglu-tanh", CURVE_GELU_TANH, true},
    {"swiglu", CURVE_SILU, true}, {0},
};

size_t activation_inputs(const struct activation *a, size_t H) {
    return a->gated ? 2 * H : H;
}

void activation_forward(const struct activation *a, size_t M, size_t H, real *y, const real *x) {
    if (!a->gated) apply(a, M * H, NULL, y, NULL, x);
    for (size_t m = 0; a->gated && m < M; m++, y += H, x += 2 * H) {
        apply(a, H, NULL, y, NULL, x);
#pragma omp simd
        for (size_t i = 0; i < H; i++) y[i] *= x[H + i];
    }
    profile_lap(PROFILE_ELEMENTWISE);
}

void activation_backward(const struct activation *a, size_t M, size_t H, real *dx, real *y,
                         const real *dy, const real *x) {
    if (!a->gated) apply(a, M * H, dx, y, dy, x);
    for (size_t m = 0; a->gated && m < M; m++, y += H, dy += H, x += 2 * H, dx += 2 * H) {
        const real *u = x + H;
        real *du = dx + H;
#pragma omp simd
        for (size_t i = 0; i < H; i++) du[i] = dy[i] * u[i];
        apply(a, H, dx, y, du, x); // y = f(x)
#pragma omp simd
        for (size_t i = 0; i < H; i++) {
            du[i] = dy[i] * y[i];
            y[i] *= u[i];
        }
    }
    profile_lap(PROFILE_ELEMENTWISE);
}
