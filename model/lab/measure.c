#include "model/lab/measure.h"
#include "data/die.h"
#include "data/format.h"
#include "data/random.h"
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

void measure_kinds_by_position(char *text, size_t size) {
    text[0] = 0;
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++)
        if ((*kind)->by_position) format_add(text, size, "%s%s", *text ? "|" : "", (*kind)->name);
}

/* Copies the running statistics that both models have in the same shape. */
static void copy_state(const struct model *measured, const struct model *model) {
    const struct tensor_list *to = &measured->lists.state, *from = &model->lists.state;
    for (size_t i = 0; i < size_min(to->count, from->count); i++) {
        const struct tensor *t = &to->tensor[i], *f = &from->tensor[i];
        if (t->size == f->size)
            memcpy(to->value + t->offset, from->value + f->offset, t->size * sizeof(real));
    }
}

void measure_init(struct model *measured, const struct model *model,
                  enum statistics_source source) {
    struct model_config config = model->config;
    config.dropout = 0;
    config.norms.watch = 0;
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++)
        for (const struct norm_measured *m = (*kind)->measured; m->option; m++)
            if (model_has_norm(&config, *kind) && m->first <= source && source <= m->last)
                config.norms.value[kind_options_find(norm_option_list(), m->option->name)] =
                    m->value;
    model_init(measured, &config, model->V, model->B, model->seed);
    measured->threads = model->threads;
    memcpy(measured->lists.param.value, model->lists.param.value,
           model->lists.param.size * sizeof(real));
    memcpy(measured->lists.fixed.value, model->lists.fixed.value,
           model->lists.fixed.size * sizeof(real));
    copy_state(measured, model);
    measured->lists.param.version++;
}

/* A copy of the running statistics, which forward changes in training; restore() puts it back. */
static real *copy_of_state(const struct model *m) {
    real *copy = memory_take(m->lists.state.size, sizeof *copy, "the running statistics");
    if (m->lists.state.size) memcpy(copy, m->lists.state.value, m->lists.state.size * sizeof *copy);
    return copy;
}

static void restore(const struct model *m, real *copy) {
    if (m->lists.state.size) memcpy(m->lists.state.value, copy, m->lists.state.size * sizeof *copy);
    free(copy);
}

/* A forward pass of each micro-batch, or with `single` of each sequence. */
static void visit_parts(struct model *m, const struct batch *batch, bool training, bool single,
                        measure_visit *visit, void *context) {
    struct batch part;
    for (size_t first = 0; first < batch->B; first += part.B) {
        part = single ? batch_part(batch, first, 1) : model_micro_batch(m, batch, batch, first);
        model_forward(m, &part, training, 0);
        visit(context, m, &(struct measured_pass){&part, training});
    }
}

static void visit_nothing(void *context, struct model *m, const struct measured_pass *pass) {}

void measure_passes(struct model *m, enum statistics_source source, const struct batch *batch,
                    const struct batch *other, measure_visit *visit, void *context) {
    if (source == STATISTICS_RUNNING) {
        visit_parts(m, batch, false, false, visit, context);
        return;
    }
    real *copy = copy_of_state(m);
    if (source == STATISTICS_OTHER) visit_parts(m, other, true, false, visit_nothing, NULL);
    visit_parts(m, batch, source != STATISTICS_OTHER, source == STATISTICS_SINGLE, visit, context);
    restore(m, copy);
}

/* Adds the losses one by one, so that the sum is the same however the batch is split. */
static void add_loss(void *context, struct model *m, const struct measured_pass *pass) {
    struct score *score = context;
    const struct batch *batch = pass->batch;
    double sum;
    score->targets += model_loss(m, batch, &sum);
    for (size_t n = 0; n < batch->B * batch->T; n++)
        score->loss += (double)m->losses[batch->first * batch->T + n];
    score->correct += model_correct(m, batch);
}

struct score measure_score(struct model *m, enum statistics_source source,
                           const struct batch *batch, const struct batch *other) {
    struct score score = {0};
    measure_passes(m, source, batch, other, add_loss, &score);
    return score;
}

/* The logits (B,t,V) of all tokens before position t. */
struct logits_before {
    size_t t;
    real *logits;
};

static void keep_logits(void *context, struct model *m, const struct measured_pass *pass) {
    const struct logits_before *before = context;
    const struct batch *batch = pass->batch;
    for (size_t b = 0; b < batch->B; b++)
        for (size_t i = 0; i < before->t; i++)
            memcpy(before->logits + ((batch->first + b) * before->t + i) * m->V,
                   model_logits(m, b * batch->T + i), m->V * sizeof(real));
}

static real *logits_before(struct model *m, bool training, const struct batch *batch, size_t t) {
    real *copy = copy_of_state(m);
    struct logits_before before = {t, memory_take(batch->B * t, m->V * sizeof(real), "the logits")};
    visit_parts(m, batch, training, false, keep_logits, &before);
    restore(m, copy);
    return before.logits;
}

struct leak measure_leak(struct model *m, bool training, const struct batch *batch, size_t t) {
    size_t T = batch->T, N = batch->B * T, count = 0;
    struct leak leak = {0, 0};
    struct batch changed = *batch;
    changed.ids = memory_take(N, sizeof *changed.ids, "the changed tokens");
    for (size_t n = 0; n < N; n++) {
        int32_t other = (int32_t)random_below(random_key(1, "leak", t), n, m->V - (m->V > 1));
        other += other >= batch->ids[n]; // not the same id
        changed.ids[n] = n % T >= t && m->V > 1 ? other : batch->ids[n];
    }
    real *before = logits_before(m, training, batch, t);
    real *after = logits_before(m, training, &changed, t);
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
