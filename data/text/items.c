/* Lines -> items -> batches. */
#include "data/text/items.h"
#include "data/die.h"
#include "data/random.h"
#include <stdlib.h>
#include <string.h>

enum { POOL_BATCHES = 32 }; // sorted together

/* An item of a pool, and where it stood: sorting keeps the order of equals. */
struct pick {
    const struct item *item;
    size_t place;
};

/* Items that follow one another in the order of a part: of one batch, or of several sorted by
   length. It is made when the first of its batches is asked for, and kept for the others. */
struct pool {
    bool sorted, pad_to_block;
    bool training; // what it holds: the part,
    uint64_t seed, number;
    size_t B, count;   // and items for batches of B; 0: nothing yet
    size_t room;       // of pick
    struct pick *pick; // (count)
};

static bool is_blank(const int32_t *symbols, size_t begin, size_t end) {
    while (begin < end && (symbols[begin] == ' ' || symbols[begin] == '\t')) begin++;
    return begin == end;
}

/* The text's lines, moved together in place: a marker, then each item and a marker. The first
   symbol moves back by one to make room. */
void items_make(struct corpus *corpus, const struct corpus_options *options) {
    int32_t *ids = corpus->ids;
    size_t end = corpus->length + 1, lines = 1, to = 1;
    memmove(ids + 1, ids, corpus->length * sizeof *ids);
    ids[0] = END_MARKER;
    for (size_t i = 1; i < end; i++) lines += ids[i] == END_MARKER;
    struct item *found = corpus_memory(lines, sizeof *found);
    corpus->items = 0;
    for (size_t begin = 1, next; begin < end; begin = next) {
        size_t stop = begin;
        while (stop < end && ids[stop] != END_MARKER) stop++;
        next = stop + 1;
        if (stop > begin && ids[stop - 1] == '\r') stop--;
        if (is_blank(ids, begin, stop)) continue;
        found[corpus->items++] = (struct item){to - 1, stop - begin + 1};
        memmove(ids + to, ids + begin, (stop - begin) * sizeof *ids);
        to += stop - begin;
        ids[to++] = END_MARKER;
    }
    if (!corpus->items)
        die(STATUS_MACHINE, "corpus: %s: has no items, only blank lines", corpus->name);
    corpus->length = to;
    corpus->characters = to - 1 - corpus->items;
    corpus->item = corpus_memory(corpus->items, sizeof *corpus->item);
    uint64_t order = random_key(0, "items", 0);
    for (size_t i = 0; i < corpus->items; i++)
        corpus->item[random_permuted(order, i, corpus->items)] = found[i];
    free(found);
    corpus->pool = corpus_memory(1, sizeof *corpus->pool);
    corpus->pool->sorted = options->bucket;
    corpus->pool->pad_to_block = options->pad_to_block;
}

void items_free(struct corpus *corpus) {
    free(corpus->item);
    if (corpus->pool) free(corpus->pool->pick);
    free(corpus->pool);
}

void items_check(const struct corpus *corpus) {
    if (!corpus->train || corpus->train == corpus->items)
        die(STATUS_USAGE,
            "corpus: %s: %zu of %zu items train and %zu validate, but each part needs one (try "
            "another "
            "--val-fraction or more items)",
            corpus->name, corpus->train, corpus->items, corpus->items - corpus->train);
}

size_t items_longest(const struct corpus *corpus) {
    size_t longest = 0;
    for (size_t i = 0; i < corpus->items; i++)
        if (corpus->item[i].tokens - 1 > longest) longest = corpus->item[i].tokens - 1;
    return longest;
}

size_t items_cut(const struct corpus *corpus, size_t T) {
    size_t cut = 0;
    for (size_t i = 0; i < corpus->items; i++) cut += corpus->item[i].tokens > T;
    return cut;
}

/* Number `place` of the training items' order, which has no end. */
static const struct item *training_item(const struct corpus *corpus, uint64_t seed, size_t place) {
    uint64_t epoch = random_key(seed, "epoch", place / corpus->train);
    size_t i = place % corpus->train;
    return &corpus->item[random_permuted(random_key(epoch, "items", 0), i, corpus->train)];
}

static int by_length(const void *a, const void *b) {
    const struct pick *one = a, *other = b;
    size_t x = one->item->tokens, y = other->item->tokens;
    if (x == y) x = one->place, y = other->place;
    return (x > y) - (x < y);
}

/* Empties the pool and makes room for `most` items. */
static void clear(struct pool *pool, size_t most) {
    pool->B = 0;
    if (most <= pool->room) return;
    free(pool->pick);
    pool->pick = corpus_memory(most, sizeof *pool->pick);
    pool->room = most;
}

