/* Vectors of the machine's width, in the vector extensions of GCC and Clang: one source for
   AVX-512, AVX2, SSE, NEON and plain C. The usual operators work on them, lane by lane. Loops
   without a dependence between iterations do not need this: they are plain loops under
   `#pragma omp simd`. */
#pragma once

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
#elif defined(__wasm__) // of 16, a browser keeps some, and a product waits in one for its sum
#    define SIMD_BYTES     16
#    define SIMD_REGISTERS 12
#else
#    define SIMD_BYTES     16
#    define SIMD_REGISTERS 16
#endif

/* Reals in a vector. */
#define LANES ((int)(SIMD_BYTES / sizeof(real)))

typedef real vec __attribute__((vector_size(SIMD_BYTES)));
typedef real vec_unaligned
    __attribute__((vector_size(SIMD_BYTES), aligned(sizeof(real)), may_alias));

/* For functions called in hot loops: inlined, so that constant arguments select code at compile
   time. */
#define SIMD_INLINE static inline __attribute__((always_inline))

/* Before a loop of constant length, up to 32: unrolls it completely, so that an array that it
   indexes can stay in registers. */
#if defined(__clang__)
#    define SIMD_UNROLL _Pragma("clang loop unroll(full)")
#else
#    define SIMD_UNROLL _Pragma("GCC unroll 32")
#endif

/* Makes the compiler forget what it knows about the variable x. What depends on x is computed again
   after this, not kept from before. */
#define SIMD_HIDE(x) __asm__("" : "+r"(x))

/* Loads after this are not moved before it. GCC for ARM moves the loads of a loop's body to its
   start, where their values need more registers than there are. */
#if defined(__aarch64__)
#    define SIMD_LOADS_IN_ORDER() __asm__ volatile("" : : : "memory")
#else
#    define SIMD_LOADS_IN_ORDER() ((void)0)
#endif

SIMD_INLINE vec vec_load(const real *p) { // p[0 .. LANES), any alignment
    return *(const vec_unaligned *)p;
}

SIMD_INLINE void vec_store(real *p, vec v) {
    *(vec_unaligned *)p = v;
}

SIMD_INLINE vec vec_splat(real x) {
    return x - (vec){0};
}

/* Load and store of the first n <= LANES elements only. A load sets the other lanes to 0, a store
   leaves the other elements as they are. x86 masks with one instruction from AVX on. A mask for the
   same n is computed once before a loop. */
#if defined(__AVX512F__)
SIMD_INLINE vec vec_load_first(const real *p, size_t n) {
    return sizeof(real) == sizeof(float) ? (vec)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p)
                                         : (vec)_mm512_maskz_loadu_pd((__mmask8)((1u << n) - 1), p);
}

SIMD_INLINE void vec_store_first(real *p, vec v, size_t n) {
    if (sizeof(real) == sizeof(float))
        _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
    else
        _mm512_mask_storeu_pd(p, (__mmask8)((1u << n) - 1), (__m512d)v);
}
#elif defined(__AVX__)
SIMD_INLINE __m256i vec_mask_first(size_t n) { // all bits of the first n lanes
    vec lane;
    for (int i = 0; i < LANES; i++) lane[i] = (real)i;
    return (__m256i)(lane < vec_splat((real)n));
}

SIMD_INLINE vec vec_load_first(const real *p, size_t n) {
    return sizeof(real) == sizeof(float)
               ? (vec)_mm256_maskload_ps((const float *)p, vec_mask_first(n))
               : (vec)_mm256_maskload_pd((const double *)p, vec_mask_first(n));
}

SIMD_INLINE void vec_store_first(real *p, vec v, size_t n) {
    if (sizeof(real) == sizeof(float))
        _mm256_maskstore_ps((float *)p, vec_mask_first(n), (__m256)v);
    else
        _mm256_maskstore_pd((double *)p, vec_mask_first(n), (__m256d)v);
}
#else
SIMD_INLINE vec vec_load_first(const real *p, size_t n) {
    vec v = {0};
    SIMD_UNROLL
    for (size_t i = 0; i < (size_t)LANES; i++)
        if (i < n) v[i] = p[i];
    return v;
}

SIMD_INLINE void vec_store_first(real *p, vec v, size_t n) {
    SIMD_UNROLL
    for (size_t i = 0; i < (size_t)LANES; i++)
        if (i < n) p[i] = v[i];
}
#endif

/* a b + c in each lane, rounded as by mul_add(). (On x86, GCC 12 compiles some loops over mul_add()
   to scalar code; hence the intrinsics.) */
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

/* vec_interleave(a, b, half): a0 b0 a1 b1 ... of the lower (half 0) or upper (half 1) half of the
   lanes; only with SIMD_SHUFFLES, where the compiler has shuffles for every machine. */
#if defined(__GNUC__) && !defined(__clang__)
#    define SIMD_SHUFFLES 1
typedef __typeof__((vec){0} < (vec){0}) vec_index;

SIMD_INLINE vec vec_interleave(vec a, vec b, const int half) {
    vec_index index;
    for (int i = 0; i < LANES; i++) index[i] = half * LANES / 2 + i / 2 + i % 2 * LANES;
    return __builtin_shuffle(a, b, index);
}
#endif

/* 16 bytes: on these, sums and moves take the least time. */
typedef real vec_short __attribute__((vector_size(16)));
enum { SHORT_LANES = 16 / sizeof(real) };

/* Joins the halves of v until 16 bytes are left. */
SIMD_INLINE vec_short vec_fold(vec v, vec_short (*join)(vec_short a, vec_short b)) {
#if defined(__AVX512F__)
    __m512 x = (__m512)v;
    return join(
        join((vec_short)_mm512_castps512_ps128(x), (vec_short)_mm512_extractf32x4_ps(x, 2)),
        join((vec_short)_mm512_extractf32x4_ps(x, 1), (vec_short)_mm512_extractf32x4_ps(x, 3)));
#elif defined(__AVX__)
    __m256 x = (__m256)v;
    return join((vec_short)_mm256_castps256_ps128(x), (vec_short)_mm256_extractf128_ps(x, 1));
#else
    return v;
#endif
}

SIMD_INLINE vec vec_max(vec a, vec b) { // in each lane; b where a or b is NaN
    for (int i = 0; i < LANES; i++) a[i] = a[i] > b[i] ? a[i] : b[i];
    return a;
}

/* n rounded up to full vectors. The compiler knows that a loop up to this count has no scalar
   remainder. */
static inline size_t vec_padded(size_t n) {
    return (n + LANES - 1) & ~(size_t)(LANES - 1);
}
