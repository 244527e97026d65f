/* The head: from its input to the logits y (V) of each token, the losses, and back.

     z = g (head_in whead^T)                   g of gain.h, or 1
     y = c tanh(z / c)                         a soft cap, nearly z where |z| is small; else y = z
     loss         = ln sum_v exp(y_v - max y) + max y - y_target
     dloss / dy_v = softmax(y)_v - [v = target]
     dz           = dy (1 - tanh^2(z / c)) = dy (1 - (y / c)^2)

   The z-loss keeps ln Z near 0, where Z = sum_v exp y_v is the softmax's normalizer. It is not part
   of the losses that are returned, only of the gradient:

     d(w (ln Z)^2) / dy_v = 2 w ln Z softmax(y)_v

   Logits are never stored for all tokens. Backward takes HEAD_ROWS tokens from logits to dlogits to
   the gradients, then the next; in evaluation a thread has the logits of ROWS tokens.

   Chowdhery et al. 2022, PaLM (arXiv:2204.02311), the z-loss with w = 1e-4. Bello et al. 2016
   (arXiv:1611.09940) and Gemma 2 (arXiv:2408.00118), the cap; attention caps its scores by itself,
   with a query in each lane. */
#include "model/head.h"
#include "model/math/matmul.h"
#include "model/math/reduce.h"
#include "model/math/vecmath.h"
#include <string.h>

/* ---- losses from logits ---- */

/* Each loop is a pass over all tokens, so that the processor works on many at once: token by token,
   each step would wait for the previous one. */
void loss_cross_entropy(const struct loss *loss, size_t N, real *losses, real *dlogits,
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

size_t loss_sum(size_t N, const real *losses, const int32_t *targets, double *sum) {
    size_t valid = 0;
    *sum = 0;
    for (size_t n = 0; n < N; n++) {
        *sum += losses[n];
        valid += targets[n] >= 0;
    }
    return valid;
}

/* ---- from the input of the head ---- */

/* z (M,V) of M <= ROWS tokens from `begin` on, in the calling thread's buffer. Its rows are padded to
   vec_padded(V), for loops over full vectors, which linear_forward() would not do. */
static real *head_forward(const struct model *m, size_t begin, size_t M) {
    size_t row = vec_padded(m->V), buffers = gain_present(&m->logit_gain) ? 2 : 1;
    real *z = m->logits + (size_t)omp_get_thread_num() * buffers * ROWS * row;
    matmul(M, row, m->C, matrix_of(m->head_in + begin * m->C, m->C),
           matrix_panels(m->head.panels_forward, m->C), matrix_of(z, row), matrix_zeros());
    profile_lap(PROFILE_FORWARD);
    return z;
}

/* The logits (M,V) from z. Both are in the calling thread's buffer: the logits are z itself where
   nothing else needs z, or the rows after it. */
static real *logits_forward(const struct model *m, size_t M, real *z) {
    const size_t row = vec_padded(m->V);
    const real c = (real)m->config.logit_softcap, inverse = 1 / c;
    real *logits = gain_present(&m->logit_gain) ? z + ROWS * row : z;
    if (logits != z) gain_forward(&m->logit_gain, M, logits, row, z, row);
    if (c > 0)
#pragma omp simd
        for (size_t i = 0; i < M * row; i++) logits[i] = c * tanh_real(inverse * logits[i]);
    return logits;
}

/* dlogits (M,V) of row block `block` becomes the gradient of z. */
static void logits_backward(const struct model *m, size_t block, size_t M, real *dlogits,
                            const real *logits, const real *z) {
    const size_t row = vec_padded(m->V), V = m->V;
    const real c = (real)m->config.logit_softcap, inverse = 1 / c;
    for (size_t n = 0; c > 0 && n < M * row; n += row)
#pragma omp simd
        for (size_t i = n; i < n + V; i++) {
            const real t = inverse * logits[i];
            dlogits[i] *= 1 - t * t;
        }
    if (gain_present(&m->logit_gain)) gain_backward(&m->logit_gain, block, M, dlogits, row, z, row);
}

const real *head_logits(struct model *m, size_t n) {
    real *z = m->logits;
    linear_forward(&m->head, 1, z, m->head_in + n * m->C);
    return logits_forward(m, 1, z);
}

/* 1/k if the target is one of the k likeliest characters, so that a model that cannot choose among
   them is as accurate as a guess; else 0, as without a target. */
static real hit(size_t V, const real *logits, int32_t target) {
    if (target < 0) return 0;
    const real z = logits[target];
    int ties = 0, higher = 0;
#pragma omp simd reduction(+ : ties, higher)
    for (size_t v = 0; v < V; v++) {
        ties += logits[v] == z;
        higher += !(logits[v] <= z);
    }
    return higher ? 0 : 1 / (real)ties;
}

/* The work of a team that measures the loss. */
struct measured {
    struct model *m;
    const struct batch *batch;
};

static void loss_work(void *argument) {
    const struct measured *work = argument;
    struct model *m = work->m;
    const struct batch *batch = work->batch;
    struct range rows = team_part(batch->B * batch->T, ROWS);
    const struct loss loss = {.V = m->V};
    real *losses = m->losses + batch->first * batch->T;
    real *correct = m->correct + batch->first * batch->T;
    for (size_t n = rows.begin; n < rows.end; n += ROWS) {
        size_t M = team_row_block(n, rows).end - n;
        real *logits = logits_forward(m, M, head_forward(m, n, M));
        for (size_t i = n; i < n + M; i++)
            correct[i] = hit(m->V, logits + (i - n) * vec_padded(m->V), batch->targets[i]);
        loss_cross_entropy(&loss, M, losses + n, NULL, logits, batch->targets + n);
    }
    profile_lap(PROFILE_LOSS);
    team_barrier();
}

size_t head_loss(struct model *m, const struct batch *batch, double *sum) {
    size_t N = batch->B * batch->T;
    team_run(model_team_size(m, N), loss_work, &(struct measured){m, batch});
    return loss_sum(N, m->losses + batch->first * batch->T, batch->targets, sum);
}

void head_backward(struct model *m, const struct batch *batch, const struct parts *parts,
                   real *dhead_in, real scale) {
    size_t N = batch->B * batch->T, row = vec_padded(m->V), C = m->C;
    const struct loss loss = {m->V, scale, (real)m->config.z_loss};
    real *losses = m->losses + batch->first * batch->T;
    size_t limit = HEAD_ROWS / linear_sum_rows(parts) * linear_sum_rows(parts);
    for (size_t first = 0; first < N; first += limit) {
        size_t count = size_min(N - first, limit);
        struct range rows = team_part(count, ROWS);
        team_barrier();
        for (size_t i = rows.begin; i < rows.end; i += ROWS) {
            size_t M = team_row_block(i, rows).end - i, n = first + i;
            real *z = head_forward(m, n, M), *logits = logits_forward(m, M, z);
            real *dlogits = m->dlogits + i * row;
            loss_cross_entropy(&loss, M, losses + n, dlogits, logits, batch->targets + n);
            profile_lap(PROFILE_LOSS);
            logits_backward(m, n / ROWS, M, dlogits, logits, z);
            matmul(M, C, m->V, matrix_of(dlogits, row), linear_weight(&m->head),
                   matrix_of(dhead_in + n * C, C), matrix_zeros());
            profile_lap(PROFILE_INPUT);
        }
        team_barrier();
        linear_weight_gradient(&m->head, parts, (struct range){first, first + count},
                               matrix_of(m->dlogits, row), matrix_of(m->head_in + first * C, C));
    }
    team_barrier();
}
