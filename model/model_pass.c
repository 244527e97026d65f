/* ids (B,T) -> wte + wpe -> L x (attention, MLP) -> final norm -> wte^T -> logits (B,T,V) -> loss.
   The head is the token embedding transposed, so dwte gets a share from either end.

   Logits are never stored as a whole: the head takes HEAD_ROWS tokens at a time from logits to
   dlogits to its gradients, and a thread keeps the logits of ROWS tokens. */
#include "model/layer/embedding.h"
#include "model/layer/loss.h"
#include "model/layer/residual.h"
#include "model/math/matmul.h"
#include "model/math/profile.h"
#include "model/math/reduce.h"
#include "model/math/simd.h"
#include "model/model.h"
#include <string.h>

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* How many threads a pass over N tokens is worth: below some millions of operations for each,
   waiting for one another costs more than it brings. */
static int team_size(const struct model *m, size_t N) {
    size_t threads = m->threads;
    if (!threads) {
        const double worth = 8e6;
        double parameters = (double)m->L * 12 * (double)(m->C * m->C) + (double)(m->V * m->C);
        double operations = (double)N * (6 * parameters + 12 * (double)(m->L * m->C * m->T));
        double most = operations / worth;
        threads = most < 1 ? 1 : most < 1e6 ? (size_t)most : (size_t)1e6;
    }
    return (int)least(least(threads, m->most_threads), team_row_blocks(N));
}

int model_team(const struct model *m) {
    return team_size(m, m->B * m->T);
}

static struct pass pass_of(const struct model *m, const struct batch *batch, bool training,
                           uint64_t step) {
    const unsigned char *valid = m->config.pad_stats == PAD_STATS_INCLUDE ? NULL : batch->valid;
    return (struct pass){.tokens = {.B = batch->B,
                                    .T = batch->T,
                                    .valid = valid,
                                    .training = training,
                                    .probe = training && m->probing},
                         .rows = {0, batch->B * batch->T},
                         .step = step};
}

static struct embedding embedding_of(const struct model *m, const struct pass *pass,
                                     const int32_t *ids) {
    double p = pass->tokens.training ? m->config.dropout : 0;
    return (struct embedding){
        .T = pass->tokens.T,
        .C = m->C,
        .ids = ids,
        .wte = m->wte,
        .wpe = m->wpe,
        .dropout = dropout_make(p, random_key(m->seed, "embedding", pass->step)),
    };
}

/* The linear layers made ready for changed weights, by every thread of the team. */
static void prepare(const struct model *m) {
    for (size_t l = 0; l < m->L; l++) {
        sublayer_prepare(&m->layer[l].attention);
        sublayer_prepare(&m->layer[l].mlp);
    }
    linear_prepare(&m->head);
    profile_lap(PROFILE_TRANSPOSE);
    team_barrier();
}

/* What follows is the work of each thread of a team. Teams of one do without OpenMP's region, which
   costs as much as a small model's step. */

/* y (B,T,C) = norm(x) of a norm that stands outside the layers, a thread its own rows; nothing
   where it is the identity. */
static void outer_norm_forward(const struct norm *norm, const struct pass *pass, real *y,
                               const real *x) {
    struct range own = team_part_rows(pass->rows);
    size_t C = norm->C;
    norm_statistics(norm, &pass->tokens, x);
    for (size_t n = own.begin; norm_is(norm) && n < own.end; n += ROWS)
        norm_forward(norm, &pass->tokens, team_row_block(n, own), y + n * C, x + n * C);
}

/* dx (B,T,C) from dy likewise; returns where it is: in dy if the norm is the identity. */
static real *outer_norm_backward(const struct norm *norm, const struct pass *pass, real *dx,
                                 real *dy, const real *x) {
    struct range own = team_part_rows(pass->rows);
    size_t C = norm->C;
    norm_gradient_statistics(norm, &pass->tokens, dy, x);
    for (size_t n = own.begin; norm_is(norm) && n < own.end; n += ROWS)
        norm_backward(norm, &pass->tokens, team_row_block(n, own), dx + n * C, dy + n * C,
                      x + n * C);
    return norm_is(norm) ? dx : dy;
}

/* Two streams (placement.h). A thread goes through the same rows of r as of x, in every sub-layer.
 */

static void streams_part(const struct model *m, const struct pass *pass) {
    struct range own = team_part_rows(pass->rows);
    if (!m->stream) return;
    memcpy(m->stream + own.begin * m->C, m->entrance + own.begin * m->C,
           (own.end - own.begin) * m->C * sizeof(real));
}

