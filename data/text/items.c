/* Lines -> items -> batches.

   A batch of the training split takes the next B items of a random order. This order depends on the
   seed alone and has every item once in each epoch. A batch is as long as its longest item, or as a
   block with `pad_to_block`. With `bucket`, the items of POOL_BATCHES batches are sorted by length
   and cut into batches, which are then used in a random order. Validation takes the items of its
   part as they come, in the same way. */
#include "data/text/items.h"
#include "data/die.h"
#include "data/random.h"
#include "data/text/encoder.h"
#include <stdlib.h>
#include <string.h>

enum { POOL_BATCHES = 32 }; // that `bucket` sorts together

/* An item of a pool, and its place before sorting, which orders items of the same length. */
struct pick {
    const struct item *item;
    size_t place;
};

/* Consecutive items of a part: those of one batch, or with `bucket` of several batches, sorted. A
   pool is filled when one of its batches is asked for, and serves the others of them too. */
struct item_pool {
    bool sorted, pad_to_block;
    enum corpus_part part;   // what it holds:
    uint64_t seed, number;   // pool `number` of that part
    size_t B;                // for batches of B; 0: it holds nothing
    size_t count, count_max; // items in it, and those that there is memory for
    struct pick *pick;       // (count)
};

/* Items of a pool that make a batch. */
struct choice {
    const struct pick *pick; // (B)
    size_t B;
};

static bool is_blank(const struct ids *codes, size_t from, size_t to) {
    for (; from < to; from++) {
        int32_t code = ids_at(codes, from);
        if (code != CODE_BLANK && code != CODE_TAB) return false;
    }
    return true;
}

/* Empties the pool and ensures that it has memory for `count` items. */
static void pool_clear(struct item_pool *pool, size_t count) {
    pool->B = 0;
    if (count <= pool->count_max) return;
    free(pool->pick);
    pool->pick = memory_take(count, sizeof *pool->pick, "a batch of items");
    pool->count_max = count;
}

/* The number of items in a pool for batches of B, unless the part ends before. */
static size_t pool_size(const struct item_pool *pool, size_t B) {
    return pool->sorted ? B * POOL_BATCHES : B;
}

/* Moves the lines together in place: a marker, then each item and a marker. The text moves by one
   code to make room for the first marker. */
static void join_items(struct corpus *corpus) {
    static const int32_t marker = CODE_NEWLINE;
    struct ids *codes = &corpus->ids;
    size_t end = corpus->length + 1, to = 1;
    ids_move(codes, 1, 0, corpus->length);
    ids_put(codes, 0, 1, &marker);
    for (size_t from = 1, next; from < end; from = next) {
        size_t stop = ids_find(codes, from, end, marker);
        next = stop + 1;
        if (stop > from && ids_at(codes, stop - 1) == CODE_RETURN) stop--;
        if (is_blank(codes, from, stop)) continue;
        corpus->units++;
        ids_move(codes, to, from, stop - from);
        to += stop - from;
        ids_put(codes, to++, 1, &marker);
    }
    if (!corpus->units)
        die(STATUS_MACHINE, "corpus: %s: has no items, only blank lines", corpus->name);
    corpus->length = to;
    corpus->characters = to - 1 - corpus->units;
}

/* The joined items in their shuffled order, which is the same for every seed. */
static struct item *shuffled_items(const struct corpus *corpus) {
    size_t count = corpus->units;
    struct item *item = memory_take(count, sizeof *item, "the items");
    uint64_t order = random_key(0, "items", 0);
    for (size_t i = 0, start = 0; i < count; i++) {
        size_t next = ids_find(&corpus->ids, start + 1, corpus->length, CODE_NEWLINE);
        item[random_permuted(order, i, count)] = (struct item){start, next - start};
        start = next;
    }
    return item;
}

