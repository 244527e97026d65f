#include "model/lab/training.h"
#include "data/die.h"
#include "data/text/grammar.h"
#include "data/text/items.h"
#include "model/lab/best.h"
#include "model/math/profile.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

volatile sig_atomic_t training_stopped;

void training_corpus(struct training *t, const struct vocabulary *known) {
    const struct config *config = &t->config;
    struct corpus_options options = {.level = (int)config->level,
                                     .val_fraction = config->val_fraction,
                                     .known = known,
                                     .kind = config->items ? &corpus_items : &corpus_text,
                                     .batch_size = (size_t)config->batch_size,
                                     .pad_to_block = config->pad_to == PAD_TO_BLOCK,
                                     .bucket = config->bucket};
    t->outcome.grammar_entropy = NOT_MEASURED;
    if (config->corpus && !strcmp(config->corpus, RANDOM_CORPUS)) {
        if (config->items) die(STATUS_USAGE, "--items: has no lines in --corpus=" RANDOM_CORPUS);
        if (config->level == LEVEL_BYTE)
            die(STATUS_USAGE, "--level=byte: has no bytes in --corpus=" RANDOM_CORPUS
                              ", which draws characters (leave out --level)");
        corpus_make_random(&t->corpus, (size_t)config->random_chars, known);
    } else if (config->corpus) {
        corpus_read(&t->corpus, config->corpus, &options);
    } else {
        size_t length = config->grammar_chars;
        char *text = grammar_text(config->grammar_seed, length);
        if (!text)
            die(STATUS_MACHINE, "memory: no %zu bytes for the grammar's text to be had", length);
        corpus_make(&t->corpus, "the built-in grammar", text, length, &options);
        free(text);
        if (!config->items) t->outcome.grammar_entropy = grammar_entropy(); // of running text
    }
    t->outcome.corpus = t->corpus.name;
    t->outcome.corpus_bytes = t->corpus.bytes;
    t->outcome.corpus_characters = t->corpus.characters;
    t->outcome.corpus_crc32 = t->corpus.crc32;
    t->outcome.vocabulary = t->corpus.vocabulary.V;
    t->outcome.items = items_size(&t->corpus, (size_t)config->model.block_size);
}

struct batch_count training_count(const struct training *t, int64_t step) {
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

/* The fewest updates that train on at least so many targets. */
static int64_t updates_of(const struct training *t, int64_t tokens) {
    const struct config *config = &t->config;
    int64_t full, updates = 0; // full: targets of an update whose batches have no pads
    if (__builtin_mul_overflow(config->batch_size, config->model.block_size, &full) ||
        __builtin_mul_overflow(full, config->grad_accum, &full))
        full = INT64_MAX;
    int64_t least = tokens / full + (tokens % full > 0);
    if (!corpus_has_pads(&t->corpus) || least > MOST_ITERS) return least;
    for (int64_t seen = 0; seen < tokens && updates <= MOST_ITERS; updates++)
        seen += (int64_t)training_count(t, updates).targets;
    return updates;
}

void training_settle_updates(struct training *t) {
    const int64_t tokens = t->config.max_tokens, given = t->config.max_iters;
    if (tokens == OPTION_AUTO) return;
    int64_t updates = updates_of(t, tokens);
    if (updates > MOST_ITERS)
        die(STATUS_USAGE, "--max-tokens=%lld: asks for more than %d updates (try a smaller N)",
            (long long)tokens, MOST_ITERS);
    if (given != OPTION_AUTO && given != updates)
        die(STATUS_USAGE,
            "--max-iters=%lld: contradicts --max-tokens=%lld, which asks for %lld (try "
            "--max-iters=auto)",
            (long long)given, (long long)tokens, (long long)updates);
    config_set_updates(&t->config, updates);
}

/* The number of validation batches that an evaluation uses, of so many. */
static size_t evaluated(const struct training *t, size_t batches) {
    size_t most = (size_t)t->config.eval_iters;
    return most && most < batches ? most : batches;
}

static void add_score(struct score *score, struct score part) {
    score->loss += part.loss;
    score->targets += part.targets;
    score->correct += part.correct;
}

struct score training_evaluate(struct training *t, struct model *model,
                               enum statistics_source source) {
    size_t B = t->config.batch_size;
    size_t batches = (corpus_blocks(&t->corpus, t->batch.T) + B - 1) / B;
    size_t used = evaluated(t, batches);
    struct batch other = {0};
    struct score score = {0};
    if (source == STATISTICS_OTHER) other = batch_make(B, t->config.model.block_size);
    for (size_t i = 0; i < used && !training_stopped; i++) {
        if (source == STATISTICS_OTHER)
            corpus_validation(&t->corpus, (i + used - 1) % used * batches / used * B, B, &other);
        corpus_validation(&t->corpus, i * batches / used * B, B, &t->batch);
        add_score(&score, measure_score(model, source, &t->batch, &other));
    }
    batch_free(&other);
    return score;
}

struct score training_evaluate_slice(struct training *t) {
    size_t B = t->config.batch_size, T = t->config.model.block_size;
    size_t validation = corpus_blocks(&t->corpus, T), there = corpus_training_blocks(&t->corpus, T);
    size_t count = evaluated(t, (validation + B - 1) / B) * B;
    struct score score = {0};
    if (count > validation) count = validation; // its last batch has fewer blocks
    if (count > there) count = there;
    for (size_t first = 0; first < count && !training_stopped; first += B) {
        corpus_slice(&t->corpus, count, first, B, &t->batch);
        add_score(&score, measure_score(&t->model, STATISTICS_RUNNING, &t->batch, NULL));
    }
    return score;
}

bool training_measure(struct training *t, struct log_row *row) {
    struct outcome *outcome = &t->outcome;
    struct score score = training_evaluate(t, &t->model, STATISTICS_RUNNING), slice = {0};
    if (t->config.eval_train && !training_stopped) slice = training_evaluate_slice(t);
    if (training_stopped) return false;
    bool untracked = row->step == 0 && t->model.lists.state.size;
    if (untracked && !isfinite(score.loss)) {
        progress_say(&t->progress,
                     "step %6d  no val loss: it overflows before running statistics "
                     "have met a batch",
                     0);
        return true;
    }
    row->val_loss = outcome->val_loss = score.loss / (double)score.targets;
    outcome->val_accuracy = (double)score.correct / (double)score.targets;
    if (t->config.eval_train && !(untracked && !isfinite(slice.loss)))
        row->eval_train_loss = slice.loss / (double)slice.targets;
    outcome->eval_train_loss = row->eval_train_loss;
    bool better = outcome->best_val_loss < 0 || row->val_loss < outcome->best_val_loss;
    if (better && best_possible(t)) {
        outcome->best_val_loss = row->val_loss;
        outcome->best_step = row->step;
        if (isfinite(row->val_loss)) best_keep(t);
    }
    return true;
}

void training_say_losses(struct training *t, const struct log_row *row) {
    char train_loss[48] = "", eval_train_loss[48] = ""; // there is no train loss without an update
    if (t->outcome.train_loss >= 0)
        snprintf(train_loss, sizeof train_loss, "train loss %.4f  ", t->outcome.train_loss);
    if (row->eval_train_loss >= 0)
        snprintf(eval_train_loss, sizeof eval_train_loss, "eval train loss %.4f  ",
                 row->eval_train_loss);
    progress_say(&t->progress, "step %6lld  %sval loss %.4f  %s%.1f s", (long long)row->step,
                 train_loss, row->val_loss, eval_train_loss, row->seconds);
}