/* top = x + N(r), or N(x) of a single stream. */
static void final_forward(const struct model *m, const struct pass *pass) {
    struct range own = team_part_rows(pass->rows);
    size_t at = own.begin * m->C, count = (own.end - own.begin) * m->C;
    outer_norm_forward(&m->final, pass, m->final_out, m->stream ? m->stream : m->last);
    if (!m->stream) return;
    const real *second = norm_is(&m->final) ? m->final_out : m->stream;
    residual_backward(count, m->final_out + at, 1, m->last + at, second + at);
}

/* From dtop in flow[0]; returns in which flow dx is. */
static size_t final_backward(const struct model *m, const struct pass *pass) {
    struct range own = team_part_rows(pass->rows);
    size_t at = own.begin * m->C, count = (own.end - own.begin) * m->C;
    real *dnormed = m->stream ? m->dstream : m->flow[1];
    const real *d =
        outer_norm_backward(&m->final, pass, dnormed, m->flow[0], m->stream ? m->stream : m->last);
    if (!m->stream) return norm_is(&m->final) ? 1 : 0;
    if (d != m->dstream) memcpy(m->dstream + at, d + at, count * sizeof(real));
    return 0;
}

/* Where both streams begin: dx (B,T,C) += dr. */
static void streams_part_backward(const struct model *m, const struct pass *pass, real *dx) {
    struct range own = team_part_rows(pass->rows);
    size_t at = own.begin * m->C, count = (own.end - own.begin) * m->C;
    if (m->stream) residual_backward(count, dx + at, 1, dx + at, m->dstream + at);
}

static void probe_entrance(const struct model *m, const struct pass *pass, const real *dx) {
    struct range own = team_part_rows(pass->rows);
    for (size_t n = own.begin; n < own.end; n += ROWS) {
        size_t M = team_row_block(n, own).end - n;
        m->entrance_squares[n / ROWS] = row_dot(M * m->C, dx + n * m->C, dx + n * m->C);
    }
}

static void forward_work(struct model *m, const int32_t *ids, const struct pass *pass) {
    struct range own = team_part_rows(pass->rows);
    if (m->prepared != m->lists.param.version) prepare(m);
    struct embedding embedding = embedding_of(m, pass, ids);
    embedding_forward(&embedding, own, m->embedded);
    outer_norm_forward(&m->embedding_norm, pass, m->entrance, m->embedded);
    streams_part(m, pass);
    for (size_t l = 0; l < m->L; l++) {
        sublayer_forward(&m->layer[l].attention, pass, &m->scratch[0]);
        sublayer_forward(&m->layer[l].mlp, pass, &m->scratch[1]);
    }
    final_forward(m, pass);
    team_barrier();
}

static void forward(struct model *m, const int32_t *ids, const struct pass *pass) {
    int threads = team_size(m, pass->rows.end - pass->rows.begin);
    profile_lap(PROFILE_OTHER);
    if (threads == 1)
        forward_work(m, ids, pass);
    else {
#pragma omp parallel num_threads(threads)
        forward_work(m, ids, pass);
    }
    m->prepared = m->lists.param.version;
    profile_lap(PROFILE_WAIT);
}

void model_forward(struct model *m, const struct batch *batch, bool training, uint64_t step) {
    struct pass pass = pass_of(m, batch, training, step);
    forward(m, batch->ids, &pass);
}

void model_extend(struct model *m, const int32_t *ids, size_t first, size_t end) {
    struct pass pass = {.tokens = {.B = 1, .T = end}, .rows = {first, end}};
    forward(m, ids, &pass);
}

/* The logits of M <= ROWS tokens from `begin` on, vec_padded(V) apart; the thread's own. */
static real *head_forward(const struct model *m, size_t begin, size_t M) {
    size_t row = vec_padded(m->V);
    real *logits = m->logits + (size_t)omp_get_thread_num() * ROWS * row;
    matmul(M, row, m->C, matrix_of(m->top + begin * m->C, m->C), matrix_of(m->head.transposed, row),
           matrix_of(logits, row), matrix_zeros());
    profile_lap(PROFILE_FORWARD);
    return logits;
}

const real *model_logits(struct model *m, size_t n) {
    return head_forward(m, n, 1);
}

static void loss_work(struct model *m, const struct batch *batch) {
    struct range own = team_part(batch->B * batch->T, ROWS);
    for (size_t n = own.begin; n < own.end; n += ROWS) {
        size_t M = team_row_block(n, own).end - n;
        real *logits = head_forward(m, n, M);
        loss_correct(M, m->V, m->correct + n, logits, batch->targets + n);
        loss_cross_entropy(M, m->V, m->losses + n, NULL, logits, batch->targets + n, 0);
    }
    profile_lap(PROFILE_LOSS);
    team_barrier();
}

