/* Text to characters to batches. How a text is decoded is in test_utf8.c. */
#include "data/text/corpus.h"
#include "data/text/vocabulary.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct corpus make(const char *text, int level) {
    struct corpus corpus;
    corpus_make(&corpus, "text", text, strlen(text),
                &(struct corpus_options){.level = level, .val_fraction = 0.1});
    return corpus;
}

/* A text whose character number i has id i, so that a batch tells where it comes from. */
static struct corpus numbered(size_t length, double val_fraction) {
    char *text = malloc(2 * length), *end = text;
    for (size_t i = 0; i < length; i++) {
        *end++ = (char)(0xc0 | (0x100 + i) >> 6);
        *end++ = (char)(0x80 | ((0x100 + i) & 0x3f));
    }
    struct corpus corpus;
    corpus_make(&corpus, "numbers", text, 2 * length,
                &(struct corpus_options){.level = LEVEL_CHAR, .val_fraction = val_fraction});
    free(text);
    cr_assert(corpus.length == length && corpus.vocabulary.V == length);
    for (size_t i = 0; i < length; i++) cr_assert(ids_at(&corpus.ids, i) == (int32_t)i);
    return corpus;
}

Test(corpus, the_vocabulary_is_what_occurs_in_ascending_order) {
    struct corpus corpus = make("\xe4\xb8\xad"
                                "banana\n\xf0\x9f\x98\x80\xc3\xa9\n",
                                LEVEL_CHAR);
    static const uint32_t want[] = {'\n', 'a', 'b', 'n', 0xe9, 0x4e2d, 0x1f600};
    cr_assert(corpus.vocabulary.V == 7 && corpus.length == 11 && corpus.bytes == 17);
    for (int32_t i = 0; i < 7; i++) {
        cr_expect(corpus.vocabulary.symbols[i] == want[i]);
        cr_expect(vocabulary_id(&corpus.vocabulary, want[i]) == i);
    }
    cr_expect(vocabulary_id(&corpus.vocabulary, 'c') == -1 &&
              vocabulary_id(&corpus.vocabulary, 0) == -1);
    cr_expect(vocabulary_id(&corpus.vocabulary, 0x1f601) == -1 &&
              vocabulary_id(&corpus.vocabulary, UINT32_MAX) == -1);
    char *vocabulary = vocabulary_text(&corpus.vocabulary);
    cr_expect_str_eq(vocabulary, "10 97 98 110 233 20013 128512");
    free(vocabulary);
    corpus_free(&corpus);
}

Test(corpus, the_end_of_the_text_validates) {
    static const struct {
        size_t length;
        double fraction;
        size_t train;
    } split_at[] = {{1000, 0.1, 900}, {1000, 0.25, 750}, {1000, 0.5, 500}, {1000, 0, 1000},
                    {1000, 1, 0},     {7, 0.5, 3},       {1, 0.1, 0},      {999, 0.1, 899}};
    for (size_t i = 0; i < sizeof split_at / sizeof *split_at; i++) {
        struct corpus corpus = numbered(split_at[i].length, split_at[i].fraction);
        cr_expect(corpus.train == split_at[i].train, "%zu of %zu", corpus.train, corpus.length);
        corpus_free(&corpus);
    }
}

/* Fails unless every sequence of the batch is a block of the training split that begins in this
   sequence's own part of it, with the targets shifted by one character. */
static void expect_blocks(const struct corpus *corpus, const struct batch *batch) {
    size_t targets = corpus->train - 1;
    for (size_t b = 0; b < batch->B; b++) {
        size_t start = batch->ids[b * batch->T];
        size_t first = targets * b / batch->B, next = targets * (b + 1) / batch->B;
        if (next - first >= batch->T)
            cr_assert(start >= first && start + batch->T <= next, "%zu, not %zu to %zu", start,
                      first, next);
        cr_assert(start + batch->T < corpus->train, "reaches the validation split: %zu", start);
        for (size_t t = 0; t < batch->T; t++) {
            cr_assert_eq(batch->ids[b * batch->T + t], (int32_t)(start + t));
            cr_assert_eq(batch->targets[b * batch->T + t], (int32_t)(start + t + 1));
        }
    }
}

