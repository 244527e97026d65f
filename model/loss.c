/* loss = ln sum_v exp(z_v) - z_target, with the largest z taken out of the sum;
   dloss/dz_v = softmax(z)_v - [v = target]. */
#include "loss.h"
#include "reduce.h"
#include "vecmath.h"
#include <string.h>

void loss_cross_entropy(size_t N, size_t V, real *losses, real *dlogits, real *logits,
                        const int32_t *targets, real scale) {
    size_t row = whole_vectors(V);
    for (size_t n = 0; n < N; n++) {
        real *z = logits + n * row, *dz = dlogits ? dlogits + n * row : z;
        if (targets[n] < 0) {
            losses[n] = 0;
            if (dlogits) memset(dz, 0, row * sizeof(real));
            continue;
        }
        real target = z[targets[n]];
        for (size_t v = V; v < row; v++) z[v] = -INFINITY; // no character has these
        real largest = row_largest(row, z);
#pragma omp simd
        for (size_t v = 0; v < row; v++) dz[v] = exp_nonpositive(z[v] - largest);
        real sum = row_sum(row, dz);
        losses[n] = log_real(sum) + largest - target;
        if (!dlogits) continue;
        real share = scale / sum;
#pragma omp simd
        for (size_t v = 0; v < row; v++) dz[v] *= share;
        dz[targets[n]] -= scale;
    }
}

void loss_correct(size_t N, size_t V, unsigned char *correct, const real *logits,
                  const int32_t *targets) {
    for (size_t n = 0; n < N; n++) {
        const real *z = logits + n * whole_vectors(V);
        correct[n] = targets[n] >= 0 && z[targets[n]] >= row_largest(V, z);
    }
}

size_t loss_sum(size_t N, const real *losses, const int32_t *targets, double *sum) {
    size_t valid = 0;
    *sum = 0;
    for (size_t n = 0; n < N; n++) {
        *sum += losses[n];
        valid += targets[n] >= 0;
    }
    return valid;
}
