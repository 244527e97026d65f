/* An update adds up the gradients of its batches, each with its share of the update's targets
   as its weight: so the sum is the gradient of the mean loss over all targets, however they are
   batched. */
#include "model/lab/step.h"
#include "data/die.h"
#include "model/math/profile.h"
#include "model/math/ranks.h"
#include "model/model_pass.h"
#include <math.h>
#include <omp.h>
#include <signal.h>
#include <string.h>

/* ---- SIGINT and SIGTERM: training finishes its step, saves, and ends ---- */

int interrupt_signal;
static volatile sig_atomic_t caught;

int interrupt_now(void) {
    return interrupt_signal = ranks_largest(caught);
}

static void note(int number) {
    if (!caught) caught = number;
    signal(SIGINT, SIG_DFL);
}

void interrupt_note(bool noted) {
    signal(SIGINT, noted ? note : SIG_DFL);
    signal(SIGTERM, noted ? note : SIG_DFL);
}

/* ---- what is due at a step ---- */

enum ending_reason due_end(const struct config *config, const struct clock *clock,
                           const struct log_row *row) {
    const double seconds = config->max_seconds, loss = config->stop_at;
    if (interrupt_now()) return ENDING_SIGNAL;
    if (row->step == config->max_iters) return ENDING_ITERS;
    if (seconds > 0 && ranks_first(omp_get_wtime() - clock->start >= seconds))
        return ENDING_SECONDS;
    return loss > 0 && row->val_loss >= 0 && row->val_loss <= loss ? ENDING_LOSS : ENDING_NONE;
}

const char *due_ending_option(enum ending_reason ending) {
    static const char *const options[] = {
        [ENDING_ITERS] = "max-iters", [ENDING_SECONDS] = "max-seconds", [ENDING_LOSS] = "stop-at"};
    return options[ending];
}

bool due_every(int64_t interval, int64_t step) {
    return interval && step % interval == 0;
}

bool due_evaluation(const struct config *config, int64_t step, enum ending_reason ending) {
    return due_every(config->eval_interval, step) || due_ending_option(ending);
}

bool due_checkpoint(const struct config *config, const struct clock *clock, int64_t step) {
    if (step == clock->step) return false;
    if (config->checkpoint_interval == OPTION_AUTO)
        return ranks_first(omp_get_wtime() - clock->saved >= 100 * clock->saving);
    return due_every(config->checkpoint_interval, step);
}

/* ---- one update: the gradient of --grad-accum batches, then the optimizer ---- */

struct batch_count update_count_targets(struct loader *loader, int64_t step) {
    const struct config *config = loader->config;
    struct batch *batch = &loader->batch;
    struct batch_count all = {0};
    if (!loader->corpus.kind->pads)
        return (struct batch_count){.targets =
                                        (size_t)config->grad_accum * batch->B_max * batch->T};
    // Backwards, since a corpus of items keeps one pool of items in memory (items.c): the pool that is
    // left is then the one from which training reads the first batch.
    for (int64_t i = config->grad_accum; i-- > 0;) {
        corpus_sample(&loader->corpus, config->seed, step * config->grad_accum + i, batch);
        const size_t targets = batch_targets(batch);
        all.targets += targets;
        all.pads += batch->B * batch->T - targets;
    }
    profile_lap(PROFILE_BATCH);
    return all;
}

struct update update_model(struct loader *loader, struct model *model, struct optimizer *optimizer,
                           struct probe *probe, int64_t step) {
    const struct config *config = loader->config;
    const int64_t first = step * config->grad_accum, end = first + config->grad_accum;
    const bool probed = due_every(config->probe_interval, step);
    const double start = omp_get_wtime();
    struct batch *batch = &loader->batch;
    struct tensor_list *param = &model->lists.param;
    struct update update = {0};
    double fraction = 0; // of the update's targets, in the batch
    if (config->profile) profile_start();
    const struct batch_count size = update_count_targets(loader, step);
    model_zero_grad(model);
    for (int64_t i = first; i < end; i++) { // batch i of the run: keys its sample and its dropout
        corpus_sample(&loader->corpus, config->seed, i, batch);
        profile_lap(PROFILE_BATCH);
        model->probing = probed && i + 1 == end;
        double batches = (double)size.targets / (double)batch_targets(batch);
        fraction = 1 / batches;
        update.loss += model_gradient(model, batch, (uint64_t)i, fraction) / batches;
    }
    update.grad_norm = optimizer_grad_norm(optimizer, param);
    if (probed) probe_keep(probe, model);
    if (isfinite(update.loss) && isfinite(update.grad_norm)) {
        const double rate = schedule_rate(&config->schedule, step);
        optimizer_step(optimizer, param, rate, update.grad_norm);
        update.trained = size;
    }
    profile_stop();
    if (probed) probe_write(probe, model, batch, fraction, step);
    update.seconds = omp_get_wtime() - start;
    return update;
}

