/* From a file to ids: reads a text, checks and encodes it, and makes its two splits. What depends on
   the kind of corpus is in the kind's file. */
#include "data/text/corpus.h"
#include "data/crc32.h"
#include "data/die.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1 << 18 }; // bytes that are read at once

/* A text that is being read, from byte `first` of the file on. There is memory for one byte more. */
struct text {
    unsigned char *byte;
    size_t bytes, first;
};

/* Marks in occurs (CODE_POINTS) which symbols the text has, and counts its characters in *length.
   Returns the number of symbols. Dies unless all characters are valid. */
static size_t mark_symbols(const char *name, struct text text, int level, int32_t *occurs,
                           size_t *length) {
    size_t distinct = 0;
    *length = 0;
    for (size_t offset = 0, begin = 0; offset < text.bytes; begin = offset, ++*length) {
        const int32_t symbol = vocabulary_symbol(level, text.byte, text.bytes, &offset);
        if (symbol < 0)
            die(STATUS_MACHINE, "corpus: %s: not UTF-8 at byte %zu, 0x%02x (try --level=byte)",
                name, text.first + offset, text.byte[offset]);
        if (symbol == 0 && level == LEVEL_CHAR)
            die(STATUS_MACHINE,
                "corpus: %s: a NUL byte at byte %zu, so not text (try --level=byte)", name,
                text.first + begin);
        distinct += !occurs[symbol];
        occurs[symbol] = 1;
    }
    return distinct;
}

/* Makes ids of the text and frees it. Ids of one byte take the place of the text: each is at or
   before its character. */
static void encode(struct corpus *corpus, struct text text, int level,
                   const struct vocabulary *known) {
    const size_t end = level == LEVEL_BYTE ? 256 : CODE_POINTS;
    int32_t *id_of = memory_take(end, sizeof *id_of, "the corpus's vocabulary");
    corpus->distinct = mark_symbols(corpus->name, text, level, id_of, &corpus->length);
    for (size_t i = 0; known && i < known->V; i++) id_of[known->symbols[i]] = 1;
    struct vocabulary *vocabulary = &corpus->vocabulary;
    const size_t capacity = corpus->distinct + (known ? known->V : 0);
    *vocabulary = (struct vocabulary){
        .level = level, .symbols = memory_take(capacity, sizeof(uint32_t), "the vocabulary")};
    for (uint32_t symbol = 0; symbol < end; symbol++) {
        if (!id_of[symbol]) continue;
        if (known && vocabulary_id(known, symbol) < 0)
            die(STATUS_MACHINE, "corpus: %s: has %s, which the model's vocabulary lacks",
                corpus->name, vocabulary_name(level, symbol));
        id_of[symbol] = (int32_t)vocabulary->V;
        vocabulary->symbols[vocabulary->V++] = symbol;
    }
    const size_t V = vocabulary->V, length = corpus->length;
    struct ids ids = {.data = text.byte, .width = V <= 256 ? 1 : V <= 65536 ? 2 : 4};
    if (ids.width > 1) ids.data = memory_take(length, ids.width, "the corpus");
    for (size_t i = 0, offset = 0; i < length; i++)
        ids_put(&ids, i, id_of[vocabulary_symbol(level, text.byte, text.bytes, &offset)]);
    if (ids.width > 1) free(text.byte);
    if (ids.width == 1) ids.data = memory_grow(ids.data, length, 1, "the corpus");
    corpus->ids = ids;
    free(id_of);
}

/* All of the text is there: makes the corpus of it. */
static void finish(struct corpus *corpus, struct text *text, const struct corpus_options *options) {
    const struct corpus_kind *kind = corpus->kind;
    corpus->bytes = text->bytes;
    if (!corpus->bytes) die(STATUS_MACHINE, "corpus: %s: is empty", corpus->name);
    if (options->level == LEVEL_CHAR && text->bytes >= 3 &&
        !memcmp(text->byte, "\xef\xbb\xbf", 3)) { // a byte order mark
        text->first = 3;
        text->bytes -= 3;
        memmove(text->byte, text->byte + text->first, text->bytes);
    }
    if (kind->mark) text->bytes = kind->mark(text->byte, text->bytes);
    encode(corpus, *text, options->level, options->known);
    if (kind->mark) corpus->distinct--; // the marker
    corpus->units = corpus->characters = corpus->length;
    if (kind->init) kind->init(corpus, options);
    corpus->end = corpus->units;
    corpus->train = (size_t)((double)corpus->units * (1 - options->val_fraction));
    if (options->hold_out > 0) {
        corpus->end = corpus->train;
        corpus->train = (size_t)((double)corpus->end * (1 - options->hold_out));
    }
}