Test(corpus, training_blocks_are_stretches_of_the_training_part) {
    const size_t lengths[] = {40, 41, 100, 1000}, sizes[] = {1, 3, 12, 64};
    for (int l = 0; l < 4; l++)
        for (int k = 0; k < 4; k++) {
            struct corpus corpus = numbered(lengths[l], 0.5);
            struct batch batch = batch_make(sizes[k], 8), same = batch_make(sizes[k], 8);
            size_t bytes = sizeof(int32_t) * sizes[k] * 8;
            int different = 0;
            for (uint64_t count = 0; count < 100; count++) {
                corpus_sample(&corpus, 3, count, &batch);
                expect_blocks(&corpus, &batch);
                corpus_sample(&corpus, 3, count, &same);
                cr_assert(!memcmp(batch.ids, same.ids, bytes), "not reproducible");
                corpus_sample(&corpus, 4, count, &same);
                different += !!memcmp(batch.ids, same.ids, bytes);
            }
            if (corpus.train - 8 >= 4 * sizes[k]) // otherwise there is hardly a choice of blocks
                cr_expect(different > 50, "seeds share %d of 100 batches", 100 - different);
            cr_expect(!batch.valid);
            batch_free(&batch);
            batch_free(&same);
            corpus_free(&corpus);
        }
}

Test(corpus, an_epoch_visits_each_block_once_and_epochs_differ) {
    enum { B = 3, T = 8, TRAIN = 800, BLOCKS = (TRAIN - 1) / B / T - 1 };
    struct corpus corpus = numbered(2 * TRAIN, 0.5);
    struct batch batch = batch_make(B, T);
    int ever[TRAIN] = {0}, order = 0;
    for (int epoch = 0; epoch < 60; epoch++) {
        int times[TRAIN] = {0}, last = -1, seen = 0;
        for (int i = 0; i < BLOCKS; i++) {
            corpus_sample(&corpus, 1, epoch * BLOCKS + i, &batch);
            for (int n = 0; n < B * T; n++) times[batch.targets[n]]++, ever[batch.targets[n]]++;
            order += batch.ids[0] < last; // not from start to end
            last = batch.ids[0];
        }
        for (int c = 0; c < TRAIN; c++) {
            cr_assert(times[c] <= 1, "character %d was a target %d times in an epoch", c, times[c]);
            seen += times[c];
        }
        cr_expect_eq(seen, B * BLOCKS * T);
    }
    for (int c = 1; c < TRAIN; c++) cr_expect(ever[c] > 0, "character %d was never a target", c);
    cr_expect(order > 60 * BLOCKS / 3, "%d steps back", order);
    batch_free(&batch);
    corpus_free(&corpus);
}

Test(corpus, each_sequence_of_a_batch_goes_through_its_stretch_in_its_own_order) {
    enum { SEQUENCES = 4, LENGTH = 8, BATCHES = 300 };
    struct corpus corpus = numbered(1790, 0.1); // stretches of 402
    struct batch batch = batch_make(SEQUENCES, LENGTH);
    size_t targets = corpus.train - 1, same_block[SEQUENCES] = {0}, same_origin[SEQUENCES] = {0};
    for (uint64_t count = 0; count < BATCHES; count++) {
        corpus_sample(&corpus, 1, count, &batch);
        for (size_t b = 0; b < SEQUENCES; b++) {
            size_t origin = (size_t)batch.ids[b * LENGTH] - targets * b / SEQUENCES;
            size_t at_first = (size_t)batch.ids[0];
            same_block[b] += origin / LENGTH == at_first / LENGTH;
            same_origin[b] += origin % LENGTH == at_first % LENGTH;
        }
    }
    for (size_t b = 1; b < SEQUENCES; b++) { // of fifty blocks and eight offsets
        cr_expect(same_block[b] < BATCHES / 10, "%zu: the block of the first, %zu times", b,
                  same_block[b]);
        cr_expect(same_origin[b] < BATCHES * 9 / 10, "%zu: too often the offset of the first", b);
    }
    batch_free(&batch);
    corpus_free(&corpus);
}

/* If stretches are shorter than a block, a block starts at any character of its stretch from which
   it does not reach beyond the text. */
Test(corpus, blocks_of_short_stretches_start_wherever_they_fit) {
    enum { B = 3, T = 8, TRAIN = 20, WIDTH = (TRAIN - 1) / B, LAST = TRAIN - 1 - T };
    struct corpus corpus = numbered(2 * TRAIN, 0.5);
    struct batch batch = batch_make(B, T);
    bool starts[B][TRAIN] = {0};
    for (uint64_t number = 0; number < 200; number++) {
        corpus_sample(&corpus, 1, number, &batch);
        for (int b = 0; b < B; b++) starts[b][batch.ids[b * T]] = true;
    }
    for (int b = 0; b < B; b++)
        for (int c = 0; c < TRAIN; c++) {
            bool first = c >= b * WIDTH && c < (b + 1) * WIDTH && c <= LAST;
            cr_expect(starts[b][c] == (first || (b == B - 1 && c == LAST)), "%d from %d", b, c);
        }
    batch_free(&batch);
    corpus_free(&corpus);
}