void update_settle_count(struct config *config, const struct loader *loader) {
    const int64_t tokens = config->max_tokens, given = config->max_iters;
    if (tokens == OPTION_AUTO) return;
    const uint64_t accum = config->grad_accum;
    const uint64_t batches = corpus_batches(&loader->corpus, config->seed, tokens,
                                            config->batch_size, config->model.block_size);
    const int64_t updates = (int64_t)((batches + accum - 1) / accum);
    if (updates > MAX_ITERS)
        die(STATUS_USAGE, "--max-tokens=%lld: needs more than %d updates (try a smaller N)",
            (long long)tokens, MAX_ITERS);
    if (given != OPTION_AUTO && given != updates)
        die(STATUS_USAGE,
            "--max-iters=%lld: contradicts --max-tokens=%lld, which needs %lld updates (try "
            "--max-iters=auto)",
            (long long)given, (long long)tokens, (long long)updates);
    config_set_updates(config, updates);
}

/* ---- the loss on the validation split, and on a slice of the training split ---- */

/* The number of batches in the validation split. */
static size_t validation_batches(const struct loader *loader) {
    const size_t B = (size_t)loader->config->batch_size;
    const size_t T = (size_t)loader->config->model.block_size;
    return (corpus_blocks(&loader->corpus, CORPUS_VALIDATION, T) + B - 1) / B;
}

size_t evaluate_count(const struct loader *loader) {
    const size_t limit = (size_t)loader->config->eval_iters, batches = validation_batches(loader);
    return limit ? size_min(limit, batches) : batches;
}

void evaluate_batch(struct loader *loader, enum statistics_source source, size_t i,
                    struct batch *other) {
    const size_t B = (size_t)loader->config->batch_size;
    const size_t batches = validation_batches(loader), used = evaluate_count(loader);
    if (source == STATISTICS_OTHER) {
        const size_t before = (i + used - 1) % used;
        if (!other->ids) *other = batch_make(B, (size_t)loader->config->model.block_size);
        corpus_validation(&loader->corpus, before * batches / used * B, B, other);
    }
    corpus_validation(&loader->corpus, i * batches / used * B, B, &loader->batch);
}

/* Adds the scores of the first `count` ranks, in their order, of which this rank's is `own`. */
static void add_round(struct score *score, struct score own, size_t count) {
    enum { NUMBERS = 3 };
    static double all[NUMBERS * RANKS_MAX];
    const double numbers[NUMBERS] = {own.loss, (double)own.targets, own.correct};
    memcpy(all + NUMBERS * ranks.number, numbers, sizeof numbers);
    ranks_share(all, NUMBERS * ranks.count, NUMBERS);
    for (const double *one = all; one < all + NUMBERS * count; one += NUMBERS) {
        score->loss += one[0];
        score->targets += (size_t)one[1];
        score->correct += one[2];
    }
}

/* Ranks measure batches in turn. */
struct score evaluate_split(struct loader *loader, struct model *model,
                            enum statistics_source source, enum corpus_split split) {
    const size_t B = (size_t)loader->config->batch_size;
    const size_t T = (size_t)loader->config->model.block_size;
    const bool sliced = split == CORPUS_TRAINING;
    size_t batches = evaluate_count(loader), slice = batches * B; // slice: blocks
    // the last batch of a split may have fewer blocks
    slice = size_min(slice, corpus_blocks(&loader->corpus, CORPUS_VALIDATION, T));
    slice = size_min(slice, corpus_blocks(&loader->corpus, CORPUS_TRAINING, T));
    if (sliced) batches = (slice + B - 1) / B;
    struct batch other = {0};
    struct score own = {0}, score = {0};
    size_t turn = 0; // the rank of the next batch
    for (size_t i = 0; i < batches && !interrupt_now(); i++) {
        if (sliced)
            corpus_slice(&loader->corpus, slice, i * B, B, &loader->batch);
        else
            evaluate_batch(loader, source, i, &other);
        if (turn++ == ranks.number) own = measure_score(model, source, &loader->batch, &other);
        if (turn < ranks.count) continue;
        add_round(&score, own, turn);
        turn = 0;
    }
    add_round(&score, own, turn);
    batch_free(&other);
    return score;
}

void evaluate_model(struct loader *loader, struct model *model, struct progress *progress,
                    struct log_row *row) {
    const bool eval_train = loader->config->eval_train;
    const struct score validation =
        evaluate_split(loader, model, STATISTICS_RUNNING, CORPUS_VALIDATION);
    struct score slice = {0};
    if (eval_train && !interrupt_signal)
        slice = evaluate_split(loader, model, STATISTICS_RUNNING, CORPUS_TRAINING);
    if (interrupt_signal) return;
    // before the first update the running statistics are no estimates yet
    const bool untracked = row->step == 0 && model->lists.state.size;
    if (untracked && !isfinite(validation.loss)) {
        progress_say(progress,
                     "step %6d  no val loss: it overflows before the running statistics have seen "
                     "a batch",
                     0);
        return;
    }
    row->val_loss = validation.loss / (double)validation.targets;
    row->val_accuracy = validation.correct / (double)validation.targets;
    if (eval_train && !(untracked && !isfinite(slice.loss)))
        row->eval_train_loss = slice.loss / (double)slice.targets;
}
