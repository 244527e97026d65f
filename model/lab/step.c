#include "model/lab/step.h"
#include "data/die.h"
#include "model/lab/due.h"
#include "model/lab/process.h"
#include "model/lab/record.h"
#include "model/math/profile.h"
#include "model/math/ranks.h"
#include <math.h>
#include <omp.h>

/* ---- one update: the gradient of --grad-accum batches, then the optimizer ---- */

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

/* ---- the loss on the validation split, and on a slice of the training split ---- */

/* The number of batches that an evaluation uses, of `batches` in the validation split. */
static size_t batches_used(const struct session *t, size_t batches) {
    size_t limit = (size_t)t->config.eval_iters;
    return limit ? size_min(limit, batches) : batches;
}

static void add_score(struct score *score, struct score part) {
    score->loss += part.loss;
    score->targets += part.targets;
    score->correct += part.correct;
}

void evaluate_batches(struct session *t, enum statistics_source source, evaluate_batch *each,
                      void *context) {
    size_t B = t->config.batch_size;
    size_t batches = (corpus_blocks(&t->corpus, t->batch.T) + B - 1) / B;
    size_t used = batches_used(t, batches);
    struct batch other = {0};
    if (source == STATISTICS_OTHER) other = batch_make(B, t->config.model.block_size);
    for (size_t i = 0; i < used && !interrupt_now(); i++) {
        if (source == STATISTICS_OTHER)
            corpus_validation(&t->corpus, (i + used - 1) % used * batches / used * B, B, &other);
        corpus_validation(&t->corpus, i * batches / used * B, B, &t->batch);
        if (!each(context, &t->batch, &other)) break;
    }
    batch_free(&other);
}

/* The scores of batches, added in their order. Ranks measure them in turn. */
struct validation {
    struct model *model;
    enum statistics_source source;
    size_t turn; // the rank of the next batch
    struct score own, score;
};

/* Adds the scores of this round, of the ranks before `turn`. */
static void end_round(struct validation *v) {
    enum { NUMBERS = 3 };
    static double all[NUMBERS * RANKS_MAX];
    double *own = all + NUMBERS * ranks_number();
    own[0] = v->own.loss, own[1] = (double)v->own.targets, own[2] = (double)v->own.correct;
    ranks_share(all, NUMBERS * ranks_count());
    for (const double *one = all; one < all + NUMBERS * v->turn; one += NUMBERS)
        add_score(&v->score, (struct score){one[0], (size_t)one[1], (size_t)one[2]});
    v->turn = 0;
}

static bool add_batch(void *context, const struct batch *batch, const struct batch *other) {
    struct validation *v = context;
    if (v->turn++ == ranks_number()) v->own = measure_score(v->model, v->source, batch, other);
    if (v->turn == ranks_count()) end_round(v);
    return true;
}

struct score evaluate_validation(struct session *t, struct model *model,
                                 enum statistics_source source) {
    struct validation validation = {.model = model, .source = source};
    evaluate_batches(t, source, add_batch, &validation);
    end_round(&validation);
    return validation.score;
}

struct score evaluate_slice(struct session *t) {
    size_t B = t->config.batch_size, T = t->config.model.block_size;
    size_t validation = corpus_blocks(&t->corpus, T);
    size_t count = batches_used(t, (validation + B - 1) / B) * B;
    count = size_min(count, validation); // its last batch may have fewer blocks
    count = size_min(count, corpus_training_blocks(&t->corpus, T));
    struct validation slice = {.model = &t->model, .source = STATISTICS_RUNNING};
    for (size_t first = 0; first < count && !interrupt_now(); first += B) {
        corpus_slice(&t->corpus, count, first, B, &t->batch);
        add_batch(&slice, &t->batch, NULL);
    }
    end_round(&slice);
    return slice.score;
}

/* --keep-best: keeps the model if this validation loss is the lowest so far. */
static void keep_if_best(struct session *t, const struct log_row *row) {
    struct outcome *outcome = &t->outcome;
    bool better = outcome->best_val_loss < 0 || row->val_loss < outcome->best_val_loss;
    if (!better || !save_best_possible(t)) return;
    outcome->best_val_loss = row->val_loss;
    outcome->best_step = row->step;
    if (isfinite(row->val_loss)) save_best_keep(t);
}

void evaluate_run(struct session *t, struct log_row *row) {
    struct outcome *outcome = &t->outcome;
    struct score validation = evaluate_validation(t, &t->model, STATISTICS_RUNNING), slice = {0};
    if (t->config.eval_train && !interrupt_signal) slice = evaluate_slice(t);
    if (interrupt_signal) return;
    // before the first update the running statistics are no estimates yet
    bool untracked = row->step == 0 && t->model.lists.state.size;
    if (untracked && !isfinite(validation.loss)) {
        progress_say(&t->progress,
                     "step %6d  no val loss: it overflows before the running statistics have seen "
                     "a batch",
                     0);
        return;
    }
    row->val_loss = outcome->val_loss = validation.loss / (double)validation.targets;
    outcome->val_accuracy = (double)validation.correct / (double)validation.targets;
    if (t->config.eval_train && !(untracked && !isfinite(slice.loss)))
        row->eval_train_loss = slice.loss / (double)slice.targets;
    outcome->eval_train_loss = row->eval_train_loss;
    keep_if_best(t, row);
}
