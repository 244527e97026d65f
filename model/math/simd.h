/* Vectors of the machine's width, as GCC and Clang spell them: one source for AVX-512, AVX2, SSE,
   NEON and plain C. Arithmetic on them is elementwise with the usual operators. Loops without a
   dependence need none of this: they are written plainly under `#pragma omp simd`. */
#ifndef SIMD_H
#define SIMD_H

#include "model/math/real.h"
#include <stddef.h>

#if defined(__AVX__)
#    include <immintrin.h>
#endif

#if defined(__AVX512F__)
#    define SIMD_BYTES     64
#    define SIMD_REGISTERS 32
#elif defined(__AVX__)
#    define SIMD_BYTES     32
#    define SIMD_REGISTERS 16
#elif defined(__aarch64__)
#    define SIMD_BYTES     16
#    define SIMD_REGISTERS 32
#else
#    define SIMD_BYTES     16
#    define SIMD_REGISTERS 16
#endif

/* Reals in a vector. */
#define LANES ((int)(SIMD_BYTES / sizeof(real)))

typedef real vec __attribute__((vector_size(SIMD_BYTES)));
typedef real vec_anywhere
    __attribute__((vector_size(SIMD_BYTES), aligned(sizeof(real)), may_alias));

/* Functions below the hot loops must be inlined for their constant arguments to become code. */
#define SIMD_INLINE static inline __attribute__((always_inline))

/* The compiler forgets what it knows of the variable x: what depends on x is computed anew behind
   this, not kept from before. */
#define SIMD_HIDE(x) __asm__("" : "+r"(x))

SIMD_INLINE vec vec_load(const real *p) { // p[0 .. LANES), any alignment
    return *(const vec_anywhere *)p;
}

SIMD_INLINE void vec_store(real *p, vec v) {
    *(vec_anywhere *)p = v;
}

/* The first n <= LANES lanes, the others 0 or left alone. */
SIMD_INLINE vec vec_load_first(const real *p, size_t n) {
#ifdef __AVX512F__
    return sizeof(real) == sizeof(float) ? (vec)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p)
                                         : (vec)_mm512_maskz_loadu_pd((__mmask8)((1u << n) - 1), p);
#else
    vec v = {0};
    for (size_t i = 0; i < n; i++) v[i] = p[i];
    return v;
#endif
}

SIMD_INLINE void vec_store_first(real *p, vec v, size_t n) {
#ifdef __AVX512F__
    if (sizeof(real) == sizeof(float))
        _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
    else
        _mm512_mask_storeu_pd(p, (__mmask8)((1u << n) - 1), (__m512d)v);
#else
    for (size_t i = 0; i < n; i++) p[i] = v[i];
#endif
}

SIMD_INLINE vec vec_splat(real x) {
    return x - (vec){0};
}

/* a b + c in each lane, rounded as mul_add() does. (On x86 GCC 12 makes scalar code of some of such
   loops, so there the instruction is named.) */
SIMD_INLINE vec vec_mul_add(vec a, vec b, vec c) {
    if (!REAL_FUSED) return a * b + c;
#if defined(__AVX512F__)
    if (sizeof(real) == sizeof(float)) return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
    return (vec)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__FMA__)
    if (sizeof(real) == sizeof(float)) return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
    return (vec)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
    for (int i = 0; i < LANES; i++) c[i] = mul_add(a[i], b[i], c[i]);
    return c;
#endif
}

/* Shuffles, where the compiler has them for any machine: vec_interleave() is a0 b0 a1 b1 ... of the
   lower (half 0) or the upper half of the lanes, vec_fold() moves lane i + shift to lane i. */
#if defined(__GNUC__) && !defined(__clang__)
#    define SIMD_SHUFFLES 1
typedef __typeof__((vec){0} < (vec){0}) vec_index;

SIMD_INLINE vec vec_interleave(vec a, vec b, const int half) {
    vec_index index;
    for (int i = 0; i < LANES; i++) index[i] = half * LANES / 2 + i / 2 + i % 2 * LANES;
    return __builtin_shuffle(a, b, index);
}

SIMD_INLINE vec vec_fold(vec v, const int shift) {
    vec_index index;
    for (int i = 0; i < LANES; i++) index[i] = (i + shift) % LANES;
    return __builtin_shuffle(v, index);
}
#else
SIMD_INLINE vec vec_fold(vec v, const int shift) {
    vec folded;
    for (int i = 0; i < LANES; i++) folded[i] = v[(i + shift) % LANES];
    return folded;
}
#endif

SIMD_INLINE vec vec_max(vec a, vec b) { // of each lane; b where a is NaN
    for (int i = 0; i < LANES; i++) a[i] = a[i] > b[i] ? a[i] : b[i];
    return a;
}

/* n rounded up to whole vectors. The compiler sees that a loop up to there leaves no scalar end. */
static inline size_t vec_padded(size_t n) {
    return (n + LANES - 1) & ~(size_t)(LANES - 1);
}

#endif