/* Makes the pool number `number` of a part. */
static void gather(const struct corpus *corpus, bool training, uint64_t seed, uint64_t number,
                   size_t B) {
    struct pool *pool = corpus->pool;
    if (pool->B == B && pool->training == training && pool->seed == seed && pool->number == number)
        return;
    size_t most = pool->sorted ? B * POOL_BATCHES : B, first = (size_t)number * most;
    size_t left = corpus->items - corpus->train - first;
    clear(pool, most);
    pool->training = training;
    pool->seed = seed;
    pool->number = number;
    pool->B = B;
    pool->count = training || most < left ? most : left;
    for (size_t i = 0; i < pool->count; i++)
        pool->pick[i] = (struct pick){training ? training_item(corpus, seed, first + i)
                                               : &corpus->item[corpus->train + first + i],
                                      i};
    if (pool->sorted) qsort(pool->pick, pool->count, sizeof *pool->pick, by_length);
}

static void put_item(const struct corpus *corpus, const struct item *item, struct batch *batch,
                     size_t b) {
    size_t T = batch->T, tokens = item->tokens < T ? item->tokens : T;
    int32_t *ids = batch->ids + b * T, *targets = batch->targets + b * T;
    unsigned char *valid = batch->valid + b * T;
    memcpy(ids, corpus->ids + item->begin, tokens * sizeof *ids);
    memcpy(targets, corpus->ids + item->begin + 1, tokens * sizeof *targets);
    memset(valid, 1, tokens);
    memset(valid + tokens, 0, T - tokens);
    for (size_t t = tokens; t < T; t++) {
        ids[t] = corpus->ids[0]; // the marker
        targets[t] = -1;
    }
}

/* A batch of B items. */
static void put_items(const struct corpus *corpus, const struct pick *pick, size_t B,
                      struct batch *batch) {
    size_t longest = 0;
    if (!batch->valid) batch->valid = corpus_memory(batch->most_B * batch->most_T, 1);
    batch->B = B;
    for (size_t b = 0; b < B; b++)
        if (pick[b].item->tokens > longest) longest = pick[b].item->tokens;
    batch->T = corpus->pool->pad_to_block || longest > batch->most_T ? batch->most_T : longest;
    for (size_t b = 0; b < B; b++) put_item(corpus, pick[b].item, batch, b);
}

/* Batch number `count` of a part, of at most B items. */
static void fill(const struct corpus *corpus, bool training, uint64_t seed, uint64_t count,
                 size_t B, struct batch *batch) {
    struct pool *pool = corpus->pool;
    size_t batches = pool->sorted ? POOL_BATCHES : 1;
    gather(corpus, training, seed, count / batches, B);
    size_t there = (pool->count + B - 1) / B; // fewer in the last pool that validates
    uint64_t order = random_key(seed, "buckets", pool->number);
    size_t first = (size_t)random_permuted(order, count % batches, there) * B;
    put_items(corpus, pool->pick + first, pool->count - first < B ? pool->count - first : B, batch);
}

void items_sample(const struct corpus *corpus, uint64_t seed, uint64_t count, struct batch *batch) {
    fill(corpus, true, seed, count, batch->most_B, batch);
}

void items_validation(const struct corpus *corpus, size_t first, size_t B, struct batch *batch) {
    fill(corpus, false, 0, first / B, B, batch);
}

void items_slice(const struct corpus *corpus, size_t count, size_t first, size_t B,
                 struct batch *batch) {
    struct pool *pool = corpus->pool;
    size_t there = count - first < B ? count - first : B;
    clear(pool, there);
    for (size_t b = 0; b < there; b++)
        pool->pick[b].item = &corpus->item[(first + b) * corpus->train / count];
    put_items(corpus, pool->pick, there, batch);
}

/* The slot of an item of these targets, or the free one where it would stand. */
static size_t slot_of(const struct item_set *set, const int32_t *targets, size_t count) {
    const struct corpus *corpus = set->corpus;
    uint64_t hash = 0;
    for (size_t i = 0; i < count; i++) hash = random_mix(hash + (uint64_t)targets[i] + 1);
    for (size_t at = hash & (set->slots - 1);; at = (at + 1) & (set->slots - 1)) {
        if (!set->slot[at]) return at;
        const struct item *item = &corpus->item[set->slot[at] - 1];
        size_t tokens = item->tokens < set->T ? item->tokens : set->T;
        if (tokens == count &&
            !memcmp(corpus->ids + item->begin + 1, targets, count * sizeof *targets))
            return at;
    }
}

void item_set_make(struct item_set *set, const struct corpus *corpus, size_t T) {
    *set = (struct item_set){.corpus = corpus, .T = T, .slots = 2};
    while (set->slots < 2 * corpus->items) set->slots *= 2;
    set->slot = corpus_memory(set->slots, sizeof *set->slot);
    for (size_t i = corpus->items; i-- > 0;) { // those that train, the first, come last
        const struct item *item = &corpus->item[i];
        size_t tokens = item->tokens < T ? item->tokens : T;
        set->slot[slot_of(set, corpus->ids + item->begin + 1, tokens)] = i + 1;
    }
}

void item_set_free(struct item_set *set) {
    free(set->slot);
    *set = (struct item_set){0};
}

enum item_place item_set_find(const struct item_set *set, const int32_t *targets, size_t count) {
    size_t found = set->slot[slot_of(set, targets, count)];
    if (!found) return ITEM_NEW;
    return found - 1 < set->corpus->train ? ITEM_KNOWN : ITEM_VALIDATES;
}
