/* Lines -> items -> batches.

   A batch of the training split takes the next B items of a random order. This order depends on the
   seed alone and has every item once in each epoch. A batch is as long as its longest item, or as a
   block with `pad_to_block`. With `bucket`, the items of POOL_BATCHES batches are sorted by length
   and cut into batches, which are then used in a random order. Batches of the
   validation split are made in the same way, but in the order of the split. */
#include "data/text/items.h"
#include "data/die.h"
#include "data/random.h"
#include <stdlib.h>
#include <string.h>

enum { POOL_BATCHES = 32 }; // that `bucket` sorts together

/* An item of a pool, and its place before sorting, which orders items of the same length. */
struct pick {
    const struct item *item;
    size_t place;
};

/* Pool `number` of a split, for batches of B; B = 0: none. */
struct item_pool {
    uint64_t split, seed, number, B;
};

/* The state of a corpus of items, corpus->data. A pool has consecutive items of a split: those of
   one batch, or with `bucket` of several batches, sorted by length. It is filled when the first of
   its batches is needed, and serves the others too. */
struct items {
    struct item *item; // (corpus->units) shuffled
    bool pad_to_block;
    size_t batches;          // in a pool, unless the split ends before
    struct item_pool held;   // what it holds
    size_t count, count_max; // items in it, and those that there is memory for
    struct pick *pick;       // (count)
};

/* Empties the pool and ensures that it has memory for `count` items. */
static void pool_clear(struct items *items, size_t count) {
    items->held.B = 0;
    if (count <= items->count_max) return;
    free(items->pick);
    items->pick = memory_take(count, sizeof *items->pick, "a batch of items");
    items->count_max = count;
}

/* Makes newlines of blank lines and of \r at the end of a line, and adds one to the text. Then the
   items are what is left between newlines. */
static size_t mark(unsigned char *text, size_t bytes) {
    text[bytes] = END_MARKER;
    for (unsigned char *line = text, *end; line <= text + bytes; line = end + 1) {
        unsigned char *stop = end = memchr(line, END_MARKER, bytes + 1 - (size_t)(line - text));
        if (stop > line && stop[-1] == '\r') stop--;
        unsigned char *first = line; // that is not blank
        while (first < stop && (*first == ' ' || *first == '\t')) first++;
        if (first == stop) stop = line;
        memset(stop, END_MARKER, (size_t)(end - stop));
    }
    return bytes + 1;
}

/* The next item from *start on, which moves after it; no tokens after the last one. */
static struct item next_item(const struct corpus *corpus, int32_t marker, size_t *start) {
    while (*start < corpus->length && ids_at(&corpus->ids, *start) == marker) ++*start;
    const size_t first = *start;
    while (*start < corpus->length && ids_at(&corpus->ids, *start) != marker) ++*start;
    return (struct item){first, *start > first ? *start + 1 - first : 0};
}

/* The items are shuffled; their order is the same for every seed. */
static void init(struct corpus *corpus, const struct corpus_options *options) {
    struct items *items = corpus->data = memory_take(1, sizeof *items, "the items");
    const int32_t marker = vocabulary_id(&corpus->vocabulary, END_MARKER);
    const uint64_t order = random_key(0, "items", 0);
    struct item next;
    corpus->units = corpus->characters = 0;
    for (size_t offset = 0; (next = next_item(corpus, marker, &offset)).tokens; corpus->units++)
        corpus->characters += next.tokens - 1;
    if (!corpus->units)
        die(STATUS_MACHINE, "corpus: %s: has no items, only blank lines", corpus->name);
    items->item = memory_take(corpus->units, sizeof *items->item, "the items");
    for (size_t i = 0, offset = 0; i < corpus->units; i++)
        items->item[random_permuted(order, i, corpus->units)] = next_item(corpus, marker, &offset);
    items->batches = options->bucket ? POOL_BATCHES : 1;
    items->pad_to_block = options->pad_to_block;
    pool_clear(items, options->batch_size * items->batches);
}

static void free_items(struct corpus *corpus) {
    struct items *items = corpus->data;
    if (!items) return;
    free(items->pick);
    free(items->item);
    free(items);
}

