/* For the logits z (V) of one token:

     loss         = ln sum_v exp(z_v - max z) + max z - z_target
     dloss / dz_v = softmax(z)_v - [v = target] */
#include "model/layer/loss.h"
#include "model/math/reduce.h"
#include "model/math/team.h"
#include "model/math/vecmath.h"
#include <string.h>

/* The same for one row block. Each loop is a pass over all its tokens, so that the processor works
   on many tokens at once: done token by token, each step would wait for the one before. */
static void block_cross_entropy(size_t N, size_t V, real *losses, real *dlogits, real *logits,
                                const int32_t *targets, real scale) {
    size_t row = vec_padded(V);
    real *exponentials = dlogits ? dlogits : logits; // (N,V)
    real largest[ROWS], sum[ROWS];
    for (size_t n = 0; n < N; n++) {
        real *z = logits + n * row;
#pragma omp simd
        for (size_t v = row - LANES; v < row; v++) z[v] = v < V ? z[v] : -INFINITY; // padding
        largest[n] = row_max(row, z);
        losses[n] = targets[n] < 0 ? 0 : largest[n] - z[targets[n]];
    }
    for (size_t n = 0; n < N; n++)
#pragma omp simd
        for (size_t v = 0; v < row; v++)
            exponentials[n * row + v] = exp_nonpositive(logits[n * row + v] - largest[n]);
    for (size_t n = 0; n < N; n++) sum[n] = row_sum(row, exponentials + n * row);
    for (size_t n = 0; n < N; n++) losses[n] += targets[n] < 0 ? 0 : log_real(sum[n]);
    for (size_t n = 0; dlogits && n < N; n++) {
        real *dz = dlogits + n * row, factor = scale / sum[n];
        if (targets[n] < 0) {
            memset(dz, 0, row * sizeof(real)); // even if the logits are NaN
            continue;
        }
#pragma omp simd
        for (size_t v = 0; v < row; v++) dz[v] *= factor;
        dz[targets[n]] -= scale;
    }
}

void loss_cross_entropy(size_t N, size_t V, real *losses, real *dlogits, real *logits,
                        const int32_t *targets, real scale) {
    size_t row = vec_padded(V);
    for (size_t n = 0; n < N; n += ROWS)
        block_cross_entropy(size_min(N - n, ROWS), V, losses + n,
                            dlogits ? dlogits + n * row : NULL, logits + n * row, targets + n,
                            scale);
}

void loss_correct(size_t N, size_t V, unsigned char *correct, const real *logits,
                  const int32_t *targets) {
    for (size_t n = 0; n < N; n++) {
        const real *z = logits + n * vec_padded(V);
        correct[n] = targets[n] >= 0 && z[targets[n]] >= row_max(V, z);
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
