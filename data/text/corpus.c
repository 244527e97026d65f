/* text -> characters -> ids -> batches. */
#include "data/text/corpus.h"
#include "data/crc32.h"
#include "data/die.h"
#include "data/random.h"
#include "data/text/items.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void *corpus_memory(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        die(STATUS_MACHINE, "memory: no %.1f GiB for the corpus to be had",
            (double)count * (double)size / (1024.0 * 1024 * 1024));
    return memory;
}

/* Symbols in corpus->ids become the ids of the vocabulary: what occurs, or what is known. */
static void number_symbols(struct corpus *corpus, const struct corpus_options *options) {
    size_t end = 0; // behind the highest symbol
    for (size_t i = 0; i < corpus->length; i++)
        if ((size_t)corpus->ids[i] >= end) end = (size_t)corpus->ids[i] + 1;
    int32_t *id_of = corpus_memory(end, sizeof *id_of);
    for (size_t i = 0; i < corpus->length; i++) id_of[corpus->ids[i]] = 1;
    struct vocabulary *vocabulary = &corpus->vocabulary;
    vocabulary_make(vocabulary, options->level, id_of, end);
    if (options->known) {
        for (size_t i = 0; i < vocabulary->V; i++) {
            uint32_t symbol = vocabulary->symbols[i];
            if (vocabulary_id(options->known, symbol) < 0)
                die(STATUS_MACHINE, "corpus: %s: has %s, which the model's vocabulary lacks",
                    corpus->name, vocabulary_name(options->level, symbol));
            id_of[symbol] = vocabulary_id(options->known, symbol);
        }
    } else {
        for (size_t i = 0; i < vocabulary->V; i++) id_of[vocabulary->symbols[i]] = (int32_t)i;
    }
    for (size_t i = 0; i < corpus->length; i++) corpus->ids[i] = id_of[corpus->ids[i]];
    free(id_of);
}

void corpus_make(struct corpus *corpus, const char *name, const char *text, size_t bytes,
                 const struct corpus_options *options) {
    const unsigned char *in = (const unsigned char *)text;
    int level = options->level;
    *corpus = (struct corpus){.name = name, .bytes = bytes};
    if (!bytes) die(STATUS_MACHINE, "corpus: %s: is empty", name);
    corpus->crc32 = crc32_of(0, in, bytes);
    corpus->ids = corpus_memory(bytes + ITEM_MARKERS, sizeof *corpus->ids);
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
    if (options->items) items_make(corpus, options);
    number_symbols(corpus, options);
    size_t all = options->items ? corpus->items : corpus->length;
    corpus->train = (size_t)((double)all * (1 - options->val_fraction));
}

