/* Lines to items to batches. */
#include "data/die.h"
#include "data/text/items.h"
#include "data/text/utf8.h"
#include "data/text/vocabulary.h"
#include "tests/command.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(items, .init = folder_enter, .fini = folder_leave);

enum { LENGTH_MAX = 256 }; // characters of an item

static struct corpus make(const char *text, size_t bytes, struct corpus_options options) {
    struct corpus corpus;
    options.kind = &corpus_items;
    corpus_make(&corpus, "text", text, bytes, &options);
    return corpus;
}

/* The text of an item, in a static buffer. */
static const char *text_of(const struct corpus *corpus, const struct item *item) {
    static char text[4 * LENGTH_MAX];
    FILE *file = fmemopen(text, sizeof text, "w");
    struct writer writer = {.vocabulary = &corpus->vocabulary, .file = file};
    for (size_t i = 0; i + 1 < item->tokens; i++)
        writer_put(&writer, ids_at(&corpus->ids, item->start + i));
    writer_flush(&writer, true);
    fclose(file);
    return text;
}

static int by_start(const void *a, const void *b) {
    const struct item *const *one = a, *const *other = b;
    return ((*one)->start > (*other)->start) - ((*one)->start < (*other)->start);
}

/* Fails unless the text consists of these items, in this order, separated by |. */
static void expect_items(const char *text, int level, const char *want) {
    struct corpus corpus = make(text, strlen(text), (struct corpus_options){.level = level});
    const struct item **sorted = malloc(corpus.units * sizeof *sorted);
    char got[2048] = "";
    size_t tokens = 0;
    int32_t marker = vocabulary_id(&corpus.vocabulary, END_MARKER);
    for (size_t i = 0; i < corpus.units; i++) sorted[i] = &items_of(&corpus)[i];
    qsort(sorted, corpus.units, sizeof *sorted, by_start);
    for (size_t i = 0; i < corpus.units; i++) {
        cr_expect(ids_at(&corpus.ids, sorted[i]->start + sorted[i]->tokens - 1) == marker);
        tokens += sorted[i]->tokens;
        strcat(strcat(got, i ? "|" : ""), text_of(&corpus, sorted[i]));
    }
    cr_expect_str_eq(got, want);
    cr_expect(corpus.characters + corpus.units == tokens);
    free(sorted);
    corpus_free(&corpus);
}

Test(items, lines_are_items) {
    expect_items("emma\nolivia\nava", LEVEL_CHAR, "emma|olivia|ava"); // no final newline
    expect_items("\n\nemma\n\n \t\n\nava\n\n", LEVEL_CHAR, "emma|ava");
    expect_items("emma\r\n\r\nolivia\r\nava\r\n", LEVEL_CHAR, "emma|olivia|ava");
    expect_items("emma\r\nava\r", LEVEL_BYTE, "emma|ava");
    expect_items(" a b \n\tc", LEVEL_CHAR, " a b |\tc"); // blanks within a line belong to the item
    expect_items("a\rb\n\r\r\n", LEVEL_CHAR, "a\rb|\r");
    expect_items("a\nb\na\na", LEVEL_CHAR, "a|b|a|a");
    expect_items("a\u2028-\n\u5e8a\ff", LEVEL_CHAR, "a\u2028-|\u5e8a\ff"); // no line ends
}

static void check_three(void *val_fraction) {
    const struct corpus_options options = {.val_fraction = *(double *)val_fraction};
    struct corpus corpus = make("a\nb\nc", 5, options);
    corpus_check(&corpus, 8);
    printf("%zu %zu", corpus.train, corpus.units);
}

Test(items, both_parts_need_one) {
    struct ending ending = call(check_three, &(double){0.1});
    cr_expect_str_eq(ending.out, "2 3");
    expect_refusal(call(check_three, &(double){0}), STATUS_USAGE,
                   "3 of 3 items train and 0 validate");
    expect_refusal(call(check_three, &(double){1}), STATUS_USAGE,
                   "0 of 3 items train and 3 validate");
}

/* Items "0", "11", "222", ...: item i is the letter of i / 10, i % 10 + 1 times. */
static struct corpus numbered(size_t items, struct corpus_options options) {
    char *text = malloc(24 * items), *end = text;
    for (size_t i = 0; i < items; i++) {
        for (size_t k = 0; k <= i % 10; k++) {
            *end++ = (char)(0xc0 | (0x100 + i / 10) >> 6);
            *end++ = (char)(0x80 | ((0x100 + i / 10) & 0x3f));
        }
        *end++ = '\n';
    }
    struct corpus corpus = make(text, (size_t)(end - text), options);
    free(text);
    cr_assert(corpus.units == items);
    return corpus;
}

