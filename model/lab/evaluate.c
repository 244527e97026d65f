#include "model/lab/evaluate.h"
#include "model/lab/interrupt.h"
#include "model/lab/save.h"
#include "model/math/ranks.h"
#include <math.h>

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
