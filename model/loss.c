/* loss = ln sum_v exp(z_v) - z_target, with the largest z taken out of the sum;
   dloss/dz_v = softmax(z)_v - [v = target]. */
#include "loss.h"
#include "vecmath.h"
#include <string.h>

void loss_cross_entropy(size_t N, size_t V, real *losses, real *dlogits, const real *logits,
                        const int32_t *targets, real scale) {
#pragma omp parallel for
    for (size_t n = 0; n < N; n++) {
        const real *z = logits + n * V;
        real *dz = dlogits ? dlogits + n * V : NULL;
        if (targets[n] < 0) {
            losses[n] = 0;
            if (dz) memset(dz, 0, V * sizeof(real));
            continue;
        }
        real largest = z[0], sum = 0;
#pragma omp simd reduction(max : largest)
        for (size_t v = 0; v < V; v++) largest = z[v] > largest ? z[v] : largest;
#pragma omp simd reduction(+ : sum)
        for (size_t v = 0; v < V; v++) sum += exp_real(z[v] - largest);
        losses[n] = log_real(sum) + largest - z[targets[n]];
        if (!dz) continue;
        real share = scale / sum;
#pragma omp simd
        for (size_t v = 0; v < V; v++) dz[v] = share * exp_real(z[v] - largest);
        dz[targets[n]] -= scale;
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
