/* The corpus: a text as character ids, split into a training and a validation split, and the
   batches that are taken from it.

   There are several kinds of corpora. A kind says which units the two splits consist of
   (characters, items) and how they become batches. Each kind is a struct corpus_kind in a file of
   its own:

     corpus_text     text.c            running text; batches take blocks of T characters
     corpus_items    items.c           a list, an item on each line; batches take whole items
                                       (items.h)
     corpus_random   corpus_random.c   no text; batches are random characters

   Callers use the functions corpus_*() below; these call the functions of the corpus's kind. */
#pragma once

#include "data/text/batch.h"
#include "data/text/vocabulary.h"

/* Ids of a long text, stored in 1, 2 or 4 bytes each, as few as the largest id needs. Batches and
   callers get them as int32_t. */
struct ids {
    void *data;   // uint8_t, uint16_t or int32_t
    size_t width; // bytes of an id
};

static inline int32_t ids_at(const struct ids *ids, size_t i) {
    if (ids->width == 1) return ((const uint8_t *)ids->data)[i];
    if (ids->width == 2) return ((const uint16_t *)ids->data)[i];
    return ((const int32_t *)ids->data)[i];
}

static inline void ids_put(const struct ids *ids, size_t i, int32_t id) {
    if (ids->width == 1) ((uint8_t *)ids->data)[i] = (uint8_t)id;
    if (ids->width == 2) ((uint16_t *)ids->data)[i] = (uint16_t)id;
    if (ids->width == 4) ((int32_t *)ids->data)[i] = id;
}

/* Reads ids first .. first + count - 1. */
static inline void ids_get(const struct ids *ids, size_t first, size_t count,
                           int32_t *restrict to) {
    const struct ids from = *ids;
    for (size_t i = 0; i < count; i++) to[i] = ids_at(&from, first + i);
}

struct corpus {
    const struct corpus_kind *kind;
    const char *name;             // for messages
    struct vocabulary vocabulary; // the symbols that occur, or those of a model
    struct ids ids;               // (length) in this vocabulary
    size_t length;                // of ids
    size_t characters;            // of the text; end markers of items do not count
    size_t distinct;              // different characters of the text
    size_t units;                 // of both splits: characters or items
    size_t train;                 // the first `train` units are the training split
    size_t end;                   // the units from `train` to before `end` validate
    size_t bytes;                 // of the text
    uint32_t crc32;               // of these bytes
    void *data;                   // what the kind keeps, or NULL
};

struct corpus_options {
    const struct corpus_kind *kind; // NULL: corpus_text
    int level;                      // LEVEL_CHAR: a character is a code point of UTF-8
    double val_fraction;            // the fraction of the units, at the end, that validates
    double hold_out;                // above 0: this fraction of the other units validates instead
    const struct vocabulary *known; // a model's, of the same level; NULL: the symbols that occur
    bool pad_to_block;              // items: a batch is as long as a block, not as its longest item
    bool bucket;                    // items: those of similar length share a batch
    size_t batch_size;              // items: take memory for batches of up to this many at once, so
                                    // that sampling allocates nothing; larger ones do
};

enum corpus_split { CORPUS_TRAINING, CORPUS_VALIDATION };

/* What a kind of corpus does. The functions of the same names below say more. */
struct corpus_kind {
    bool pads; // batches of the training split may have pads, and so different numbers of targets

    /* Marks ends in the text with a symbol that does not count as a character, before the text
       becomes ids. Returns the length, which may be one byte more. NULL: nothing is marked. */
    size_t (*mark)(unsigned char *text, size_t bytes);

    /* NULL: the units are characters. Otherwise sets corpus->units and corpus->characters; may set
       corpus->data. */
    void (*init)(struct corpus *corpus, const struct corpus_options *options);
    void (*free)(struct corpus *corpus); // frees corpus->data; NULL: it is not used
    void (*check)(const struct corpus *corpus, size_t T); // NULL: every corpus is large enough
    size_t (*blocks)(const struct corpus *corpus, enum corpus_split split, size_t T);

