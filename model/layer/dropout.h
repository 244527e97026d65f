/* Dropout: in training each element is zero with probability p, else multiplied by 1 / (1 - p).

   The mask is a function of a key and the element's index (counter-based), so backward computes it
   again instead of reading it back. Srivastava et al. 2014, in the inverted form of PyTorch. */
#ifndef DROPOUT_H
#define DROPOUT_H

#include "data/random.h"
#include "model/math/real.h"
#include <stddef.h>

struct dropout {
    uint64_t key;       // seed + step + site
    uint64_t threshold; // bits below it are dropped; 0: nothing is
    real scale;
};

static inline struct dropout dropout_make(double p, uint64_t key) {
    return (struct dropout){key, (uint64_t)(p * 0x1p32), (real)(1 / (1 - p))};
}

/* The factor of element i: 0 or 1 / (1 - p). */
static inline real dropout_factor(struct dropout d, uint64_t i) {
    return random_bits(d.key, i) >> 32 < d.threshold ? 0 : d.scale;
}

/* y (count) = x times its factors, x beginning at element `first`. */
static inline void dropout_apply(struct dropout d, size_t first, size_t count, real *y,
                                 const real *x) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) y[i] = x[i] * dropout_factor(d, first + i);
}

#endif