static void init(struct corpus *corpus, const struct corpus_options *options) {
    join_items(corpus);
    struct items *items = corpus->own = memory_take(1, sizeof *items, "the items");
    items->item = shuffled_items(corpus);
    items->pool = memory_take(1, sizeof *items->pool, "the items");
    items->pool->sorted = options->bucket;
    items->pool->pad_to_block = options->pad_to_block;
    pool_clear(items->pool, pool_size(items->pool, options->batch_size));
}

static void free_items(struct corpus *corpus) {
    struct items *items = corpus->own;
    if (!items) return;
    free(items->pool->pick);
    free(items->pool);
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

static size_t blocks(const struct corpus *corpus, enum corpus_part part, size_t T) {
    return part == CORPUS_TRAINING ? corpus->train : corpus->end - corpus->train;
}

const struct items *items_of(const struct corpus *corpus) {
    return corpus->kind == &corpus_items ? corpus->own : NULL;
}

struct items_size items_size(const struct corpus *corpus, size_t T) {
    const struct items *items = items_of(corpus);
    if (!items) return (struct items_size){0};
    struct items_size size = {.all = corpus->units, .train = corpus->train};
    for (size_t i = 0; i < size.all; i++) {
        size_t tokens = items->item[i].tokens;
        if (tokens - 1 > size.longest) size.longest = tokens - 1;
        size.cut += tokens > T;
    }
    return size;
}

/* Item `place` in the order of the training items, which continues without end. */
static const struct item *training_item(const struct corpus *corpus, uint64_t seed, size_t place) {
    const struct items *items = corpus->own;
    uint64_t epoch = random_key(seed, "epoch", place / corpus->train);
    size_t i = place % corpus->train;
    return &items->item[random_permuted(random_key(epoch, "items", 0), i, corpus->train)];
}

/* Whether a comes after b: by length, then by place. */
static bool is_after(struct pick a, struct pick b) {
    if (a.item->tokens != b.item->tokens) return a.item->tokens > b.item->tokens;
    return a.place > b.place;
}

/* Moves pick[i] down in the heap pick[0 .. count - 1] until nothing below comes after it. */
static void heap_down(struct pick *pick, size_t i, size_t count) {
    const struct pick moved = pick[i];
    for (size_t child; (child = 2 * i + 1) < count; i = child) {
        if (child + 1 < count && is_after(pick[child + 1], pick[child])) child++;
        if (!is_after(pick[child], moved)) break;
        pick[i] = pick[child];
    }
    pick[i] = moved;
}

/* Heapsort: qsort() may allocate. */
static void sort_by_length(struct pick *pick, size_t count) {
    for (size_t i = count / 2; i-- > 0;) heap_down(pick, i, count);
    for (size_t end = count; end-- > 1;) {
        const struct pick last = pick[end];
        pick[end] = pick[0];
        pick[0] = last;
        heap_down(pick, 0, end);
    }
}

/* Fills the pool with the items of pool `number` of a part, unless it holds them. */
static void pool_fill(const struct corpus *corpus, enum corpus_part part, uint64_t seed,
                      uint64_t number, size_t B) {
    const struct items *items = corpus->own;
    struct item_pool *pool = items->pool;
    if (pool->B == B && pool->part == part && pool->seed == seed && pool->number == number) return;
    bool training = part == CORPUS_TRAINING;
    size_t size = pool_size(pool, B), first = (size_t)number * size;
    size_t left = corpus->end - corpus->train - first; // of validation items
    pool_clear(pool, size);
    pool->part = part;
    pool->seed = seed;
    pool->number = number;
    pool->B = B;
    pool->count = training || size < left ? size : left;
    for (size_t i = 0; i < pool->count; i++)
        pool->pick[i] = (struct pick){training ? training_item(corpus, seed, first + i)
                                               : &items->item[corpus->train + first + i],
                                      i};
    if (pool->sorted) sort_by_length(pool->pick, pool->count);
}

/* The items of batch `number` of a part, at most B. */
static struct choice choose(const struct corpus *corpus, enum corpus_part part, uint64_t seed,
                            uint64_t number, size_t B) {
    const struct items *items = corpus->own;
    const struct item_pool *pool = items->pool;
    size_t batches = pool->sorted ? POOL_BATCHES : 1;
    pool_fill(corpus, part, seed, number / batches, B);
    size_t filled = (pool->count + B - 1) / B; // batches; fewer in the last pool of validation
    uint64_t order = random_key(seed, "buckets", pool->number);
    size_t first = (size_t)random_permuted(order, number % batches, filled) * B;
    size_t left = pool->count - first;
    return (struct choice){pool->pick + first, left < B ? left : B};
}

static size_t tokens_in(const struct item *item, size_t T) {
    return item->tokens < T ? item->tokens : T;
}

/* How long a batch of these items is, at most T. */
static size_t length_of(const struct corpus *corpus, struct choice choice, size_t T) {
    const struct items *items = corpus->own;
    size_t longest = 0;
    if (items->pool->pad_to_block) return T;
    for (size_t b = 0; b < choice.B; b++) {
        size_t tokens = tokens_in(choice.pick[b].item, T);
        if (tokens > longest) longest = tokens;
    }
    return longest;
}

static void put_item(const struct corpus *corpus, const struct item *item, struct batch *batch,
                     size_t b) {
    size_t T = batch->T, tokens = tokens_in(item, T);
    int32_t *ids = batch->ids + b * T, *targets = batch->targets + b * T;
    unsigned char *valid = batch->valid + b * T;
    ids_get(&corpus->ids, item->start, tokens, ids);
    ids_get(&corpus->ids, item->start + 1, tokens, targets);
    memset(valid, 1, tokens);
    memset(valid + tokens, 0, T - tokens);
    for (size_t t = tokens; t < T; t++) {
        ids[t] = ids_at(&corpus->ids, 0); // the marker
        targets[t] = -1;
    }
}

static void put_items(const struct corpus *corpus, struct choice choice, struct batch *batch) {
    batch->B = choice.B;
    batch->T = length_of(corpus, choice, batch->T_max);
    batch->valid = batch->marks;
    for (size_t b = 0; b < choice.B; b++) put_item(corpus, choice.pick[b].item, batch, b);
}

static struct batch_count count(const struct corpus *corpus, uint64_t seed, uint64_t number,
                                size_t B, size_t T) {
    struct choice choice = choose(corpus, CORPUS_TRAINING, seed, number, B);
    size_t length = length_of(corpus, choice, T), targets = 0;
    for (size_t b = 0; b < choice.B; b++) targets += tokens_in(choice.pick[b].item, length);
    return (struct batch_count){.targets = targets, .pads = choice.B * length - targets};
}

static void sample(const struct corpus *corpus, uint64_t seed, uint64_t number,
                   struct batch *batch) {
    put_items(corpus, choose(corpus, CORPUS_TRAINING, seed, number, batch->B), batch);
}

static void validation(const struct corpus *corpus, size_t first, size_t B, struct batch *batch) {
    put_items(corpus, choose(corpus, CORPUS_VALIDATION, 0, first / B, B), batch);
}

static void slice(const struct corpus *corpus, size_t count, size_t first, struct batch *batch) {
    const struct items *items = corpus->own;
    pool_clear(items->pool, batch->B);
    for (size_t b = 0; b < batch->B; b++)
        items->pool->pick[b].item = &items->item[(first + b) * corpus->train / count];
    put_items(corpus, (struct choice){items->pool->pick, batch->B}, batch);
}

const struct corpus_kind corpus_items = {
    .extra_ids = 2, // the first marker, and the last one where no line end is to be replaced
    .end_marker = 1,
    .edits = true,
    .init = init,
    .free = free_items,
    .check = check,
    .blocks = blocks,
    .count = count,
    .sample = sample,
    .slice = slice,
    .validation = validation,
};
