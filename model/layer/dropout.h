/* Dropout: in training, each element is set to zero with probability p, otherwise multiplied by
   1 / (1 - p). Backward multiplies the gradient by the same factors.

   The factor is a function of a key and the element's index (a counter-based random generator), so
   no mask is stored: backward computes the factors again. Srivastava et al. 2014, in PyTorch's form
   (scaled in training, not in evaluation). */
#pragma once

#include "data/random.h"
#include "model/math/team.h"
#include <stddef.h>

struct dropout {
    uint64_t key;       // from the seed, the step and the site
    uint64_t threshold; // an element whose 32 random bits are below it is dropped; 0: none is
    real scale;         // 1 / (1 - p)
    uint64_t first;     // the index of element 0 in a batch of which this is a part
};

static inline struct dropout dropout_make(double p, uint64_t key, uint64_t first) {
    return (struct dropout){key, (uint64_t)(p * 0x1p32), (real)(1 / (1 - p)), first};
}

/* The factor of element i: 0 or 1 / (1 - p); 1 without dropout. */
static inline real dropout_factor(struct dropout d, uint64_t i) {
    if (!d.threshold) return 1;
    return random_bits(d.key, d.first + i) >> 32 < d.threshold ? 0 : d.scale;
}

/* sum = a x + b drop(f), for some elements of the batch; without a x if x is NULL. The arrays start
   with the first of them; dropout needs their numbers in the batch. sum may be x or f. */
static inline void dropout_axpby(struct range elements, real *sum, real a, const real *x, real b,
                                 const real *f, struct dropout drop) {
    size_t count = elements.end - elements.begin;
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        const real branch = b * f[i] * dropout_factor(drop, elements.begin + i);
        sum[i] = x ? mul_add(a, x[i], branch) : branch;
    }
    profile_lap(PROFILE_ELEMENTWISE);
}
