/* For the logits z (V) of one token:

     loss         = ln sum_v exp(z_v - max z) + max z - z_target
     dloss / dz_v = softmax(z)_v - [v = target]

   The z-loss keeps ln Z near 0, where Z = sum_v exp z_v is the softmax's normalizer. It is not part
   of the losses that are returned, only of the gradient:

     d(w (ln Z)^2) / dz_v = 2 w ln Z softmax(z)_v

   Chowdhery et al. 2022, PaLM (arXiv:2204.02311), with w = 1e-4. */
#include "model/layer/loss.h"
#include "model/math/reduce.h"
#include "model/math/team.h"
#include "model/math/vecmath.h"
#include <string.h>

/* The loss of one row block. Each loop is a pass over all its tokens, so that the processor works
   on many tokens at once: token by token, each step would wait for the previous one. */
static void block_cross_entropy(const struct loss *loss, size_t N, real *losses, real *dlogits,
                                real *logits, const int32_t *targets) {
    size_t V = loss->V, row = vec_padded(V);
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
        real *dz = dlogits + n * row, factor = loss->scale / sum[n];
        if (targets[n] < 0) {
            memset(dz, 0, row * sizeof(real)); // even if the logits are NaN
            continue;
        }
        if (loss->z_loss > 0) factor *= 1 + 2 * loss->z_loss * (largest[n] + log_real(sum[n]));
#pragma omp simd
        for (size_t v = 0; v < row; v++) dz[v] *= factor;
        dz[targets[n]] -= loss->scale;
    }
}

void loss_cross_entropy(const struct loss *loss, size_t N, real *losses, real *dlogits,
                        real *logits, const int32_t *targets) {
    size_t row = vec_padded(loss->V);
    for (size_t n = 0; n < N; n += ROWS)
        block_cross_entropy(loss, size_min(N - n, ROWS), losses + n,
                            dlogits ? dlogits + n * row : NULL, logits + n * row, targets + n);
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
