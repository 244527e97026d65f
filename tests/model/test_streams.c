/* Randomness in training: each site of dropout and each sequence of a batch has its own random
   stream, and every batch has new numbers. */
#include "data/text/corpus.h"
#include "tests/support.h"
#include <stdlib.h>
#include <string.h>

enum { B = 50, T = 2, C = 12, HEADS = 6, COUNT = B * T * C, PLACES = 7 };

/* The dropout masks of a training forward at all sites: dropped[place][i]. Without norms, a dropped
   element of a sub-layer's output leaves its input unchanged. The first token of a sequence attends
   to itself alone, so its head's output is its v, or 0 if that one probability is dropped. */
static void take_masks(struct model *model, const struct batch *batch, uint64_t step,
                       bool dropped[PLACES][COUNT]) {
    model_forward(model, batch, true, step);
    memset(dropped, 0, PLACES * sizeof *dropped);
    for (int i = 0; i < COUNT; i++) dropped[0][i] = model->embedded[i] == 0;
    for (int l = 0; l < 2; l++) {
        const struct sublayer *attention = &model->layer[l].attention, *mlp = &model->layer[l].mlp;
        for (int i = 0; i < COUNT; i++) {
            dropped[1 + l][i] = attention->connection.sum[i] == attention->connection.x[i];
            dropped[3 + l][i] = mlp->connection.sum[i] == mlp->connection.x[i];
        }
        for (int i = 0; i < B * HEADS; i++) {
            size_t token = (size_t)(i / HEADS * T), channel = i % HEADS * (C / HEADS);
            dropped[5 + l][i * T * T] = attention->inner[token * C + channel] == 0;
        }
    }
}

/* The fraction of equal elements of two masks, where both are known. */
static double alike(int place, const bool *mask, int other_place, const bool *other) {
    int step = place >= 5 || other_place >= 5 ? T * T : 1, same = 0;
    int end = step > 1 ? B * HEADS * T * T : COUNT, count = 0;
    for (int i = 0; i < end && i < COUNT; i += step, count++) same += mask[i] == other[i];
    return (double)same / count;
}

/* The fraction of a mask's elements that equal the element `shift` further on. */
static double repeats(int place, const bool *mask, int shift) {
    int step = place >= 5 ? T * T : 1, end = step > 1 ? B * HEADS * T * T : COUNT;
    int same = 0, count = 0;
    for (int i = 0; i + shift * step < end; i += step, count++)
        same += mask[i] == mask[i + shift * step];
    return (double)same / count;
}

static struct model model_with(double dropout, uint64_t seed) {
    struct model_config config = small_config(0, 0); // none
    config.n_embd = C;
    config.n_head = HEADS;
    config.block_size = T;
    config.dropout = dropout;
    struct model model = held_model(&config, SMALL_V, B, seed);
    return model;
}

Test(streams, every_place_and_every_batch_has_a_dropout_mask_of_its_own) {
    static const uint64_t steps[] = {0, 1, 2, 3, 1000};
    enum { RUNS = 6 };
    static bool dropped[RUNS][PLACES][COUNT];
    struct model one = model_with(0.5, 1), other = model_with(0.5, 2);
    struct batch batch = make_batch(B, T, SMALL_V, 9);
    for (int k = 0; k < RUNS; k++)
        take_masks(k < 5 ? &one : &other, &batch, k < 5 ? steps[k] : 0, dropped[k]);
    for (int p = 0; p < RUNS * PLACES; p++) {
        const bool *mask = dropped[p / PLACES][p % PLACES];
        int place = p % PLACES, known = place >= 5 ? COUNT / (T * T) : COUNT, count = 0;
        for (int i = 0; i < COUNT; i++) count += mask[i];
        cr_expect(count > known * 3 / 10 && count < known * 7 / 10, "place %d: %d of %d", place,
                  count, known);
        for (int shift = 1; shift <= known / 2; shift++) {
            double same = repeats(place, mask, shift);
            cr_expect(same > 0.25 && same < 0.75, "place %d repeats after %d: %g", place, shift,
                      same);
        }
        for (int q = 0; q < p; q++) {
            double same = alike(place, mask, q % PLACES, dropped[q / PLACES][q % PLACES]);
            cr_expect(same > 0.3 && same < 0.7, "place %d of run %d, place %d of run %d: %g", place,
                      p / PLACES, q % PLACES, q / PLACES, same);
        }
    }
}

/* Every element of a site is 0 or 1 / (1 - p) of its value without dropout. */
Test(streams, what_is_not_dropped_grows) {
    struct model with = model_with(0.2, 1), without = model_with(0, 1);
    struct batch batch = make_batch(B, T, SMALL_V, 9);
    model_forward(&with, &batch, true, 3);
    model_forward(&without, &batch, true, 3);
    int dropped = 0;
    for (int i = 0; i < COUNT; i++) {
        double x = (double)with.embedded[i], full = (double)without.embedded[i] / 0.8;
        dropped += x == 0;
        cr_expect(x == 0 || fabs(x - full) < 1e-6 * fabs(full), "%g, not %g", x, full);
    }
    cr_expect(dropped > COUNT / 10 && dropped < COUNT * 3 / 10, "%d of %d", dropped, COUNT);
}

Test(streams, evaluation_drops_nothing_anywhere) {
    struct model with = model_with(0.5, 1), without = model_with(0, 1);
    struct batch batch = make_batch(B, T, SMALL_V, 9);
    model_forward(&with, &batch, false, 3);
    model_forward(&without, &batch, false, 3);
    real *one = copy_logits(&with, B * T), *other = copy_logits(&without, B * T);
    cr_expect(difference(B * T * SMALL_V, one, other) == 0, "a batch");
    model_extend(&with, batch.ids, 0, T);
    model_extend(&without, batch.ids, 0, T);
    cr_expect(
        !memcmp(model_logits(&with, T - 1), model_logits(&without, T - 1), SMALL_V * sizeof(real)),
        "a text that grows");
}

