/* The operations outside the layers. Between the embedding and the first layer: the embeddings'
   scale and EMBEDDING. Between the last layer and the head: READ and FINAL. Then the head, from its
   input to the losses and back. See the table of model_pass.c.

   Logits are never stored for all tokens. The head's backward takes HEAD_ROWS tokens from logits to
   dlogits to its gradients, then the next; in evaluation a thread has the logits of ROWS tokens. */
#include "model/outer.h"
#include "model/layer/loss.h"
#include "model/layer/residual.h"
#include "model/layer/softcap.h"
#include "model/math/matmul.h"
#include "model/math/simd.h"

/* y (B,T,C) = norm(x), for a norm outside the layers; nothing if it is the identity. */
static void outer_norm_forward(const struct norm *norm, const struct pass *pass, real *y,
                               const real *x) {
    struct range own = team_part_rows(pass->rows);
    size_t at = own.begin * norm->C;
    norm_statistics(norm, &pass->tokens, x);
    if (norm_present(norm)) norm_forward(norm, &pass->tokens, own, y + at, x + at);
}

/* dx (B,T,C) from dy (B,T,C). Returns dx, or dy if the norm is the identity. */
static real *outer_norm_backward(const struct norm *norm, const struct pass *pass, real *dx,
                                 real *dy, const real *x) {
    struct range own = team_part_rows(pass->rows);
    size_t at = own.begin * norm->C;
    norm_gradient_statistics(norm, &pass->tokens, dy, x);
    if (!norm_present(norm)) return dy;
    norm_backward(norm, &pass->tokens, own, dx + at, dy + at, x + at);
    return dx;
}

void outer_start_forward(const struct model *m, const struct pass *pass) {
    struct range own = team_part_rows(pass->rows);
    gain_forward_kept(&m->embd_scale, own, m->embedded + own.begin * m->C, m->C);
    outer_norm_forward(&m->embedding_norm, pass, m->stream_in, m->embedded);
}

void outer_end_forward(const struct model *m, const struct pass *pass) {
    const struct connection *end = &m->end;
    norm_statistics(&end->norm, &pass->tokens, end->norm_in);
    if (end->kind) end->kind->functions->read(end, &pass->tokens, team_part_rows(pass->rows));
    outer_norm_forward(&m->final, pass, m->final_out, model_final_in(m));
}

size_t outer_end_backward(const struct model *m, const struct pass *pass) {
    const struct connection *end = &m->end;
    struct range own = team_part_rows(pass->rows);
    size_t now = norm_present(&m->final) ? 1 : 0;
    real *d = outer_norm_backward(&m->final, pass, m->dstream[1], m->dstream[0], model_final_in(m));
    norm_gradient_statistics(&end->norm, &pass->tokens, d, end->norm_in);
    d += own.begin * m->C;
    if (end->kind) end->kind->functions->read_backward(end, &pass->tokens, own, d, NULL, d, NULL);
    return now;
}

/* Adds to d (B,T,C) the gradient that reaches the embeddings by other ways than stream_in. */
static void add_dembedded(const struct model *m, const struct pass *pass, real *d) {
    struct range own = team_part_rows(pass->rows);
    size_t at = own.begin * m->C, count = (own.end - own.begin) * m->C;
    const real *beside = m->layer[0].attention.connection.dembedded;
    if (beside) residual_add(count, d + at, 1, d + at, beside + at);
}

const real *outer_start_backward(const struct model *m, const struct pass *pass, real *dx,
                                 real *dstream_in) {
    const bool same = !norm_present(&m->embedding_norm);
    const struct range own = team_part_rows(pass->rows);
    if (same) add_dembedded(m, pass, dstream_in);
    if (pass->tokens.probe)
        residual_squares(own, m->C, m->dstream_in_squares, dstream_in + own.begin * m->C);
    real *d = outer_norm_backward(&m->embedding_norm, pass, dx, dstream_in, m->embedded);
    if (!same) add_dembedded(m, pass, d);
    gain_backward_kept(&m->embd_scale, own, d + own.begin * m->C, m->C);
    return d;
}

void outer_gradient(const struct model *m, const struct parts *parts) {
    gain_gradient(&m->embd_scale, parts);
    norm_gradient(&m->embedding_norm, parts);
    norm_gradient(&m->final, parts);
    if (m->end.kind) connection_gradient(&m->end, parts);
}