static void check(const struct corpus *corpus, size_t T) {
    if (!corpus->train || corpus->train == corpus->end)
        die(STATUS_USAGE,
            "corpus: %s: %zu of %zu items train and %zu validate, but each split needs one (try "
            "another --val-fraction or --hold-out, or more items)",
            corpus->name, corpus->train, corpus->units, corpus->end - corpus->train);
}

static size_t blocks(const struct corpus *corpus, enum corpus_split split, size_t T) {
    return split == CORPUS_TRAINING ? corpus->train : corpus->end - corpus->train;
}

const struct item *items_of(const struct corpus *corpus) {
    return corpus->kind == &corpus_items ? ((struct items *)corpus->data)->item : NULL;
}

struct items_size items_size_of(const struct corpus *corpus, size_t T) {
    const struct item *item = items_of(corpus);
    if (!item) return (struct items_size){0};
    struct items_size size = {.items = corpus->units, .train = corpus->train};
    for (size_t i = 0; i < size.items; i++) {
        size_t tokens = item[i].tokens;
        if (tokens - 1 > size.longest) size.longest = tokens - 1;
        size.cut += tokens > T;
    }
    return size;
}

/* Item `place` in the order of the training items, which continues without end. */
static const struct item *training_item(const struct corpus *corpus, uint64_t seed, size_t place) {
    const struct items *items = corpus->data;
    uint64_t epoch = random_key(seed, "epoch", place / corpus->train);
    size_t i = place % corpus->train;
    return &items->item[random_permuted(random_key(epoch, "items", 0), i, corpus->train)];
}

/* Whether a comes after b: by length, then by place. */
static bool is_after(struct pick a, struct pick b) {
    if (a.item->tokens != b.item->tokens) return a.item->tokens > b.item->tokens;
    return a.place > b.place;
}

/* Shellsort: qsort() may allocate. */
static void sort_by_length(struct pick *pick, size_t count) {
    for (size_t gap = count / 2; gap > 0; gap /= 2)
        for (size_t i = gap, to; i < count; i++) {
            const struct pick moved = pick[i];
            for (to = i; to >= gap && is_after(pick[to - gap], moved); to -= gap)
                pick[to] = pick[to - gap];
            pick[to] = moved;
        }
}

/* Fills the pool, unless it holds this one. */
static void pool_fill(const struct corpus *corpus, struct item_pool pool) {
    struct items *items = corpus->data;
    if (!memcmp(&items->held, &pool, sizeof pool)) return;
    bool training = pool.split == CORPUS_TRAINING;
    size_t size = pool.B * items->batches, first = pool.number * size;
    size_t left = corpus->end - corpus->train - first; // of validation items
    pool_clear(items, size);
    items->held = pool;
    items->count = training || size < left ? size : left;
    for (size_t i = 0; i < items->count; i++)
        items->pick[i] = (struct pick){training ? training_item(corpus, pool.seed, first + i)
                                                : &items->item[corpus->train + first + i],
                                       i};
    if (items->batches > 1) sort_by_length(items->pick, items->count);
}

static size_t tokens_in(const struct item *item, size_t T) {
    return item->tokens < T ? item->tokens : T;
}

static void put_item(const struct corpus *corpus, const struct item *item, struct batch *batch,
                     size_t b) {
    size_t T = batch->T, tokens = tokens_in(item, T);
    int32_t *ids = batch->ids + b * T, *targets = batch->targets + b * T;
    unsigned char *valid = batch->valid + b * T;
    ids[0] = ids_at(&corpus->ids, corpus->length - 1); // the marker
    ids_get(&corpus->ids, item->start, tokens - 1, ids + 1);
    ids_get(&corpus->ids, item->start, tokens, targets);
    memset(valid, 1, tokens);
    memset(valid + tokens, 0, T - tokens);
    for (size_t t = tokens; t < T; t++) {
        ids[t] = ids[0];
        targets[t] = -1;
    }
}

/* Fills the batch with these batch->B items. */
static void put_items(const struct corpus *corpus, const struct pick *pick, struct batch *batch) {
    const struct items *items = corpus->data;
    batch->T = items->pad_to_block ? batch->T_max : 1;
    batch->valid = batch->marks;
    for (size_t b = 0; b < batch->B; b++) {
        const size_t tokens = tokens_in(pick[b].item, batch->T_max);
        if (tokens > batch->T) batch->T = tokens;
    }
    for (size_t b = 0; b < batch->B; b++) put_item(corpus, pick[b].item, batch, b);
}