/* Goes through all blocks in batches of B, and counts how often each character is a target. */
static void expect_each_once(const struct corpus *corpus, size_t B, size_t T) {
    int *times = calloc(corpus->length + 1, sizeof *times);
    size_t blocks = corpus_blocks(corpus, CORPUS_VALIDATION, T),
           characters = corpus->length - corpus->train, done = 0;
    cr_expect(blocks == (characters - 1 + T - 1) / T);
    struct batch batch = batch_make(B, T);
    while (done < blocks) {
        corpus_validation(corpus, done, B, &batch);
        cr_assert(batch.B >= 1 && batch.B <= B && batch.T == T);
        for (size_t n = 0; n < batch.B * T; n++) {
            int32_t id = batch.ids[n], target = batch.targets[n];
            bool last = done * T + n + 1 >= characters;
            cr_assert(id >= 0 && id < (int32_t)corpus->vocabulary.V);
            cr_assert(target == (last ? -1 : id + 1), "%d follows %d", target, id);
            cr_assert(!last == (!batch.valid || batch.valid[n]), "what follows the text is no pad");
            if (!last) times[target]++;
        }
        done += batch.B;
    }
    cr_expect(done == blocks);
    if (T < corpus->train) { // a block of the training split
        corpus_sample(corpus, 1, 0, &batch);
        cr_expect(!batch.valid, "a batch of training has the pads of the one before");
    }
    for (size_t i = 0; i < corpus->length; i++)
        cr_assert(times[i] == (i > corpus->train), "character %zu: %d times", i, times[i]);
    batch_free(&batch);
    free(times);
}

Test(corpus, each_validation_character_but_the_first_is_predicted_once) {
    struct corpus corpus = numbered(200, 0.5);
    static const size_t lengths[] = {1, 2, 7, 32, 33, 49, 50, 98, 99, 100, 150};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t B = 1; B < 6; B++) expect_each_once(&corpus, B, lengths[i]);
    corpus_free(&corpus);
    corpus = numbered(4, 0.5);
    expect_each_once(&corpus, 3, 5);
    corpus_free(&corpus);
}

/* Over the targets: the first character of a split is none. */
Test(corpus, what_frequencies_alone_give) {
    static const struct {
        const char *text;
        int level;
        double entropy, val_loss;
    } cases[] = {{"zabcdabcdabcdabcdaxb", LEVEL_CHAR, 1.38128853, 1.44691898}, // a: 5 of 17, b: 4
                 {"z\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9q", LEVEL_BYTE, 0.69314718, NAN},
                 {"zaaaaaaaaaaaaaaaaabb", LEVEL_CHAR, 0, 2.83321334},             // new: once of 17
                 {"abbbaabbbbbbbbbbbbbb", LEVEL_CHAR, 0.362210557, 0.125163143}}; // a: 2 of 17
    struct corpus wide = make("xyzabcdeq\xc3\xa9, ab", LEVEL_CHAR);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text = cases[i].text;
        struct corpus corpus = make(text, cases[i].level), known;
        const struct unigram got = corpus_unigram(&corpus, 4);
        cr_expect(fabs(got.entropy - cases[i].entropy) < 1e-7, "%s: %.9g", text, got.entropy);
        if (isfinite(cases[i].val_loss))
            cr_expect(fabs(got.val_loss - cases[i].val_loss) < 1e-7, "%s: %.9g", text,
                      got.val_loss);
        else
            cr_expect(!isfinite(got.val_loss), "%s: %.9g", text, got.val_loss);
        corpus_free(&corpus);
        if (cases[i].level == LEVEL_BYTE) continue;
        corpus_make(&known, "known", text, strlen(text),
                    &(struct corpus_options){.val_fraction = 0.1, .known = &wide.vocabulary});
        cr_expect(corpus_unigram(&known, 4).entropy == got.entropy, "a model's vocabulary");
        corpus_free(&known);
    }
    corpus_free(&wide);
    corpus_make_random(&wide, 4, NULL);
    cr_expect(corpus_unigram(&wide, 4).entropy < 0, "nothing else can be learned");
    corpus_free(&wide);
}