/* ---- the head ---- */

/* z (M,V) of M <= ROWS tokens from `begin` on, with row stride vec_padded(V), in the calling
   thread's buffer. */
static real *head_forward(const struct model *m, size_t begin, size_t M) {
    size_t row = vec_padded(m->V), buffers = gain_present(&m->logit_gain) ? 2 : 1;
    real *z = m->logits + (size_t)omp_get_thread_num() * buffers * ROWS * row;
    matmul(M, row, m->C, matrix_of(m->head_in + begin * m->C, m->C),
           matrix_panels(m->head.forward, m->C), matrix_of(z, row), matrix_zeros());
    profile_lap(PROFILE_FORWARD);
    return z;
}

/* The logits (M,V) from z. Both are in the calling thread's buffer: the logits are z itself where
   nothing else needs z, or the rows after it. */
static real *logits_forward(const struct model *m, size_t M, real *z) {
    size_t row = vec_padded(m->V);
    real *logits = gain_present(&m->logit_gain) ? z + ROWS * row : z;
    if (logits != z) gain_forward(&m->logit_gain, M, logits, row, z, row);
    if (m->config.logit_softcap > 0)
        softcap_forward((real)m->config.logit_softcap, M * row, logits, logits);
    return logits;
}

/* dlogits (M,V) of row block `block` becomes the gradient of z. */
static void logits_backward(const struct model *m, size_t block, size_t M, real *dlogits,
                            const real *logits, const real *z) {
    size_t row = vec_padded(m->V);
    for (size_t n = 0; m->config.logit_softcap > 0 && n < M; n++)
        softcap_backward((real)m->config.logit_softcap, m->V, dlogits + n * row, logits + n * row);
    if (gain_present(&m->logit_gain)) gain_backward(&m->logit_gain, block, M, dlogits, row, z, row);
}

const real *model_logits(struct model *m, size_t n) {
    real *z = m->logits;
    linear_forward_shared(&m->head, 1, z, m->head_in + n * m->C);
    return logits_forward(m, 1, z);
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
    struct range own = team_part(batch->B * batch->T, ROWS);
    const struct loss loss = {.V = m->V};
    real *losses = m->losses + batch->first * batch->T;
    unsigned char *correct = m->correct + batch->first * batch->T;
    for (size_t n = own.begin; n < own.end; n += ROWS) {
        size_t M = team_row_block(n, own).end - n;
        real *logits = logits_forward(m, M, head_forward(m, n, M));
        loss_correct(M, m->V, correct + n, logits, batch->targets + n);
        loss_cross_entropy(&loss, M, losses + n, NULL, logits, batch->targets + n);
    }
    profile_lap(PROFILE_LOSS);
    team_barrier();
}

size_t model_loss(struct model *m, const struct batch *batch, double *sum) {
    size_t N = batch->B * batch->T;
    team_run(model_team_size(m, N), loss_work, &(struct measured){m, batch});
    return loss_sum(N, m->losses + batch->first * batch->T, batch->targets, sum);
}

size_t model_correct(const struct model *m, const struct batch *batch) {
    size_t correct = 0;
    for (size_t n = 0; n < batch->B * batch->T; n++)
        correct += m->correct[batch->first * batch->T + n];
    return correct;
}

void head_backward(struct model *m, const struct batch *batch, const struct parts *parts,
                   real *dhead_in, real scale) {
    size_t N = batch->B * batch->T, row = vec_padded(m->V), C = m->C;
    const struct loss loss = {m->V, scale, (real)m->config.z_loss};
    real *losses = m->losses + batch->first * batch->T;
    size_t most = HEAD_ROWS / linear_sum_rows(parts) * linear_sum_rows(parts);
    for (size_t first = 0; first < N; first += most) {
        size_t count = size_min(N - first, most);
        struct range own = team_part(count, ROWS);
        team_barrier();
        for (size_t i = own.begin; i < own.end; i += ROWS) {
            size_t M = team_row_block(i, own).end - i, n = first + i;
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
        linear_weight_gradient(&m->head, parts, (struct range){first, first + count}, m->dlogits,
                               row, m->head_in + first * C);
    }
    team_barrier();
}