/* The items of batch `number` of a split, at most B; their number in *count. */
static const struct pick *batch_items(const struct corpus *corpus, enum corpus_split split,
                                      uint64_t seed, uint64_t number, size_t B, size_t *count) {
    const struct items *items = corpus->data;
    pool_fill(corpus, (struct item_pool){split, seed, number / items->batches, B});
    size_t filled = (items->count + B - 1) / B; // batches; fewer in the last pool of validation
    uint64_t order = random_key(seed, "buckets", items->held.number);
    size_t first = (size_t)random_permuted(order, number % items->batches, filled) * B;
    size_t left = items->count - first;
    *count = left < B ? left : B;
    return items->pick + first;
}

static void sample(const struct corpus *corpus, uint64_t seed, uint64_t number,
                   struct batch *batch) {
    put_items(corpus, batch_items(corpus, CORPUS_TRAINING, seed, number, batch->B, &batch->B),
              batch);
}

static void validation(const struct corpus *corpus, size_t first, size_t B, struct batch *batch) {
    put_items(corpus, batch_items(corpus, CORPUS_VALIDATION, 0, first / B, B, &batch->B), batch);
}

/* Whole epochs have the same targets in any order. So counting starts at the first pool that ends
   after them; it reads each item a few times, however large `targets` is. */
static uint64_t batches_of(const struct corpus *corpus, uint64_t seed, uint64_t targets, size_t B,
                           size_t T) {
    const struct items *items = corpus->data;
    const uint64_t N = corpus->train;
    uint64_t per_epoch = 0; // the targets of an epoch
    for (size_t i = 0; i < N; i++) per_epoch += tokens_in(&items->item[i], T);
    uint64_t number = targets / per_epoch * N / B / items->batches * items->batches;
    const uint64_t place = number * B;     // of its first item
    uint64_t seen = place / N * per_epoch; // before it
    for (uint64_t i = place - place % N; i < place; i++)
        seen += tokens_in(training_item(corpus, seed, i), T);
    for (; seen < targets; number++) {
        size_t count;
        const struct pick *pick = batch_items(corpus, CORPUS_TRAINING, seed, number, B, &count);
        for (size_t b = 0; b < count; b++) seen += tokens_in(pick[b].item, T);
    }
    return number;
}

static void slice(const struct corpus *corpus, size_t count, size_t first, struct batch *batch) {
    struct items *items = corpus->data;
    pool_clear(items, batch->B);
    for (size_t b = 0; b < batch->B; b++)
        items->pick[b].item = &items->item[(first + b) * corpus->train / count];
    put_items(corpus, items->pick, batch);
}

static void count(const struct corpus *corpus, enum corpus_split split, size_t T, size_t *count) {
    const struct item *item = items_of(corpus);
    const bool training = split == CORPUS_TRAINING;
    const size_t first = training ? 0 : corpus->train, end = training ? corpus->train : corpus->end;
    for (size_t i = first; i < end; i++)
        for (size_t t = 0; t < tokens_in(&item[i], T); t++)
            count[ids_at(&corpus->ids, item[i].start + t)]++;
}

enum item_place item_find(const struct corpus *corpus, size_t T,
                          const struct vocabulary *vocabulary, const int32_t *targets,
                          size_t count) {
    const struct item *item = items_of(corpus);
    const uint32_t *symbols = corpus->vocabulary.symbols;
    for (size_t i = 0; i < corpus->end; i++) {
        size_t same = 0;
        if (tokens_in(&item[i], T) != count) continue;
        while (same < count && symbols[ids_at(&corpus->ids, item[i].start + same)] ==
                                   vocabulary->symbols[targets[same]])
            same++;
        if (same == count) return i < corpus->train ? ITEM_KNOWN : ITEM_VALIDATES;
    }
    return ITEM_NEW;
}

const struct corpus_kind corpus_items = {
    .pads = true,
    .mark = mark,
    .init = init,
    .free = free_items,
    .check = check,
    .blocks = blocks,
    .sample = sample,
    .batches = batches_of,
    .slice = slice,
    .validation = validation,
    .count = count,
};