/* The number of the item in row b of a batch; fails unless the row is a marker, the item, a marker,
   pads. */
static size_t number_in(const struct corpus *corpus, const struct batch *batch, size_t b) {
    size_t T = batch->T, tokens = 0;
    const int32_t *ids = batch->ids + b * T, *targets = batch->targets + b * T;
    const unsigned char *valid = batch->valid + b * T;
    int32_t marker = vocabulary_id(&corpus->vocabulary, END_MARKER);
    while (tokens < T && valid[tokens]) tokens++;
    cr_assert(tokens >= 1 && ids[0] == marker && targets[0] != marker);
    for (size_t t = 0; t < T; t++) {
        cr_assert(valid[t] == (t < tokens), "pads are not at the end");
        cr_assert(targets[t] >= 0 ? t < tokens : targets[t] == -1 && t >= tokens);
        if (t >= tokens) cr_assert(ids[t] == marker);
        if (t > 0 && t < tokens) cr_assert(ids[t] == targets[t - 1] && ids[t] == targets[0]);
    }
    bool cut = targets[tokens - 1] != marker;
    if (cut) cr_assert(tokens == batch->T_max && targets[tokens - 1] == targets[0]);
    uint32_t symbol = corpus->vocabulary.symbols[targets[0]];
    return cut ? SIZE_MAX : (symbol - 0x100) * 10 + tokens - 2;
}

/* As the targets of an epoch have it: end markers count, pads and what is cut do not. */
Test(items, what_frequencies_alone_give) {
    enum { ITEMS = 170, TRAIN = 153 };
    for (size_t T = 4; T <= 16; T += 4) {
        struct corpus corpus = numbered(ITEMS, (struct corpus_options){.val_fraction = 0.1});
        struct batch batch = batch_make(1, T);
        size_t count[ITEMS] = {0}, total = 0;
        double entropy = 0;
        cr_assert(corpus.train == TRAIN && corpus.vocabulary.V < ITEMS);
        for (uint64_t i = 0; i < TRAIN; i++) {
            corpus_sample(&corpus, 5, i, &batch);
            total += batch_targets(&batch);
            for (size_t t = 0; t < batch.T; t++)
                if (batch.targets[t] >= 0) count[batch.targets[t]]++;
        }
        for (size_t id = 0; id < ITEMS; id++)
            if (count[id])
                entropy +=
                    (double)count[id] / (double)total * log((double)total / (double)count[id]);
        cr_expect(fabs(corpus_unigram(&corpus, T).entropy - entropy) < 1e-13, "T = %zu", T);
        batch_free(&batch);
        corpus_free(&corpus);
    }
}

Test(items, an_epoch_has_each_item_once) {
    enum { ITEMS = 170, TRAIN = 153, B = 7, EPOCHS = 6 };
    for (int bucket = 0; bucket < 2; bucket++) {
        struct corpus corpus =
            numbered(ITEMS, (struct corpus_options){.val_fraction = 0.1, .bucket = bucket});
        struct batch batch = batch_make(B, 16);
        size_t times[ITEMS] = {0}, order[2][TRAIN], seen = 0, falls = 0;
        cr_assert(corpus.train == TRAIN);
        // 32 batches of 7 are a pool of 224; 153 of them hold whole epochs of both
        for (uint64_t count = 0; count < 32 * TRAIN; count++) {
            corpus_sample(&corpus, 5, count, &batch);
            cr_assert(batch.B == B && batch.T <= 11);
            size_t longest = 0;
            for (size_t b = 0; b < B; b++) {
                size_t i = number_in(&corpus, &batch, b);
                cr_assert(i < ITEMS);
                times[i]++;
                if (i % 10 + 2 > longest) longest = i % 10 + 2;
                if (seen < 2 * TRAIN) order[seen / TRAIN][seen % TRAIN] = i;
                if (++seen % TRAIN == 0 && !bucket)
                    for (size_t k = 0; k < ITEMS; k++)
                        cr_assert(times[k] == 0 || times[k] == seen / TRAIN, "%zu", k);
            }
            cr_assert(batch.T == longest, "not padded to the longest item");
        }
        for (size_t k = 0; k < ITEMS; k++)
            cr_expect(times[k] == 0 || times[k] == seen / TRAIN, "item %zu: %zu", k, times[k]);
        for (size_t k = 0; k + 1 < TRAIN; k++) falls += order[0][k] > order[0][k + 1];
        cr_expect(falls > TRAIN / 3 || bucket, "not shuffled");
        cr_expect(memcmp(order[0], order[1], sizeof order[0]) != 0, "epochs are equal");
        batch_free(&batch);
        corpus_free(&corpus);
    }
}

