/* From bytes to ids: reads a text, numbers its characters and splits it into two parts. What
   depends on the kind of corpus is in the kind's file. */
#include "data/text/corpus.h"
#include "data/crc32.h"
#include "data/die.h"
#include "data/memory.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The text's symbols in corpus->ids. */
static void read_symbols(struct corpus *corpus, const unsigned char *in, int level) {
    const char *name = corpus->name;
    size_t bytes = corpus->bytes;
    size_t at = level == LEVEL_CHAR && bytes >= 3 && !memcmp(in, "\xef\xbb\xbf", 3) ? 3 : 0; // BOM
    while (at < bytes) {
        size_t here = at;
        int32_t symbol = vocabulary_symbol(level, in, bytes, &at);
        if (symbol < 0)
            die(STATUS_MACHINE, "corpus: %s: not UTF-8 at byte %zu, 0x%02x (try --level=byte)",
                name, here, in[here]);
        if (symbol == 0 && level == LEVEL_CHAR)
            die(STATUS_MACHINE,
                "corpus: %s: a NUL byte at byte %zu, so not text (try --level=byte)", name, here);
        corpus->ids[corpus->length++] = symbol;
    }
    corpus->characters = corpus->length;
}

/* Makes the vocabulary of the symbols that occur, and replaces each symbol in corpus->ids by its id
   in this vocabulary, or in the known one. */
static void number_symbols(struct corpus *corpus, const struct corpus_options *options) {
    size_t end = 0; // one more than the highest symbol
    for (size_t i = 0; i < corpus->length; i++)
        if ((size_t)corpus->ids[i] >= end) end = (size_t)corpus->ids[i] + 1;
    int32_t *id_of = memory_take(end, sizeof *id_of, "the corpus's vocabulary");
    for (size_t i = 0; i < corpus->length; i++) id_of[corpus->ids[i]] = 1;
    struct vocabulary *vocabulary = &corpus->vocabulary;
    vocabulary_make(vocabulary, options->level, id_of, end);
    for (size_t i = 0; i < vocabulary->V; i++) {
        uint32_t symbol = vocabulary->symbols[i];
        id_of[symbol] = options->known ? vocabulary_id(options->known, symbol) : (int32_t)i;
        if (id_of[symbol] < 0)
            die(STATUS_MACHINE, "corpus: %s: has %s, which the model's vocabulary lacks",
                corpus->name, vocabulary_name(options->level, symbol));
    }
    for (size_t i = 0; i < corpus->length; i++) corpus->ids[i] = id_of[corpus->ids[i]];
    free(id_of);
}

void corpus_make(struct corpus *corpus, const char *name, const char *text, size_t bytes,
                 const struct corpus_options *options) {
    const struct corpus_kind *kind = options->kind ? options->kind : &corpus_text;
    const unsigned char *in = (const unsigned char *)text;
    *corpus = (struct corpus){.kind = kind, .name = name, .bytes = bytes};
    if (!bytes) die(STATUS_MACHINE, "corpus: %s: is empty", name);
    corpus->crc32 = crc32_of(0, in, bytes);
    corpus->ids = memory_take(bytes + kind->extra_ids, sizeof *corpus->ids, "the corpus");
    read_symbols(corpus, in, options->level);
    kind->init(corpus, options);
    number_symbols(corpus, options);
    corpus->distinct = corpus->vocabulary.V - kind->end_marker;
    corpus->train = (size_t)((double)corpus->units * (1 - options->val_fraction));
}

/* The whole file, `*bytes` bytes, to be freed; NULL and errno if it cannot be read. */
static char *read_all(FILE *file, size_t *bytes) {
    char *text = NULL;
    size_t size = 0;
    *bytes = 0;
    do {
        if (*bytes == size) {
            size = size ? 2 * size : 1 << 20;
            char *larger = realloc(text, size);
            if (!larger) break;
            text = larger;
        }
        *bytes += fread(text + *bytes, 1, size - *bytes, file);
    } while (!feof(file) && !ferror(file));
    if (feof(file)) return text;
    free(text);
    return NULL;
}

void corpus_read(struct corpus *corpus, const char *path, const struct corpus_options *options) {
    bool standard = !strcmp(path, "-");
    const char *name = standard ? "standard input" : path;
    FILE *file = standard ? stdin : fopen(path, "rb");
    if (!file) die(STATUS_MACHINE, "corpus: %s: %s", name, strerror(errno));
    size_t bytes;
    char *text = read_all(file, &bytes);
    if (!text && !ferror(file))
        die(STATUS_MACHINE, "corpus: %s: is larger than the available memory", name);
    if (!text) die(STATUS_MACHINE, "corpus: %s: %s", name, strerror(errno));
    if (!standard) fclose(file);
    corpus_make(corpus, name, text, bytes, options);
    free(text);
}

bool corpus_checksum(const char *path, uint32_t *crc32) {
    struct stat status;
    if (stat(path, &status) || !S_ISREG(status.st_mode)) return false;
    FILE *file = fopen(path, "rb");
    if (!file) return false;
    size_t bytes;
    char *text = read_all(file, &bytes);
    fclose(file);
    if (text) *crc32 = crc32_of(0, (unsigned char *)text, bytes);
    free(text);
    return text != NULL;
}

void corpus_free(struct corpus *corpus) {
    if (corpus->kind && corpus->kind->free) corpus->kind->free(corpus);
    free(corpus->ids);
    vocabulary_free(&corpus->vocabulary);
    *corpus = (struct corpus){0};
}

bool corpus_validates(const struct corpus *corpus) {
    return corpus_blocks(corpus, 1) > 0;
}

void corpus_check(const struct corpus *corpus, size_t T) {
    if (corpus->kind->check) corpus->kind->check(corpus, T);
}

void corpus_sample(const struct corpus *corpus, uint64_t seed, uint64_t number,
                   struct batch *batch) {
    batch->B = batch->B_max;
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
    corpus->kind->validation(corpus, first, B, batch);
}

void corpus_slice(const struct corpus *corpus, size_t count, size_t first, size_t B,
                  struct batch *batch) {
    batch->B = count - first < B ? count - first : B;
    corpus->kind->slice(corpus, count, first, batch);
}
