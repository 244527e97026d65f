/* Vectors of the machine's width, as GCC and Clang spell them: one source for AVX-512, AVX2, SSE,
   NEON and plain C. Arithmetic on them is elementwise with the usual operators. Loops without a
   dependence need none of this: they are written plainly under `#pragma omp simd`. */
#ifndef SIMD_H
#define SIMD_H

#include "real.h"

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

SIMD_INLINE vec vec_load(const real *p) { // p[0 .. LANES), any alignment
    return *(const vec_anywhere *)p;
}

SIMD_INLINE void vec_store(real *p, vec v) {
    *(vec_anywhere *)p = v;
}

SIMD_INLINE vec vec_splat(real x) {
    return x - (vec){0};
}

#endif