Test(items, batches_depend_on_seed_and_count_alone) {
    for (int bucket = 0; bucket < 2; bucket++) {
        struct corpus corpus =
            numbered(300, (struct corpus_options){.val_fraction = 0.2, .bucket = bucket});
        struct batch batch = batch_make(4, 16), same = batch_make(4, 16);
        int different = 0;
        for (uint64_t i = 0; i < 200; i++) {
            uint64_t count = i * 37 % 200; // not one after the other
            corpus_sample(&corpus, 3, count, &batch);
            corpus_validation(&corpus, 4, 4, &same);
            corpus_sample(&corpus, 4, count, &same);
            different += batch.T != same.T || memcmp(batch.ids, same.ids, 16 * batch.T);
            corpus_sample(&corpus, 3, count, &same);
            cr_assert(batch.T == same.T && batch.B == 4 && same.B == 4);
            cr_assert(!memcmp(batch.ids, same.ids, 4 * batch.T * sizeof *batch.ids));
            cr_assert(!memcmp(batch.targets, same.targets, 4 * batch.T * sizeof *batch.ids));
            cr_assert(!memcmp(batch.valid, same.valid, 4 * batch.T));
        }
        cr_expect(different > 150, "seeds share %d of 200 batches", 200 - different);
        batch_free(&batch);
        batch_free(&same);
        corpus_free(&corpus);
    }
}

/* The numbers of the items that a corpus of 400 trains on (1) and validates on (2): each of these
   once. */
static void mark_items(struct corpus_options options, char marks[400]) {
    struct corpus corpus = numbered(400, options);
    struct batch batch = batch_make(7, 16);
    size_t done = 0;
    memset(marks, 0, 400);
    for (uint64_t count = 0; count < 400; count++) { // some epochs
        corpus_sample(&corpus, 1, count, &batch);
        for (size_t b = 0; b < batch.B; b++) marks[number_in(&corpus, &batch, b)] |= 1;
    }
    for (size_t first = 0; first < corpus_blocks(&corpus, CORPUS_VALIDATION, 16); first += 7) {
        corpus_validation(&corpus, first, 7, &batch);
        done += batch.B;
        for (size_t b = 0; b < batch.B; b++) marks[number_in(&corpus, &batch, b)] |= 2;
    }
    cr_expect(done == 80, "%zu validate", done);
    batch_free(&batch);
    corpus_free(&corpus);
}

Test(items, train_or_validate_or_are_held_out) {
    for (int bucket = 0; bucket < 2; bucket++) {
        char usual[400], held[400];
        struct corpus_options options = {.val_fraction = 0.2, .bucket = bucket};
        mark_items(options, usual);
        options.hold_out = 0.25;
        mark_items(options, held);
        int count[4] = {0}, late = 0;
        for (int i = 0; i < 400; i++) {
            cr_expect(usual[i] == 1 || usual[i] == 2, "item %d: %d", i, usual[i]);
            cr_expect((usual[i] == 2) == !held[i], "item %d validates, but is read", i);
            count[(int)held[i]]++;
            late += i >= 320 && usual[i] == 2;
        }
        cr_expect(late < 40, "only the end of the list validates");
        cr_expect(count[0] == 80 && count[1] == 240 && count[2] == 80 && !count[3],
                  "%d unread, %d train, %d validate, %d both", count[0], count[1], count[2],
                  count[3]);
    }
}

Test(items, buckets_are_sorted_by_length) {
    struct corpus corpus =
        numbered(1000, (struct corpus_options){.val_fraction = 0.1, .bucket = true});
    struct batch batch = batch_make(8, 20);
    for (uint64_t number = 0; number < 64; number++) { // two pools
        size_t before = 0;
        corpus_sample(&corpus, 1, number, &batch);
        for (size_t b = 0; b < batch.B; b++) {
            struct batch one = batch_part(&batch, b, 1);
            cr_expect(batch_targets(&one) >= before, "batch %d, item %zu", (int)number, b);
            before = batch_targets(&one);
        }
    }
    batch_free(&batch);
    corpus_free(&corpus);
}

