/* The number type of the model: float, or double under -DREAL=double, in which the tests
   check every gradient against finite differences.

   The source alone decides where results are rounded. The compiler may not fuse a product and a sum
   by itself (-ffp-contract=off in the Makefile): it would do so in one loop and not in another, and
   generation would differ from the full forward pass in the last bits. Where a fused multiply-add
   is faster, the source calls mul_add(). */
#pragma once

#include <stddef.h>

#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) ||                                     \
    (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#    error                                                                                         \
        "build without -Ofast and -ffast-math: no NaN would be found, and sums would have other bits"
#elif defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ == 2
#    error "floats must be computed as floats (32-bit x86: -msse2 -mfpmath=sse)"
#elif defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#    error "this machine is big-endian, but the files of models are little-endian"
#endif

#ifndef REAL
#    define REAL float
#endif

typedef REAL real;

/* Whether this processor has a fused multiply-add (Clang does not define __FP_FAST_FMAF on x86). */
#if defined(__FP_FAST_FMAF) || defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#    define REAL_FUSED 1
#else
#    define REAL_FUSED 0
#endif

/* a b + c, rounded once where the processor has the fused instruction, otherwise twice. */
static inline __attribute__((always_inline)) float mul_add_float(float a, float b, float c) {
    return REAL_FUSED ? __builtin_fmaf(a, b, c) : a * b + c;
}

/* The same for reals. */
static inline __attribute__((always_inline)) real mul_add(real a, real b, real c) {
    if (sizeof(real) == sizeof(float)) return (real)mul_add_float((float)a, (float)b, (float)c);
    return (real)(REAL_FUSED ? __builtin_fma((double)a, (double)b, (double)c)
                             : (double)a * (double)b + (double)c);
}

static inline size_t size_min(size_t a, size_t b) {
    return a < b ? a : b;
}

static inline size_t size_max(size_t a, size_t b) {
    return a > b ? a : b;
}
