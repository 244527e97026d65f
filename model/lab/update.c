#include "model/lab/update.h"
#include "data/die.h"
#include "model/lab/due.h"
#include "model/math/profile.h"
#include <math.h>
#include <omp.h>

struct batch_count update_count(const struct session *t, int64_t step) {
    const struct config *config = &t->config;
    struct batch_count all = {0};
    for (int64_t i = config->grad_accum; i-- > 0;) { // ends with the batch that is sampled first
        struct batch_count one =
            corpus_count(&t->corpus, config->seed, step * config->grad_accum + i,
                         (size_t)config->batch_size, (size_t)config->model.block_size);
        all.targets += one.targets;
        all.pads += one.pads;
    }
    profile_lap(PROFILE_BATCH);
    return all;
}

/* Forward and backward of the update's batches: each batch's mean loss, and its gradient, is
   weighted by the batch's fraction of the update's targets. Returns the weighted sum of the losses;
   *fraction is that of the last batch. Batch number `i` of all batches keys its sample and its
   dropout. */
static double accumulate_gradient(struct session *t, size_t targets, bool probed,
                                  double *fraction) {
    int64_t accum = t->config.grad_accum, first = t->outcome.steps * accum;
    double loss = 0;
    model_zero_grad(&t->model);
    for (int64_t i = first; i < first + accum; i++) {
        corpus_sample(&t->corpus, t->config.seed, i, &t->batch);
        profile_lap(PROFILE_BATCH);
        t->model.probing = probed && i + 1 == first + accum;
        // targets of the update / targets of this batch
        double batches = (double)targets / (double)batch_targets(&t->batch);
        *fraction = 1 / batches;
        loss += model_gradient(&t->model, &t->batch, i, *fraction) / batches;
    }
    return loss;
}

static void write_probe_row(void *run, int64_t step, int layer, const char *site,
                            const char *metric, double value) {
    run_probe(run, step, layer, site, metric, value);
}

void update_model(struct session *t, struct log_row *row) {
    struct tensor_list *param = &t->model.lists.param;
    double start = omp_get_wtime(), fraction = 0;
    bool probed = due_probe(&t->config, row->step);
    if (t->config.profile) profile_resume();
    const struct batch_count size = update_count(t, row->step);
    row->train_loss = accumulate_gradient(t, size.targets, probed, &fraction);
    row->grad_norm = optimizer_grad_norm(&t->optimizer, param);
    if (probed) probe_keep(&t->probe, &t->model);
    if (isfinite(row->train_loss) && isfinite(row->grad_norm)) {
        optimizer_step(&t->optimizer, param, row->lr, row->grad_norm);
        t->outcome.tokens += (int64_t)size.targets;
        t->outcome.pads += (int64_t)size.pads;
    }
    profile_stop();
    if (probed)
        probe_write(&t->probe, &t->model, &t->batch, fraction, row->step,
                    &(struct probe_sink){write_probe_row, &t->run});
    t->outcome.train_loss = row->train_loss;
    t->clock.updating += omp_get_wtime() - start;
}

/* The smallest number of updates that trains on at least `tokens` targets. */
static int64_t updates_for(const struct session *t, int64_t tokens) {
    const struct config *config = &t->config;
    int64_t full, updates = 0; // full: targets of an update without pads
    if (__builtin_mul_overflow(config->batch_size, config->model.block_size, &full) ||
        __builtin_mul_overflow(full, config->grad_accum, &full))
        full = INT64_MAX;
    int64_t without_pads = tokens / full + (tokens % full > 0);
    if (!corpus_has_pads(&t->corpus) || without_pads > MAX_ITERS) return without_pads;
    for (int64_t seen = 0; seen < tokens && updates <= MAX_ITERS; updates++)
        seen += (int64_t)update_count(t, updates).targets;
    return updates;
}

void update_settle_count(struct session *t) {
    const int64_t tokens = t->config.max_tokens, given = t->config.max_iters;
    if (tokens == OPTION_AUTO) return;
    int64_t updates = updates_for(t, tokens);
    if (updates > MAX_ITERS)
        die(STATUS_USAGE, "--max-tokens=%lld: needs more than %d updates (try a smaller N)",
            (long long)tokens, MAX_ITERS);
    if (given != OPTION_AUTO && given != updates)
        die(STATUS_USAGE,
            "--max-iters=%lld: contradicts --max-tokens=%lld, which needs %lld updates (try "
            "--max-iters=auto)",
            (long long)given, (long long)tokens, (long long)updates);
    config_set_updates(&t->config, updates);
}