size_t model_loss(struct model *m, const struct batch *batch, double *sum) {
    size_t N = batch->B * batch->T;
    int threads = team_size(m, N);
    if (threads == 1)
        loss_work(m, batch);
    else {
#pragma omp parallel num_threads(threads)
        loss_work(m, batch);
    }
    profile_lap(PROFILE_WAIT);
    return loss_sum(N, m->losses, batch->targets, sum);
}

size_t model_correct(const struct model *m, const struct batch *batch) {
    size_t correct = 0;
    for (size_t n = 0; n < batch->B * batch->T; n++) correct += m->correct[n];
    return correct;
}

/* Losses, the head's gradient, and dtop (N,C), by every thread of the team. */
static void head_backward(struct model *m, size_t N, real *dtop, const int32_t *targets,
                          real scale) {
    size_t row = vec_padded(m->V), C = m->C;
    for (size_t first = 0; first < N; first += HEAD_ROWS) {
        size_t count = least(N - first, HEAD_ROWS);
        struct range own = team_part(count, ROWS);
        team_barrier();
        for (size_t i = own.begin; i < own.end; i += ROWS) {
            size_t M = team_row_block(i, own).end - i, n = first + i;
            real *logits = head_forward(m, n, M), *dlogits = m->dlogits + i * row;
            loss_cross_entropy(M, m->V, m->losses + n, dlogits, logits, targets + n, scale);
            profile_lap(PROFILE_LOSS);
            matmul(M, C, m->V, matrix_of(dlogits, row), matrix_of(m->wte.value, C),
                   matrix_of(dtop + n * C, C), matrix_zeros());
            profile_lap(PROFILE_INPUT);
        }
        team_barrier();
        linear_weight_gradient(&m->head, count, m->dlogits, row, m->top + first * C);
    }
    team_barrier();
}

static void backward_work(struct model *m, const struct batch *batch, const struct pass *pass,
                          real scale) {
    size_t N = batch->B * batch->T;
    head_backward(m, N, m->flow[0], batch->targets, scale);
    size_t turn = final_backward(m, pass); // flow[turn] is the gradient in hand
    team_barrier();                        // backward through a layer shares rows out otherwise
    for (size_t l = m->L; l-- > 0; turn = (turn + 2) % 3) {
        real *dy = m->flow[turn], *between = m->flow[(turn + 1) % 3], *dx = m->flow[(turn + 2) % 3];
        sublayer_backward(&m->layer[l].mlp, pass, between, dy, &m->scratch[1]);
        sublayer_backward(&m->layer[l].attention, pass, dx, between, &m->scratch[0]);
    }
    team_barrier();
    streams_part_backward(m, pass, m->flow[turn]);
    if (pass->tokens.probe) probe_entrance(m, pass, m->flow[turn]);
    const real *dembedded = outer_norm_backward(&m->embedding_norm, pass, m->flow[(turn + 1) % 3],
                                                m->flow[turn], m->embedded);
    team_barrier();
    struct embedding embedding = embedding_of(m, pass, batch->ids);
    embedding_backward(&embedding, N, dembedded);
    for (size_t l = 0; l < m->L; l++) {
        sublayer_gradient(&m->layer[l].attention, N);
        sublayer_gradient(&m->layer[l].mlp, N);
    }
    norm_gradient(&m->embedding_norm, N);
    norm_gradient(&m->final, N);
    profile_lap(PROFILE_OTHER);
    team_barrier();
}

double model_backward(struct model *m, const struct batch *batch, uint64_t step, double scale) {
    struct pass pass = pass_of(m, batch, true, step);
    pass.tokens.scale = scale;
    size_t N = batch->B * batch->T, valid = 0;
    for (size_t n = 0; n < N; n++) valid += batch->targets[n] >= 0;
    if (!valid) return 0;
    real share = (real)(scale / (double)valid);
    int threads = team_size(m, N);
    profile_lap(PROFILE_OTHER);
    if (threads == 1)
        backward_work(m, batch, &pass, share);
    else {
#pragma omp parallel num_threads(threads)
        backward_work(m, batch, &pass, share);
    }
    profile_lap(PROFILE_WAIT);
    double sum;
    loss_sum(N, m->losses, batch->targets, &sum);
    return sum / (double)valid;
}

/* Each thread its share of each tensor, as it writes it. */
static void zero_work(struct tensor_list *list) {
    for (size_t k = 0; k < list->count; k++) {
        struct range own = team_part(list->tensor[k].size, CHUNK);
        memset(list->grad + list->tensor[k].offset + own.begin, 0,
               (own.end - own.begin) * sizeof(real));
    }
    profile_lap(PROFILE_OTHER);
    team_barrier();
}

void model_zero_grad(struct model *m) {
    int threads = model_team(m);
    if (threads == 1)
        zero_work(&m->lists.param);
    else {
#pragma omp parallel num_threads(threads)
        zero_work(&m->lists.param);
    }
    profile_lap(PROFILE_OTHER);
}
