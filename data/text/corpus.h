/* The corpus: a text as character ids, split into a training and a validation part.

   It is one running text, from which batches take blocks, or a list of items, each line one, which
   batches take whole (items.h). */
#ifndef CORPUS_H
#define CORPUS_H

#include "data/text/batch.h"
#include "data/text/vocabulary.h"

struct corpus {
    const char *name;             // for messages
    struct vocabulary vocabulary; // what occurs
    int32_t *ids;                 // (length) of this vocabulary, or of a model's
    size_t length;                // of ids
    size_t characters;            // of the text; of items without their markers
    size_t train;                 // so many ids, or items, train: the first; the rest validates
    size_t bytes;                 // of the text
    uint32_t crc32;               // of its bytes
    size_t items;                 // 0: running text
    struct item *item;            // (items)
    struct pool *pool;            // that batches of items are cut from
    bool random;                  // no text: every batch is drawn anew, uniformly
};

struct corpus_options {
    int level;                      // LEVEL_CHAR: a character is a code point of UTF-8
    double val_fraction;            // so many of the characters or items, the last, validate
    const struct vocabulary *known; // a model's, of the same level; NULL: what occurs
    bool items;                     // each line is one
    bool pad_to_block;              // batches of items are as long as a block, not as the longest
    bool bucket;                    // items of like lengths share a batch
};

/* Reads the text at `path` ("-": standard input). What cannot be read, is not text or not in a
   known vocabulary dies with status 1 and says where. */
void corpus_read(struct corpus *corpus, const char *path, const struct corpus_options *options);

/* The same from memory: `bytes` bytes of `text`. */
void corpus_make(struct corpus *corpus, const char *name, const char *text, size_t bytes,
                 const struct corpus_options *options);

/* No text: `count` different characters, of which every batch in training is drawn anew, uniformly
   and independently, and RANDOM_BLOCKS blocks of another draw that validate. No model can predict
   better than with loss ln(count), unless it sees what it predicts. If a model's vocabulary is
   known and lacks one of the characters, dies with status 2. */
enum { RANDOM_BLOCKS = 1024 };
void corpus_random(struct corpus *corpus, size_t count, const struct vocabulary *known);

void corpus_free(struct corpus *corpus);

/* The checksum of a corpus of that path in *crc32; false if no regular file there can be read. */
bool corpus_checksum(const char *path, uint32_t *crc32);

/* Whether the validation part has a character to predict. */
bool corpus_validates(const struct corpus *corpus);

/* Dies with status 2 unless both parts have a block of T characters or, to validate, at least one
   character to predict; of items, one each. */
void corpus_check(const struct corpus *corpus, size_t T);

/* Memory for batches of up to B x T; freed by batch_free(). */
struct batch batch_make(size_t B, size_t T);
void batch_free(struct batch *batch);

/* The number of targets that there are. */
size_t batch_targets(const struct batch *batch);

/* Fills the batch with training blocks, number `count` of the order that `seed` gives. The training
   part is cut into B equal stretches and each sequence of the batch reads its own: in an epoch
   every block of a stretch once, in random order, the blocks beginning at another random character
   each epoch. Of items: items_sample(). */
void corpus_sample(const struct corpus *corpus, uint64_t seed, uint64_t count, struct batch *batch);

/* The validation part in blocks of T that do not overlap; every character but the first is
   predicted once. corpus_validation() fills `batch` with blocks first, first + 1, ... of the
   corpus, at most B, sets batch->B to their number and gives the last block's missing characters
   target -1. Of items a block is one: items_validation(). */
size_t corpus_blocks(const struct corpus *corpus, size_t T);
void corpus_validation(const struct corpus *corpus, size_t first, size_t B, struct batch *batch);

/* A slice of the training part to measure a model on: `count` of its whole blocks of T, spread
   evenly over it. The slice does not depend on the batches that training draws. It has at most
   corpus_training_blocks() blocks. corpus_slice() fills `batch` with blocks first, first + 1, ...
   of the slice, at most B, and sets batch->B. Of items a block is one; of random characters the
   slice is another fixed draw. */
size_t corpus_training_blocks(const struct corpus *corpus, size_t T);
void corpus_slice(const struct corpus *corpus, size_t count, size_t first, size_t B,
                  struct batch *batch);

#endif
