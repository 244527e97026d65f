/* The kind of corpus that is one running text: a batch takes blocks of T characters, and the
   character after each.

   Sampling is stratified and without replacement. The training split is cut into B equal stretches
   and each sequence of the batch reads its own: in an epoch every block of the stretch once, in
   random order. The blocks start at another random character in each epoch. Compared with
   independent random blocks (nanoGPT's way), no character is a target twice in an epoch (unless a
   stretch is shorter than a block), fewer than 2 T characters of each stretch are left out of it,
   and every batch covers the whole training split evenly, so its gradient varies less. */
#include "data/die.h"
#include "data/random.h"
#include "data/text/corpus.h"

static size_t blocks(const struct corpus *corpus, enum corpus_split split, size_t T) {
    size_t train = corpus->train, characters = corpus->end - train;
    if (split == CORPUS_TRAINING) return train ? (train - 1) / T : 0;
    return characters ? (characters - 1 + T - 1) / T : 0; // the last one may end early
}

static void check(const struct corpus *corpus, size_t T) {
    if (corpus->train < T + 1)
        die(STATUS_USAGE,
            "corpus: %s: the training split has %zu characters, and --block-size=%zu needs %zu "
            "(try a smaller --block-size or a longer text)",
            corpus->name, corpus->train, T, T + 1);
    if (!blocks(corpus, CORPUS_VALIDATION, T))
        die(STATUS_USAGE,
            "corpus: %s: the validation split has %zu characters, and needs 2 (try a larger "
            "--val-fraction or --hold-out, or a longer text)",
            corpus->name, corpus->end - corpus->train);
}

/* Sequence b of a batch: the block that starts at this character. */
static void put_block(const struct corpus *corpus, size_t start, struct batch *batch, size_t b) {
    size_t T = batch->T;
    ids_get(&corpus->ids, start, T, batch->ids + b * T);
    ids_get(&corpus->ids, start + 1, T, batch->targets + b * T);
}

static void sample(const struct corpus *corpus, uint64_t seed, uint64_t number,
                   struct batch *batch) {
    size_t T = batch->T, B = batch->B, targets = corpus->train - 1; // all characters but the first
    for (size_t b = 0; b < B; b++) {
        size_t first = targets * b / B, width = targets * (b + 1) / B - first; // of the stretch
        size_t count = width / T > 1 ? width / T - 1 : 1, origins = width - count * T + 1;
        if (width < T) { // a block reaches beyond its stretch, but not beyond the text
            if (first > targets - T) first = targets - T;
            origins = targets - T - first < width ? targets - T - first + 1 : width;
        }
        uint64_t epoch = random_key(seed, "epoch", number / count);
        size_t origin = random_below(epoch, b, origins);
        size_t block = random_permuted(random_key(epoch, "blocks", b), number % count, count);
        put_block(corpus, first + origin + block * T, batch, b);
    }
}

static void validation(const struct corpus *corpus, size_t first, size_t B, struct batch *batch) {
    size_t T = batch->T, begin = corpus->train + first * T;
    if (begin + batch->B * T >= corpus->end)
        batch->valid = batch->marks; // the last block ends early
    for (size_t n = 0; n < batch->B * T; n++) {
        bool inside = begin + n + 1 < corpus->end;
        batch->ids[n] = inside ? ids_at(&corpus->ids, begin + n) : 0;
        batch->targets[n] = inside ? ids_at(&corpus->ids, begin + n + 1) : -1;
        batch->marks[n] = inside;
    }
}

static void slice(const struct corpus *corpus, size_t count, size_t first, struct batch *batch) {
    size_t total = blocks(corpus, CORPUS_TRAINING, batch->T);
    for (size_t b = 0; b < batch->B; b++)
        put_block(corpus, (first + b) * total / count * batch->T, batch, b);
}

static void count(const struct corpus *corpus, enum corpus_split split, size_t T, size_t *count) {
    const bool training = split == CORPUS_TRAINING;
    const size_t first = training ? 0 : corpus->train, end = training ? corpus->train : corpus->end;
    for (size_t i = first + 1; i < end; i++) count[ids_at(&corpus->ids, i)]++;
}

const struct corpus_kind corpus_text = {
    .check = check,
    .blocks = blocks,
    .sample = sample,
    .slice = slice,
    .validation = validation,
    .count = count,
};
