/* From a file to ids: reads a text block by block, encodes it and makes its two splits. The full
   text is never in memory. What depends on the kind of corpus is in the kind's file. */
#include "data/text/corpus.h"
#include "data/crc32.h"
#include "data/die.h"
#include "data/text/ids.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { BLOCK = 1 << 18 }; // bytes that are read at once: they stay in the cache until encoded

static void start(struct corpus *corpus, const char *name, const struct corpus_options *options,
                  struct encoder *encoder) {
    const struct corpus_kind *kind = options->kind ? options->kind : &corpus_text;
    *corpus = (struct corpus){.kind = kind, .name = name};
    encoder_start(encoder, name, options->level, &corpus->ids);
}

/* The full text is encoded: makes the corpus of it. */
static void finish(struct corpus *corpus, const struct corpus_options *options,
                   struct encoder *encoder) {
    const struct corpus_kind *kind = corpus->kind;
    corpus->bytes = encoder->bytes;
    if (!corpus->bytes) die(STATUS_MACHINE, "corpus: %s: is empty", corpus->name);
    corpus->length = corpus->characters = encoder->length;
    ids_resize(&corpus->ids, corpus->length + kind->extra_ids);
    if (kind->init)
        kind->init(corpus, options);
    else
        corpus->units = corpus->length;
    encoder_end(encoder, corpus->length, options->known, &corpus->vocabulary);
    ids_resize(&corpus->ids, corpus->length);
    corpus->distinct = corpus->vocabulary.V - kind->end_marker;
    corpus->end = corpus->units;
    corpus->train = (size_t)((double)corpus->units * (1 - options->val_fraction));
    if (options->hold_out > 0) {
        corpus->end = corpus->train;
        corpus->train = (size_t)((double)corpus->end * (1 - options->hold_out));
    }
}

void corpus_make(struct corpus *corpus, const char *name, const char *text, size_t bytes,
                 const struct corpus_options *options) {
    struct encoder encoder;
    start(corpus, name, options, &encoder);
    corpus->crc32 = crc32_of(0, text, bytes);
    encoder_block(&encoder, (const unsigned char *)text, bytes, true);
    finish(corpus, options, &encoder);
}

void corpus_read(struct corpus *corpus, const char *path, const struct corpus_options *options) {
    bool standard = !strcmp(path, "-");
    const char *name = standard ? "standard input" : path;
    FILE *file = standard ? stdin : fopen(path, "rb");
    if (!file) die(STATUS_MACHINE, "corpus: %s: %s", name, strerror(errno));
    struct encoder encoder;
    start(corpus, name, options, &encoder);
    unsigned char *block = memory_take(BLOCK, 1, "the corpus");
    size_t kept = 0; // bytes at the start of the block that the previous one has left
    do {
        size_t count = fread(block + kept, 1, BLOCK - kept, file);
        if (ferror(file)) die(STATUS_MACHINE, "corpus: %s: %s", name, strerror(errno));
        corpus->crc32 = crc32_of(corpus->crc32, block + kept, count);
        count += kept;
        size_t used = encoder_block(&encoder, block, count, feof(file));
        kept = count - used;
        memmove(block, block + used, kept);
    } while (!feof(file));
    free(block);
    if (!standard) fclose(file);
    finish(corpus, options, &encoder);
}

bool corpus_checksum(const char *path, uint32_t *crc32) {
    struct stat status;
    if (stat(path, &status) || !S_ISREG(status.st_mode)) return false;
    FILE *file = fopen(path, "rb");
    if (!file) return false;
    unsigned char *block = memory_take(BLOCK, 1, "the corpus");
    *crc32 = 0;
    for (size_t count; (count = fread(block, 1, BLOCK, file)) > 0;)
        *crc32 = crc32_of(*crc32, block, count);
    bool whole = !ferror(file);
    free(block);
    fclose(file);
    return whole;
}

void corpus_free(struct corpus *corpus) {
    if (corpus->kind && corpus->kind->free) corpus->kind->free(corpus);
    ids_free(&corpus->ids);
    vocabulary_free(&corpus->vocabulary);
    *corpus = (struct corpus){0};
}

void corpus_check(const struct corpus *corpus, size_t T) {
    if (corpus->kind->check) corpus->kind->check(corpus, T);
}

void corpus_sample(const struct corpus *corpus, uint64_t seed, uint64_t number,
                   struct batch *batch) {
    batch->B = batch->B_max;
    batch->valid = NULL;
    corpus->kind->sample(corpus, seed, number, batch);
}

struct batch_count corpus_count(const struct corpus *corpus, uint64_t seed, uint64_t number,
                                size_t B, size_t T) {
    if (!corpus_has_pads(corpus)) return (struct batch_count){.targets = B * T};
    return corpus->kind->count(corpus, seed, number, B, T);
}

bool corpus_has_pads(const struct corpus *corpus) {
    return corpus->kind->count != NULL;
}

size_t corpus_blocks(const struct corpus *corpus, size_t T) {
    return corpus->kind->blocks(corpus, CORPUS_VALIDATION, T);
}

size_t corpus_training_blocks(const struct corpus *corpus, size_t T) {
    return corpus->kind->blocks(corpus, CORPUS_TRAINING, T);
}

void corpus_validation(const struct corpus *corpus, size_t first, size_t B, struct batch *batch) {
    batch->valid = NULL;
    corpus->kind->validation(corpus, first, B, batch);
}

void corpus_slice(const struct corpus *corpus, size_t count, size_t first, size_t B,
                  struct batch *batch) {
    batch->B = count - first < B ? count - first : B;
    batch->valid = NULL;
    corpus->kind->slice(corpus, count, first, batch);
}
