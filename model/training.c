#include "training.h"
#include "../data/die.h"
#include "../data/grammar.h"
#include "../data/items.h"
#include <stdlib.h>
#include <string.h>

volatile sig_atomic_t training_stopped;

void training_corpus(struct training *t, const struct vocabulary *known) {
    const struct config *config = &t->config;
    struct corpus_options options = {.level = (int)config->level,
                                     .val_fraction = config->val_fraction,
                                     .known = known,
                                     .items = config->items,
                                     .pad_to_block = config->pad_to == PAD_TO_BLOCK,
                                     .bucket = config->bucket};
    t->outcome.grammar_entropy = NOT_MEASURED;
    if (config->corpus && !strcmp(config->corpus, RANDOM_CORPUS)) {
        if (config->items) die(STATUS_USAGE, "--items: has no lines in --corpus=" RANDOM_CORPUS);
        if (config->level == LEVEL_BYTE)
            die(STATUS_USAGE, "--level=byte: has no bytes in --corpus=" RANDOM_CORPUS
                              ", which draws characters (leave out --level)");
        corpus_random(&t->corpus, (size_t)config->random_chars, known);
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
    t->outcome.items.all = t->corpus.items;
    t->outcome.items.train = t->corpus.items ? t->corpus.train : 0;
    t->outcome.items.longest = items_longest(&t->corpus);
    t->outcome.items.cut = items_cut(&t->corpus, (size_t)config->model.block_size);
}

struct score training_evaluate(struct training *t, struct model *model, enum statistics source) {
    size_t B = t->config.batch_size;
    size_t batches = (corpus_blocks(&t->corpus, t->batch.T) + B - 1) / B, used = batches;
    struct batch other = {0};
    struct score score = {0};
    if (t->config.eval_iters && (size_t)t->config.eval_iters < used) used = t->config.eval_iters;
    if (source == STATISTICS_OTHER) other = batch_make(B, t->config.model.block_size);
    for (size_t i = 0; i < used && !training_stopped; i++) {
        if (source == STATISTICS_OTHER)
            corpus_validation(&t->corpus, (i + used - 1) % used * batches / used * B, B, &other);
        corpus_validation(&t->corpus, i * batches / used * B, B, &t->batch);
        struct score part = measure_score(model, source, &t->batch, &other);
        score.loss += part.loss;
        score.targets += part.targets;
        score.correct += part.correct;
    }
    batch_free(&other);
    return score;
}