    /* These two fill the batch->B sequences of the batch. They point batch->valid, which is NULL,
       to batch->marks if there are pads. */
    void (*sample)(const struct corpus *corpus, uint64_t seed, uint64_t number,
                   struct batch *batch);
    void (*slice)(const struct corpus *corpus, size_t count, size_t first, struct batch *batch);

    /* NULL: each batch of the training split has B T targets. */
    uint64_t (*batches)(const struct corpus *corpus, uint64_t seed, uint64_t targets, size_t B,
                        size_t T);

    /* As slice(), for the validation split; may set a smaller batch->B. */
    void (*validation)(const struct corpus *corpus, size_t first, size_t B, struct batch *batch);

    /* Adds to count[id] how often each character is to be predicted in the split. NULL: the text
       has nothing to learn beyond these frequencies. */
    void (*count)(const struct corpus *corpus, enum corpus_split split, size_t T, size_t *count);
};

extern const struct corpus_kind corpus_text, corpus_items, corpus_random;

/* Reads the text at `path` ("-": standard input). Dies with status 1 if the file cannot be read, is
   not text, or has a character that a known vocabulary lacks, and says where. */
void corpus_read(struct corpus *corpus, const char *path, const struct corpus_options *options);

/* As corpus_read(), from `bytes` bytes of `text` in memory. */
void corpus_make(struct corpus *corpus, const char *name, const char *text, size_t bytes,
                 const struct corpus_options *options);

/* A corpus of the kind corpus_random, of `count` different characters. Each batch of training is
   sampled from them, uniformly and independently; RANDOM_BLOCKS fixed blocks validate. No model can
   predict better than with loss ln(count), unless it sees what it predicts. Dies with status 2 if a
   model's vocabulary is known and lacks one of the characters. */
enum { RANDOM_BLOCKS = 1024 };
void corpus_make_random(struct corpus *corpus, size_t count, const struct vocabulary *known);

void corpus_free(struct corpus *corpus);

/* Dies with status 2 unless the training split has a block of T characters and the one after it,
   and the validation split a character to predict; with items, unless each split has an item. */
void corpus_check(const struct corpus *corpus, size_t T);

/* Fills the batch, to its B_max sequences, with batch `number` of the training split. `seed` and
   `number` alone decide what is in it. */
void corpus_sample(const struct corpus *corpus, uint64_t seed, uint64_t number,
                   struct batch *batch);

/* The number of batches of B x T, the first ones of the training split with this seed, that have at
   least this many targets together. */
uint64_t corpus_batches(const struct corpus *corpus, uint64_t seed, uint64_t targets, size_t B,
                        size_t T);

/* The number of blocks in a split: running text in blocks of T that do not overlap, so that every
   character but the first is predicted once; of items each is a block. */
size_t corpus_blocks(const struct corpus *corpus, enum corpus_split split, size_t T);

/* Fills `batch` with blocks first, first + 1, ... of the validation split, at most B, and sets
   batch->B to their number; `first` is a multiple of B. Where the last block of a text ends early,
   the rest are pads: their targets are -1 and `valid` is 0. */
void corpus_validation(const struct corpus *corpus, size_t first, size_t B, struct batch *batch);

/* A slice of the training split, to measure a model on: `count` of its full blocks of T, spread
   evenly over it, with count <= corpus_blocks(). The slice does not depend on what
   corpus_sample() does. corpus_slice() fills `batch` with blocks first, first + 1, ... of the
   slice, at most B, and sets batch->B. Of items each is a block; of random characters the slice is
   a fixed sample of its own. */
void corpus_slice(const struct corpus *corpus, size_t count, size_t first, size_t B,
                  struct batch *batch);

/* What a model reaches that has learned nothing but how frequent each character is among the
   targets of the training split: the entropy of these frequencies, which is its loss there, and its
   loss on the validation split, in nats. Pads are no targets, nor is what items lose in blocks of T.
   A character that is new in the validation split counts as known once. Both are negative if there
   is nothing else to learn. */
struct unigram {
    double entropy, val_loss;
};
struct unigram corpus_unigram(const struct corpus *corpus, size_t T);
