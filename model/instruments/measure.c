/* A pass in training mode changes the running statistics, so they are kept before the first pass and
   put back after the last. */
#include "model/instruments/measure.h"
#include "data/die.h"
#include "data/random.h"
#include "model/head.h"
#include "model/model_pass.h"
#include "model/partition.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const statistics_name[] = {"running",  "own", "other", "single",
                                       "position", "all", NULL};

bool measure_has(const struct model_config *config, enum statistics_source source) {
    if (source != STATISTICS_POSITION) return true;
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++)
        if ((*kind)->by_position && model_has_norm(config, *kind)) return true;
    return false;
}

struct passes measure_start(struct model *m, enum statistics_source source,
                            const struct batch *batch, const struct batch *other) {
    const struct tensor_list *state = &m->lists.state;
    struct passes p = {.model = m,
                       .batch = batch,
                       .training = source != STATISTICS_RUNNING,
                       .single = source == STATISTICS_SINGLE};
    m->source = source;
    if (!p.training) return p;
    p.state = memory_take(state->size, sizeof *p.state, "the running statistics");
    if (state->size) memcpy(p.state, state->value, state->size * sizeof *p.state);
    if (source != STATISTICS_OTHER) return p;
    p.batch = other;
    while (p.done < other->B && measure_next(&p)) model_forward(m, &p.part, p.training, 0);
    p.batch = batch;
    p.training = false;
    p.done = 0;
    return p;
}

bool measure_next(struct passes *p) {
    struct model *m = p->model;
    struct tensor_list *state = &m->lists.state;
    if (p->done < p->batch->B) {
        p->part = p->single
                      ? batch_part(p->batch, p->done, 1)
                      : partition_micro_batch(&m->config, m->rows, p->batch, p->batch, p->done);
        p->done += p->part.B;
        return true;
    }
    if (p->state && state->size) memcpy(state->value, p->state, state->size * sizeof *p->state);
    free(p->state);
    p->state = NULL;
    m->source = STATISTICS_RUNNING;
    return false;
}

/* Adds the tokens one by one, so that the sums are the same however the batch is split. */
struct score measure_score(struct model *m, enum statistics_source source,
                           const struct batch *batch, const struct batch *other) {
    struct score score = {0};
    for (struct passes p = measure_start(m, source, batch, other); measure_next(&p);) {
        double sum;
        model_forward(m, &p.part, p.training, 0);
        score.targets += head_loss(m, &p.part, &sum);
        const size_t first = p.part.first * p.part.T;
        for (size_t n = first; n < first + p.part.B * p.part.T; n++) {
            score.loss += (double)m->losses[n];
            score.correct += (double)m->correct[n];
        }
    }
    return score;
}

/* The logits (B,t,V) of all tokens before position t. */
static real *logits_before(struct model *m, enum statistics_source source,
                           const struct batch *batch, size_t t) {
    real *logits = memory_take(batch->B * t, m->V * sizeof(real), "the logits");
    for (struct passes p = measure_start(m, source, batch, NULL); measure_next(&p);) {
        model_forward(m, &p.part, p.training, 0);
        for (size_t b = 0; b < p.part.B; b++)
            for (size_t i = 0; i < t; i++)
                memcpy(logits + ((p.part.first + b) * t + i) * m->V,
                       head_logits(m, b * batch->T + i), m->V * sizeof(real));
    }
    return logits;
}

struct leak measure_leak(struct model *m, enum statistics_source source, const struct batch *batch,
                         size_t t) {
    size_t T = batch->T, N = batch->B * T, count = 0;
    struct leak leak = {0, 0};
    struct batch changed = *batch;
    changed.ids = memory_take(N, sizeof *changed.ids, "the changed tokens");
    for (size_t n = 0; n < N; n++) {
        int32_t other = (int32_t)random_below(random_key(1, "leak", t), n, m->V - (m->V > 1));
        other += other >= batch->ids[n]; // not the same id
        changed.ids[n] = n % T >= t && m->V > 1 ? other : batch->ids[n];
    }
    real *before = logits_before(m, source, batch, t);
    real *after = logits_before(m, source, &changed, t);
    for (size_t b = 0; b < batch->B; b++)
        for (size_t i = 0; i < t; i++) {
            if (batch->valid && !batch->valid[b * T + i]) continue;
            for (size_t v = (b * t + i) * m->V; v < (b * t + i + 1) * m->V; v++) {
                double change = fabs((double)after[v] - (double)before[v]);
                if (!(change <= leak.largest)) leak.largest = change;
                leak.mean += change;
                count++;
            }
        }
    if (count) leak.mean /= (double)count;
    free(before);
    free(after);
    free(changed.ids);
    return leak;
}