/* Makes the corpus of what `file` holds. */
static void read_file(struct corpus *corpus, const char *name, FILE *file,
                      const struct corpus_options *options) {
    struct text text = {0};
    size_t room = 0;
    *corpus = (struct corpus){.kind = options->kind ? options->kind : &corpus_text, .name = name};
    do {
        if (text.bytes + BLOCK >= room) {
            room += room / 2 + BLOCK + 1;
            text.byte = memory_grow(text.byte, room, 1, "the corpus");
        }
        size_t count = fread(text.byte + text.bytes, 1, BLOCK, file);
        if (ferror(file)) die(STATUS_MACHINE, "corpus: %s: %s", name, strerror(errno));
        corpus->crc32 = crc32_of(corpus->crc32, text.byte + text.bytes, count);
        text.bytes += count;
    } while (!feof(file));
    if (file != stdin) fclose(file);
    finish(corpus, &text, options);
}

void corpus_make(struct corpus *corpus, const char *name, const char *text, size_t bytes,
                 const struct corpus_options *options) {
    FILE *file = fmemopen((char *)text, bytes, "rb");
    if (!file) die(STATUS_MACHINE, "corpus: %s: %s", name, strerror(errno));
    read_file(corpus, name, file, options);
}

void corpus_read(struct corpus *corpus, const char *path, const struct corpus_options *options) {
    const bool standard = !strcmp(path, "-");
    read_file(corpus, standard ? "standard input" : path,
              standard ? stdin : file_open("corpus", path), options);
}

void corpus_free(struct corpus *corpus) {
    if (corpus->kind && corpus->kind->free) corpus->kind->free(corpus);
    free(corpus->ids.data);
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

uint64_t corpus_batches(const struct corpus *corpus, uint64_t seed, uint64_t targets, size_t B,
                        size_t T) {
    if (corpus->kind->batches) return corpus->kind->batches(corpus, seed, targets, B, T);
    return (targets + B * T - 1) / (B * T);
}

size_t corpus_blocks(const struct corpus *corpus, enum corpus_split split, size_t T) {
    return corpus->kind->blocks(corpus, split, T);
}

void corpus_validation(const struct corpus *corpus, size_t first, size_t B, struct batch *batch) {
    const size_t left = corpus_blocks(corpus, CORPUS_VALIDATION, batch->T) - first;
    batch->B = left < B ? left : B;
    batch->valid = NULL;
    corpus->kind->validation(corpus, first, B, batch);
}

void corpus_slice(const struct corpus *corpus, size_t count, size_t first, size_t B,
                  struct batch *batch) {
    batch->B = count - first < B ? count - first : B;
    batch->valid = NULL;
    corpus->kind->slice(corpus, count, first, batch);
}

/* The mean over these counts of -ln of how frequent the character is in the known ones, where it
   counts at least once. */
static double cross_entropy(const size_t *count, const size_t *known, size_t V) {
    double sum = 0;
    size_t total = 0, all_known = 0;
    for (size_t id = 0; id < V; id++) all_known += known[id];
    for (size_t id = 0; id < V; id++) {
        total += count[id];
        const double at_least_once = known[id] ? (double)known[id] : 1;
        sum -= (double)count[id] * log(at_least_once / (double)all_known);
    }
    return sum / (double)total;
}

struct unigram corpus_unigram(const struct corpus *corpus, size_t T) {
    const size_t V = corpus->vocabulary.V;
    if (!corpus->kind->count) return (struct unigram){-1, -1};
    size_t *train = memory_take(2 * V, sizeof *train, "the frequencies of characters");
    size_t *validation = train + V;
    corpus->kind->count(corpus, CORPUS_TRAINING, T, train);
    corpus->kind->count(corpus, CORPUS_VALIDATION, T, validation);
    struct unigram unigram = {cross_entropy(train, train, V), cross_entropy(validation, train, V)};
    free(train);
    return unigram;
}
