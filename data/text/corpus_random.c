/* The kind of corpus that has no text: every character is sampled uniformly and independently.
   corpus->ids is the alphabet, and both splits have the same distribution. */
#include "data/die.h"
#include "data/random.h"
#include "data/text/corpus.h"
#include "data/text/utf8.h"
#include <stdlib.h>

void corpus_make_random(struct corpus *corpus, size_t count, const struct vocabulary *known) {
    const uint32_t first = 0x100; // a letter; from here each code point takes two bytes of UTF-8
    uint32_t last = first + (uint32_t)count - 1;
    for (uint32_t code = first; known && code <= last; code++)
        if (vocabulary_id(known, code) < 0)
            die(STATUS_USAGE,
                "--corpus=random: samples from %zu characters, U+%04X to U+%04X, but the model's "
                "vocabulary of %zu lacks U+%04X (it is for models trained on random characters, "
                "and --random-chars may not be larger than theirs)",
                count, first, last, known->V, code);
    char *alphabet = memory_take(2 * count, 1, "the corpus");
    for (size_t i = 0; i < count; i++) utf8_encode(first + (uint32_t)i, alphabet + 2 * i);
    corpus_make(corpus, "random characters", alphabet, 2 * count,
                &(struct corpus_options){.kind = &corpus_random, .known = known});
    free(alphabet);
}

static size_t blocks(const struct corpus *corpus, enum corpus_split split, size_t T) {
    return RANDOM_BLOCKS;
}

/* Fills the batch with blocks first, first + 1, ... of T + 1 characters of a random stream. */
static void put_blocks(const struct corpus *corpus, uint64_t key, uint64_t first,
                       struct batch *batch) {
    size_t T = batch->T, V = corpus->length; // the vocabulary may have more
    for (size_t b = 0; b < batch->B; b++)
        for (size_t t = 0; t < T; t++) {
            uint64_t counter = (first + b) * (T + 1) + t;
            batch->ids[b * T + t] = ids_at(&corpus->ids, random_below(key, counter, V));
            batch->targets[b * T + t] = ids_at(&corpus->ids, random_below(key, counter + 1, V));
        }
}

static void sample(const struct corpus *corpus, uint64_t seed, uint64_t number,
                   struct batch *batch) {
    put_blocks(corpus, random_key(seed, "random text", 0), number * batch->B, batch);
}

static void validation(const struct corpus *corpus, size_t first, size_t B, struct batch *batch) {
    put_blocks(corpus, random_key(0, "random text to validate", 0), first, batch);
}

static void slice(const struct corpus *corpus, size_t count, size_t first, struct batch *batch) {
    put_blocks(corpus, random_key(0, "random text of the training slice", 0), first, batch);
}

const struct corpus_kind corpus_random = {
    .blocks = blocks,
    .sample = sample,
    .slice = slice,
    .validation = validation,
};
