/* The batches of a split, spread over it and over ranks, and the sum of their scores. */
#include "model/app/evaluate.h"
#include "model/app/interrupt.h"
#include "model/math/ranks.h"
#include <math.h>
#include <string.h>

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

/* Adds the scores of the first `count` ranks, in their order, of which this rank's is `measured`. */
static void add_round(struct score *score, struct score measured, size_t count) {
    enum { NUMBERS = 3 };
    static double gathered[NUMBERS * RANKS_MAX];
    const double numbers[NUMBERS] = {measured.loss, (double)measured.targets, measured.correct};
    memcpy(gathered + NUMBERS * ranks.number, numbers, sizeof numbers);
    ranks_share(gathered, NUMBERS * ranks.count, NUMBERS);
    for (const double *rank = gathered; rank < gathered + NUMBERS * count; rank += NUMBERS) {
        score->loss += rank[0];
        score->targets += (size_t)rank[1];
        score->correct += rank[2];
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
    struct score measured = {0}, score = {0};
    size_t turn = 0; // the rank of the next batch
    for (size_t i = 0; i < batches && !interrupt_now(); i++) {
        if (sliced)
            corpus_slice(&loader->corpus, slice, i * B, B, &loader->batch);
        else
            evaluate_batch(loader, source, i, &other);
        if (turn++ == ranks.number) measured = measure_score(model, source, &loader->batch, &other);
        if (turn < ranks.count) continue;
        add_round(&score, measured, turn);
        turn = 0;
    }
    add_round(&score, measured, turn);
    batch_free(&other);
    return score;
}

void evaluate_model(struct loader *loader, struct model *model, struct progress *progress,
                    struct state *run) {
    const bool eval_train = loader->config->eval_train;
    const struct score validation =
        evaluate_split(loader, model, STATISTICS_RUNNING, CORPUS_VALIDATION);
    struct score slice = {0};
    if (eval_train && !interrupt_signal)
        slice = evaluate_split(loader, model, STATISTICS_RUNNING, CORPUS_TRAINING);
    if (interrupt_signal) return;
    // before the first update the running statistics are no estimates yet
    const bool untracked = run->step == 0 && model->lists.state.size;
    if (untracked && !isfinite(validation.loss)) {
        progress_say(progress,
                     "step %6d  no val loss: it overflows before the running statistics have seen "
                     "a batch",
                     0);
        return;
    }
    run->val_loss = validation.loss / (double)validation.targets;
    run->val_accuracy = validation.correct / (double)validation.targets;
    if (eval_train && !(untracked && !isfinite(slice.loss)))
        run->eval_train_loss = slice.loss / (double)slice.targets;
}