/* Pools have nearly the same lengths, but their batches come in another order. */
Test(items, each_pool_has_an_order_of_its_own) {
    enum { POOLS = 3, BATCHES = 32 };
    struct corpus corpus =
        numbered(1000, (struct corpus_options){.val_fraction = 0.1, .bucket = true});
    struct batch batch = batch_make(8, 20);
    size_t longest[POOLS][BATCHES];
    for (uint64_t number = 0; number < POOLS * BATCHES; number++) {
        corpus_sample(&corpus, 1, number, &batch);
        longest[number / BATCHES][number % BATCHES] = batch.T;
    }
    for (size_t pool = 1; pool < POOLS; pool++) {
        size_t moved = 0;
        for (size_t i = 0; i < BATCHES; i++) {
            const size_t a = longest[pool - 1][i], b = longest[pool][i];
            moved += (a > b ? a - b : b - a) > 2;
        }
        cr_expect(moved > BATCHES / 4, "pool %zu: %zu", pool, moved);
    }
    batch_free(&batch);
    corpus_free(&corpus);
}

Test(items, longer_than_a_block_are_cut) {
    struct corpus corpus = numbered(100, (struct corpus_options){.val_fraction = 0.5});
    cr_expect(items_size_of(&corpus, 1).longest == 10);
    static const size_t cut[] = {100, 100, 90, 80, 70, 60, 50, 40, 30, 20, 10, 0, 0};
    for (size_t T = 1; T <= 12; T++) {
        struct batch batch = batch_make(50, T);
        size_t uncut = 0;
        cr_expect(items_size_of(&corpus, T).cut == cut[T], "%zu", T);
        corpus_validation(&corpus, 0, 50, &batch);
        cr_expect(batch.T == (T < 11 ? T : 11));
        for (size_t b = 0; b < batch.B; b++) uncut += number_in(&corpus, &batch, b) != SIZE_MAX;
        corpus_sample(&corpus, 1, 0, &batch); // all others: fifty train
        for (size_t b = 0; b < batch.B; b++) uncut += number_in(&corpus, &batch, b) != SIZE_MAX;
        cr_expect(uncut == 100 - cut[T], "%zu whole at %zu", uncut, T);
        batch_free(&batch);
    }
    corpus_free(&corpus);
}

Test(items, a_batch_may_hold_more_than_there_are) {
    struct corpus corpus =
        make("aaa\naaa\naaa\n", 12, (struct corpus_options){.val_fraction = 0.5});
    struct batch batch = batch_make(5, 8);
    cr_expect(corpus.train == 1 && corpus.vocabulary.V == 2);
    corpus_sample(&corpus, 1, 3, &batch);
    cr_expect(batch.B == 5 && batch.T == 4 && batch_targets(&batch) == 20);
    corpus_validation(&corpus, 0, 5, &batch);
    cr_expect(batch.B == 2 && batch.T == 4 && batch_targets(&batch) == 8);
    batch_free(&batch);
    corpus_free(&corpus);
}

/* Compares with counting the targets batch by batch, over several epochs and pools. */
static void check_batches(bool bucket, size_t B, size_t T, uint64_t seed) {
    struct corpus corpus =
        numbered(101, (struct corpus_options){.val_fraction = 0.1, .bucket = bucket});
    struct batch batch = batch_make(B, T);
    uint64_t seen = 0;
    cr_expect(corpus_batches(&corpus, seed, 0, B, T) == 0);
    for (uint64_t number = 0; number < 400; number++) {
        corpus_sample(&corpus, seed, number, &batch);
        seen += batch_targets(&batch);
        cr_expect(corpus_batches(&corpus, seed, seen, B, T) == number + 1, "%zu x %zu, %d: %d", B,
                  T, (int)number, (int)corpus_batches(&corpus, seed, seen, B, T));
        cr_expect(corpus_batches(&corpus, seed, seen + 1, B, T) == number + 2);
    }
    batch_free(&batch);
    corpus_free(&corpus);
}

Test(items, batches_with_enough_targets) {
    for (int bucket = 0; bucket < 2; bucket++) {
        check_batches(bucket, 1, 20, 1);
        check_batches(bucket, 7, 20, 2);
        check_batches(bucket, 7, 4, 3);
        check_batches(bucket, 200, 20, 1); // more than an epoch
    }
}