/* A text of different characters: an id tells the position in the text. */
static struct corpus different_characters(size_t length) {
    char *text = hold(3 * length);
    for (size_t i = 0; i < length; i++) {
        uint32_t code = 0x4e00 + (uint32_t)i;
        text[3 * i] = (char)(0xe0 | code >> 12);
        text[3 * i + 1] = (char)(0x80 | (code >> 6 & 0x3f));
        text[3 * i + 2] = (char)(0x80 | (code & 0x3f));
    }
    struct corpus corpus;
    corpus_make(&corpus, "characters", text, 3 * length,
                &(struct corpus_options){.val_fraction = 0.1});
    return corpus;
}

Test(streams, each_sequence_of_a_batch_goes_through_its_stretch_in_its_own_order) {
    enum { SEQUENCES = 4, LENGTH = 8, BATCHES = 300 };
    struct corpus corpus = different_characters(4010); // stretches of 902
    struct batch batch = batch_make(SEQUENCES, LENGTH);
    size_t targets = corpus.train - 1, same_block[SEQUENCES] = {0}, same_origin[SEQUENCES] = {0};
    for (uint64_t count = 0; count < BATCHES; count++) {
        corpus_sample(&corpus, 1, count, &batch);
        for (size_t b = 0; b < SEQUENCES; b++) {
            size_t at = (size_t)batch.ids[b * LENGTH] - targets * b / SEQUENCES;
            size_t at_first = (size_t)batch.ids[0];
            same_block[b] += at / LENGTH == at_first / LENGTH;
            same_origin[b] += at % LENGTH == at_first % LENGTH;
        }
    }
    for (size_t b = 1; b < SEQUENCES; b++) { // of some hundred blocks and eight offsets
        cr_expect(same_block[b] < BATCHES / 10, "%zu: the block of the first, %zu times", b,
                  same_block[b]);
        cr_expect(same_origin[b] < BATCHES * 9 / 10, "%zu: too often the offset of the first", b);
    }
    batch_free(&batch);
    corpus_free(&corpus);
}

/* The number of sequences that batches have in common with batches of another seed, or with the
   batch `shift` later. */
static size_t repeated(const struct corpus *corpus, uint64_t seed, uint64_t other_seed,
                       uint64_t shift) {
    struct batch batch = batch_make(3, 16), other = batch_make(3, 16);
    size_t same = 0;
    for (uint64_t count = 0; count < 20; count++) {
        corpus_sample(corpus, seed, count, &batch);
        corpus_sample(corpus, other_seed, count + shift, &other);
        for (size_t b = 0; b < 3; b++)
            for (size_t k = 0; k < 3; k++)
                if (shift || seed != other_seed || b != k)
                    same += !memcmp(batch.ids + b * 16, other.ids + k * 16, 16 * sizeof *other.ids);
    }
    batch_free(&batch);
    batch_free(&other);
    return same;
}

Test(streams, random_characters_are_new_in_each_batch) {
    struct corpus corpus;
    corpus_make_random(&corpus, 60, NULL);
    cr_expect(repeated(&corpus, 1, 1, 0) == 0, "two sequences of a batch are equal");
    cr_expect(repeated(&corpus, 1, 1, 1) == 0, "the next batch is the same");
    cr_expect(repeated(&corpus, 1, 2, 0) == 0, "another seed gives the same");
    struct batch batch = batch_make(3, 16), next = batch_make(3, 16);
    corpus_validation(&corpus, 0, 3, &batch);
    corpus_sample(&corpus, 0, 0, &next);
    cr_expect(memcmp(batch.ids, next.ids, 16 * sizeof *next.ids) != 0, "a validation batch trains");
    corpus_validation(&corpus, 1, 3, &next);
    for (size_t n = 0; n < 2 * 16; n++) // block 1 is the first of these, the second of those
        cr_assert(batch.ids[16 + n] == next.ids[n] && batch.targets[16 + n] == next.targets[n]);
    for (size_t n = 0; n + 1 < 3 * 16; n++)
        cr_assert((n + 1) % 16 == 0 || batch.targets[n] == batch.ids[n + 1]);
    cr_expect(memcmp(batch.ids, batch.ids + 16, 16 * sizeof *batch.ids) != 0);
    batch_free(&batch);
    batch_free(&next);
    corpus_free(&corpus);
}

Test(streams, items_of_a_batch_and_of_the_next_are_others) {
    char text[4 * 1000];
    for (int i = 0; i < 1000; i++) // of three digits, all different
        text[4 * i] = (char)('0' + i / 100), text[4 * i + 1] = (char)('0' + i / 10 % 10),
                 text[4 * i + 2] = (char)('0' + i % 10), text[4 * i + 3] = '\n';
    struct corpus corpus;
    corpus_make(
        &corpus, "items", text, sizeof text,
        &(struct corpus_options){.val_fraction = 0.1, .kind = &corpus_items, .pad_to_block = true});
    cr_expect(repeated(&corpus, 1, 1, 0) == 0, "two items of a batch are the same");
    cr_expect(repeated(&corpus, 1, 1, 1) == 0, "the next batch is the same");
    cr_expect(repeated(&corpus, 1, 2, 0) < 10, "another seed gives the same");
    corpus_free(&corpus);
}
