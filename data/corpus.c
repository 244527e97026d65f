/* text -> characters -> ids -> batches. The vocabulary is what occurs, in ascending order. */
#include "corpus.h"
#include "die.h"
#include "random.h"
#include "utf8.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void *get(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        die(STATUS_MACHINE, "memory: no %.1f GiB for the corpus to be had",
            (double)count * (double)size / (1024.0 * 1024 * 1024));
    return memory;
}

/* CRC-32 (IEEE 802.3, as zlib's). */
static uint32_t crc32_of(const unsigned char *text, size_t bytes) {
    uint32_t table[256], crc = 0xffffffff;
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++) c = c & 1 ? 0xedb88320 ^ c >> 1 : c >> 1;
        table[i] = c;
    }
    for (size_t i = 0; i < bytes; i++) crc = table[(crc ^ text[i]) & 255] ^ crc >> 8;
    return ~crc;
}

void corpus_make(struct corpus *corpus, const char *name, const char *text, size_t bytes, int level,
                 double val_fraction) {
    const unsigned char *in = (const unsigned char *)text;
    *corpus = (struct corpus){.name = name, .level = level, .bytes = bytes};
    if (!bytes) die(STATUS_MACHINE, "corpus: %s: is empty", name);
    corpus->crc32 = crc32_of(in, bytes);
    corpus->ids = get(bytes, sizeof *corpus->ids);
    int32_t *id_of = get(CODE_POINTS, sizeof *id_of);
    size_t at = level == LEVEL_CHAR && bytes >= 3 && !memcmp(in, "\xef\xbb\xbf", 3) ? 3 : 0; // BOM
    while (at < bytes) {
        size_t here = at;
        int32_t symbol = level == LEVEL_BYTE ? in[at++] : utf8_decode(in, bytes, &at);
        if (symbol < 0)
            die(STATUS_MACHINE, "corpus: %s: not UTF-8 at byte %zu, 0x%02x (try --level=byte)",
                name, here, in[here]);
        if (symbol == 0 && level == LEVEL_CHAR)
            die(STATUS_MACHINE,
                "corpus: %s: a NUL byte at byte %zu, so not text (try --level=byte)", name, here);
        corpus->ids[corpus->length++] = symbol;
        id_of[symbol] = 1;
    }
    for (int32_t symbol = 0; symbol < CODE_POINTS; symbol++) corpus->V += id_of[symbol];
    corpus->symbols = get(corpus->V, sizeof *corpus->symbols);
    int32_t next = 0;
    for (int32_t symbol = 0; symbol < CODE_POINTS; symbol++)
        if (id_of[symbol]) {
            corpus->symbols[next] = symbol;
            id_of[symbol] = next++;
        }
    for (size_t i = 0; i < corpus->length; i++) corpus->ids[i] = id_of[corpus->ids[i]];
    free(id_of);
    corpus->train = (size_t)((double)corpus->length * (1 - val_fraction));
}

void corpus_read(struct corpus *corpus, const char *path, int level, double val_fraction) {
    bool standard = !strcmp(path, "-");
    const char *name = standard ? "standard input" : path;
    FILE *file = standard ? stdin : fopen(path, "rb");
    if (!file) die(STATUS_MACHINE, "corpus: %s: %s", name, strerror(errno));
    char *text = NULL;
    size_t size = 0, used = 0;
    do {
        if (used == size) {
            size = size ? 2 * size : 1 << 20;
            char *more = realloc(text, size);
            if (!more) die(STATUS_MACHINE, "corpus: %s: larger than the memory to be had", name);
            text = more;
        }
        used += fread(text + used, 1, size - used, file);
        if (ferror(file)) die(STATUS_MACHINE, "corpus: %s: %s", name, strerror(errno));
    } while (!feof(file));
    if (!standard) fclose(file);
    corpus_make(corpus, name, text, used, level, val_fraction);
    free(text);
}

void corpus_free(struct corpus *corpus) {
    free(corpus->ids);
    free(corpus->symbols);
    *corpus = (struct corpus){0};
}

void corpus_check(const struct corpus *corpus, size_t T) {
    if (corpus->train < T + 1)
        die(STATUS_USAGE,
            "corpus: %s: %zu characters to train on are fewer than a block of %zu and one more "
            "(try "
            "a smaller --block-size or a longer text)",
            corpus->name, corpus->train, T);
    if (corpus->length - corpus->train < 2)
        die(STATUS_USAGE,
            "corpus: %s: %zu characters to validate on are fewer than 2 (try a larger "
            "--val-fraction or a longer text)",
            corpus->name, corpus->length - corpus->train);
}

struct batch batch_make(size_t B, size_t T) {
    size_t count;
    if (__builtin_mul_overflow(B, T, &count)) count = SIZE_MAX;
    return (struct batch){B, T, get(count, sizeof(int32_t)), get(count, sizeof(int32_t)), NULL};
}

void batch_free(struct batch *batch) {
    free(batch->ids);
    free(batch->targets);
    *batch = (struct batch){0};
}

/* Stratified sampling without replacement: against independent random blocks (nanoGPT's way) no
   text is left out or repeated early, and a batch never comes from one corner of the corpus, so its
   gradient varies less. */
void corpus_sample(const struct corpus *corpus, uint64_t seed, uint64_t count,
                   struct batch *batch) {
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
    return (corpus->length - corpus->train - 1 + T - 1) / T;
}

void corpus_validation(const struct corpus *corpus, size_t first, size_t B, struct batch *batch) {
    size_t T = batch->T, blocks = corpus_blocks(corpus, T);
    batch->B = blocks - first < B ? blocks - first : B;
    for (size_t b = 0; b < batch->B; b++)
        for (size_t t = 0; t < T; t++) {
            size_t at = corpus->train + (first + b) * T + t, n = b * T + t;
            bool inside = at + 1 < corpus->length;
            batch->ids[n] = inside ? corpus->ids[at] : 0;
            batch->targets[n] = inside ? corpus->ids[at + 1] : -1;
        }
}

void corpus_put(const struct corpus *corpus, int32_t id, FILE *file) {
    if (corpus->level == LEVEL_BYTE)
        fputc((int)corpus->symbols[id], file);
    else
        utf8_put(corpus->symbols[id], file);
}

int32_t corpus_id(const struct corpus *corpus, uint32_t symbol) {
    size_t low = 0, high = corpus->V; // binary search
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (corpus->symbols[middle] < symbol)
            low = middle + 1;
        else
            high = middle;
    }
    return low < corpus->V && corpus->symbols[low] == symbol ? (int32_t)low : -1;
}

char *corpus_vocabulary(const struct corpus *corpus) {
    enum { LONGEST = 8 }; // " 1114111"
    char *text = get(corpus->V + 1, LONGEST), *end = text;
    for (size_t i = 0; i < corpus->V; i++)
        end += sprintf(end, i ? " %u" : "%u", corpus->symbols[i]);
    return text;
}
