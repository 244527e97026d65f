#include "model/lab/measure.h"
#include "data/memory.h"
#include "data/random.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const statistics_name[] = {"running", "own", "other", "single", "position"};

bool measure_has(const struct model_config *config, enum statistics_source source) {
    if (source != STATISTICS_POSITION) return true;
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++)
        if ((*kind)->by_position && model_has_norm(config, *kind)) return true;
    return false;
}

void measure_kinds_by_position(char *text, size_t size) {
    size_t used = 0;
    text[0] = 0;
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++)
        if ((*kind)->by_position && used < size)
            used +=
                (size_t)snprintf(text + used, size - used, "%s%s", used ? "|" : "", (*kind)->name);
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
    for (size_t i = 0; norm_option_list()[i]; i++) {
        const struct norm_option *o = norm_option_list()[i];
        if (o->measured[source].replaced) config.norms.value[i] = o->measured[source].value;
    }
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

/* Sequence b of a batch. */
static struct batch sequence(const struct batch *batch, size_t b) {
    struct batch one = *batch;
    one.B = 1;
    one.ids += b * batch->T;
    one.targets += b * batch->T;
    if (one.valid) one.valid += b * batch->T;
    return one;
}

static void visit_pass(struct model *m, const struct measured_pass *pass, measure_visit *visit,
                       void *context) {
    model_forward(m, pass->batch, pass->training, 0);
    visit(context, m, pass);
}

void measure_passes(struct model *m, enum statistics_source source, const struct batch *batch,
                    const struct batch *other, measure_visit *visit, void *context) {
    struct measured_pass pass = {.batch = batch};
    if (source == STATISTICS_RUNNING) {
        visit_pass(m, &pass, visit, context);
        return;
    }
    real *copy = copy_of_state(m);
    if (source == STATISTICS_OTHER) model_forward(m, other, true, 0);
    pass.training = source != STATISTICS_OTHER;
    if (source == STATISTICS_SINGLE)
        for (size_t b = 0; b < batch->B; b++) {
            struct batch one = sequence(batch, b);
            pass.batch = &one;
            pass.first = b;
            visit_pass(m, &pass, visit, context);
        }
    else
        visit_pass(m, &pass, visit, context);
    restore(m, copy);
}

static void add_loss(void *context, struct model *m, const struct measured_pass *pass) {
    struct score *score = context;
    double sum;
    score->targets += model_loss(m, pass->batch, &sum);
    score->loss += sum;
    score->correct += model_correct(m, pass->batch);
}

struct score measure_score(struct model *m, enum statistics_source source,
                           const struct batch *batch, const struct batch *other) {
    struct score score = {0};
    measure_passes(m, source, batch, other, add_loss, &score);
    return score;
}

/* The logits (B,t,V) of all tokens before position t. */
static real *logits_before(struct model *m, bool training, const struct batch *batch, size_t t) {
    real *copy = copy_of_state(m);
    real *logits = memory_take(batch->B * t, m->V * sizeof *logits, "the logits");
    model_forward(m, batch, training, 0);
    for (size_t b = 0; b < batch->B; b++)
        for (size_t i = 0; i < t; i++)
            memcpy(logits + (b * t + i) * m->V, model_logits(m, b * batch->T + i),
                   m->V * sizeof *logits);
    restore(m, copy);
    return logits;
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
