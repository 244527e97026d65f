/* exp, erf, tanh and the normal distribution, without branches or calls, so that the compiler
   vectorizes loops over them; also sqrt and log of a real.

   In double, all of them call libm: the gradient tests need accuracy, not speed. In float:

   exp     exp(x) = 2^n exp(r)
           n = round(x / ln 2), r = x - n ln 2 in [-ln2/2, ln2/2], exp(r) = 1 + r + r^2 p(r)
           ln 2 is split into two numbers, so that r is exact.
           Error below 1 ulp for x <= 0. x < -87.3 gives 0, NaN stays NaN.

   erf     erf(x) = x p(x^2)                        for |x| < 1
           erf(x) = sign(x) (1 - exp(-q(|x|)))      otherwise; q approximates -ln erfc on [1, 3.95]
           Error below 2.6 ulp (2.47 with a fused multiply-add, 2.53 without).

   tanh    tanh(x) = x + x^3 p(x^2)                 for |x| < 0.55
           tanh(x) = sign(x) (1 - e) / (1 + e)      otherwise; e = exp(-2 |x|)
           Error below 2 ulp.

   normal  Phi(-|x|) = exp(-x^2 / 2) R(|x|), R a polynomial on [0, 5.5]
           So the distribution function Phi and the density phi share one exp.
           Error of Phi below 1e-7 (8.3e-8 with a fused multiply-add, 9.2e-8 without).

   Long polynomials are evaluated in two chains, of even and odd powers, except for the last few
   terms. A single chain would have a longer latency than the processor can hide by working on other
   elements. The last terms are in one chain because that keeps the rounding error small.

   The polynomials are weighted minimax fits (Lawson's iteration on Chebyshev nodes). The tests
   measure the errors against libm. */
#pragma once

#include "model/math/real.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

/* exp(x) for x <= 0, or above 0 by rounding only. */
static inline float exp_nonpositive_float(float x) {
    const float round = 0x1.8p23f; // adding it puts the nearest integer, n, into the low bits
    float clamped = x < -87.33654f ? -87.33654f : x;
    float shifted = mul_add_float(clamped, 0x1.715476p0f, round);
    float n = shifted - round;
    float r = mul_add_float(-n, 0x1.62e4p-1f, clamped);
    r = mul_add_float(-n, 0x1.7f7d1cp-20f, r);
    float r2 = r * r;
    float p = mul_add_float(mul_add_float(0x1.6a244cp-10f, r, 0x1.1239d4p-7f), r2,
                            mul_add_float(0x1.5558f2p-5f, r, 0x1.555492p-3f));
    p = mul_add_float(p, r, 0x1.fffffcp-2f);
    float e = mul_add_float(p, r2, r) + 1, power;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 127) << 23; // of 2^n
    memcpy(&power, &bits, sizeof power);
    return x < -87.33654f ? 0 : e * power;
}

static inline float erf_float(float x) {
    float t = fabsf(x), s = x * x;
    float near = 7.853892e-05f;
    near = mul_add_float(near, s, -0.00080102036f);
    near = mul_add_float(near, s, 0.005188329f);
    near = mul_add_float(near, s, -0.026853813f);
    near = mul_add_float(near, s, 0.112835854f);
    near = mul_add_float(near, s, -0.37612626f);
    near = mul_add_float(near, s, 1.1283791f);
    near = near * t;
    float u = t > 3.95f ? 3.95f : t;
    float q = -0.00018637921f;
    q = mul_add_float(q, u, 0.0029476585f);
    q = mul_add_float(q, u, -0.021838065f);
    q = mul_add_float(q, u, 0.10310676f);
    q = mul_add_float(q, u, 0.63814485f);
    q = mul_add_float(q, u, 1.1270891f);
    q = mul_add_float(q, u, 0.00034152286f);
    float far = 1 - exp_nonpositive_float(-q);
    return copysignf(t < 1 ? near : far, x);
}

static inline float tanh_float(float x) {
    float t = fabsf(x), s = x * x;
    float near = -0.006047165486961603f;
    near = mul_add_float(near, s, 0.020912306383252144f);
    near = mul_add_float(near, s, -0.05381417274475098f);
    near = mul_add_float(near, s, 0.1333223134279251f);
    near = mul_add_float(near, s, -0.3333330750465393f);
    near = mul_add_float(near * s, x, x);
    float e = exp_nonpositive_float(-2 * t);
    float far = (1 - e) / (1 + e);
    return copysignf(t < 0.55f ? near : far, x);
}

/* Phi(x), and the density phi(x) in *density. */
static inline float normal_float(float x, float *density) {
    float t = fabsf(x), e = exp_nonpositive_float(-0.5f * x * x);
    float u = t > 5.5f ? 5.5f : t;
    float u2 = u * u;
    float even = 5.8529206370394604e-08f, odd = -1.6035809267123113e-06f;
    even = mul_add_float(even, u2, 1.989230077015236e-05f);
    odd = mul_add_float(odd, u2, -0.00014978754916228354f);
    even = mul_add_float(even, u2, 0.0007796629215590656f);
    odd = mul_add_float(odd, u2, -0.00305532687343657f);
    even = mul_add_float(even, u2, 0.009659767150878906f);
    odd = mul_add_float(odd, u2, -0.026069145649671555f);
    even = mul_add_float(even, u2, 0.06226237118244171f);
    float r = mul_add_float(odd, u, even);
    r = mul_add_float(r, u, -0.1329168975353241f);
    r = mul_add_float(r, u, 0.24999110400676727f);
    r = mul_add_float(r, u, -0.3989417850971222f);
    r = mul_add_float(r, u, 0.5f);
    float tail = e * r;
    *density = 0.3989422804f * e;
    return x < 0 ? tail : 1 - tail;
}

static inline real exp_nonpositive(real x) {
    return sizeof(real) == sizeof(float) ? (real)exp_nonpositive_float((float)x)
                                         : (real)exp((double)x);
}

static inline real tanh_real(real x) {
    return sizeof(real) == sizeof(float) ? (real)tanh_float((float)x) : (real)tanh((double)x);
}

static inline real sigmoid_real(real x) { // 1 / (1 + exp(-x))
    return (real)0.5 * (1 + tanh_real((real)0.5 * x));
}

static inline real erf_real(real x) {
    return sizeof(real) == sizeof(float) ? (real)erf_float((float)x) : (real)erf((double)x);
}

static inline real normal_real(real x, real *density) {
    if (sizeof(real) == sizeof(float)) {
        float phi, integral = normal_float((float)x, &phi);
        *density = (real)phi;
        return (real)integral;
    }
    *density = (real)(0.39894228040143267794 * exp(-0.5 * (double)x * (double)x));
    return (real)(0.5 * (1 + erf((double)x * 0.70710678118654752440)));
}

static inline real sqrt_real(real x) {
    return sizeof(real) == sizeof(float) ? (real)sqrtf((float)x) : (real)sqrt((double)x);
}

static inline real log_real(real x) {
    return sizeof(real) == sizeof(float) ? (real)logf((float)x) : (real)log((double)x);
}