/* All that is in the file, `used` bytes, to be freed; NULL and errno if it cannot be read. */
static char *read_all(FILE *file, size_t *used) {
    char *text = NULL;
    size_t size = 0;
    *used = 0;
    do {
        if (*used == size) {
            size = size ? 2 * size : 1 << 20;
            char *more = realloc(text, size);
            if (!more) break;
            text = more;
        }
        *used += fread(text + *used, 1, size - *used, file);
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
        die(STATUS_MACHINE, "corpus: %s: larger than the memory to be had", name);
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

void corpus_random(struct corpus *corpus, size_t count, const struct vocabulary *known) {
    const uint32_t first = 0x100; // a letter; what follows it has two bytes of UTF-8 each
    uint32_t last = first + (uint32_t)count - 1;
    for (uint32_t code = first; known && code <= last; code++)
        if (vocabulary_id(known, code) < 0)
            die(STATUS_USAGE,
                "--corpus=random: draws from %zu characters, U+%04X to U+%04X, but the model's "
                "vocabulary of %zu lacks U+%04X (it is for models trained on random characters, "
                "and --random-chars may not be larger than theirs)",
                count, first, last, known->V, code);
    unsigned char *alphabet = corpus_memory(2 * count, 1);
    for (size_t i = 0; i < count; i++) {
        uint32_t code = first + (uint32_t)i;
        alphabet[2 * i] = (unsigned char)(0xc0 | code >> 6);
        alphabet[2 * i + 1] = (unsigned char)(0x80 | (code & 0x3f));
    }
    corpus_make(corpus, "random characters", (char *)alphabet, 2 * count,
                &(struct corpus_options){.known = known});
    corpus->random = true;
    free(alphabet);
}

/* A batch of the characters number `count` of a stream. */
static void draw_batch(const struct corpus *corpus, uint64_t key, uint64_t count,
                       struct batch *batch) {
    size_t T = batch->T, V = corpus->vocabulary.V;
    for (size_t b = 0; b < batch->B; b++)
        for (size_t t = 0; t < T; t++) {
            uint64_t at = (count + b) * (T + 1) + t;
            batch->ids[b * T + t] = corpus->ids[random_below(key, at, V)];
            batch->targets[b * T + t] = corpus->ids[random_below(key, at + 1, V)];
        }
}

void corpus_free(struct corpus *corpus) {
    free(corpus->ids);
    items_free(corpus);
    vocabulary_free(&corpus->vocabulary);
    *corpus = (struct corpus){0};
}

bool corpus_validates(const struct corpus *corpus) {
    if (corpus->random) return true;
    return corpus->items ? corpus->items > corpus->train : corpus->length > corpus->train + 1;
}

void corpus_check(const struct corpus *corpus, size_t T) {
    if (corpus->random) return;
    if (corpus->items) {
        items_check(corpus);
        return;
    }
    if (corpus->train < T + 1)
        die(STATUS_USAGE,
            "corpus: %s: %zu characters to train on are fewer than a block of %zu and one more "
            "(try "
            "a smaller --block-size or a longer text)",
            corpus->name, corpus->train, T);
    if (!corpus_validates(corpus))
        die(STATUS_USAGE,
            "corpus: %s: %zu characters to validate on are fewer than 2 (try a larger "
            "--val-fraction or a longer text)",
            corpus->name, corpus->length - corpus->train);
}

struct batch batch_make(size_t B, size_t T) {
    size_t count;
    if (__builtin_mul_overflow(B, T, &count)) count = SIZE_MAX;
    return (struct batch){.B = B,
                          .T = T,
                          .most_B = B,
                          .most_T = T,
                          .ids = corpus_memory(count, sizeof(int32_t)),
                          .targets = corpus_memory(count, sizeof(int32_t))};
}

void batch_free(struct batch *batch) {
    free(batch->ids);
    free(batch->targets);
    free(batch->valid);
    *batch = (struct batch){0};
}

size_t batch_targets(const struct batch *batch) {
    size_t targets = 0;
    for (size_t n = 0; n < batch->B * batch->T; n++) targets += batch->targets[n] >= 0;
    return targets;
}

/* Stratified sampling without replacement: against independent random blocks (nanoGPT's way) no
   text is left out or repeated early, and a batch never comes from one corner of the corpus, so its
   gradient varies less. */
void corpus_sample(const struct corpus *corpus, uint64_t seed, uint64_t count,
                   struct batch *batch) {
    if (corpus->items) {
        items_sample(corpus, seed, count, batch);
        return;
    }
    batch->B = batch->most_B;
    if (corpus->random) {
        draw_batch(corpus, random_key(seed, "random text", 0), count * batch->B, batch);
        return;
    }
    size_t T = batch->T, targets = corpus->train - 1; // all characters but the first
    for (size_t b = 0; b < batch->B; b++) {
        size_t first = targets * b / batch->B, width = targets * (b + 1) / batch->B - first;
        size_t blocks = width / T > 1 ? width / T - 1 : 1, room = width - blocks * T + 1;
        if (width < T) { // a block reaches beyond its stretch, but not beyond the text
            if (first > targets - T) first = targets - T;
            room = targets - T - first < width ? targets - T - first + 1 : width;
        }
        uint64_t epoch = random_key(seed, "epoch", count / blocks);
        size_t origin = random_below(epoch, b, room);
        size_t block = random_permuted(random_key(epoch, "blocks", b), count % blocks, blocks);
        const int32_t *from = corpus->ids + first + origin + block * T;
        memcpy(batch->ids + b * T, from, T * sizeof *from);
        memcpy(batch->targets + b * T, from + 1, T * sizeof *from);
    }
}

size_t corpus_blocks(const struct corpus *corpus, size_t T) {
    if (corpus->random) return RANDOM_BLOCKS;
    if (corpus->items) return corpus->items - corpus->train;
    return (corpus->length - corpus->train - 1 + T - 1) / T;
}

void corpus_validation(const struct corpus *corpus, size_t first, size_t B, struct batch *batch) {
    if (corpus->items) {
        items_validation(corpus, first, B, batch);
        return;
    }
    size_t T = batch->T, blocks = corpus_blocks(corpus, T);
    batch->B = blocks - first < B ? blocks - first : B;
    if (corpus->random) {
        draw_batch(corpus, random_key(0, "random text to validate", 0), first, batch);
        return;
    }
    for (size_t b = 0; b < batch->B; b++)
        for (size_t t = 0; t < T; t++) {
            size_t at = corpus->train + (first + b) * T + t, n = b * T + t;
            bool inside = at + 1 < corpus->length;
            batch->ids[n] = inside ? corpus->ids[at] : 0;
            batch->targets[n] = inside ? corpus->ids[at + 1] : -1;
        }
}

size_t corpus_training_blocks(const struct corpus *corpus, size_t T) {
    if (corpus->random) return RANDOM_BLOCKS;
    return corpus->items ? corpus->train : (corpus->train - 1) / T;
}

void corpus_slice(const struct corpus *corpus, size_t count, size_t first, size_t B,
                  struct batch *batch) {
    if (corpus->items) {
        items_slice(corpus, count, first, B, batch);
        return;
    }
    size_t T = batch->T, blocks = corpus_training_blocks(corpus, T);
    batch->B = count - first < B ? count - first : B;
    if (corpus->random) {
        draw_batch(corpus, random_key(0, "random text of the training slice", 0), first, batch);
        return;
    }
    for (size_t b = 0; b < batch->B; b++) {
        const int32_t *from = corpus->ids + (first + b) * blocks / count * T;
        memcpy(batch->ids + b * T, from, T * sizeof *from);
        memcpy(batch->targets + b * T, from + 1, T * sizeof *from);
    }
}
