/* Dropout in training: each site has its own random stream, and every batch has new numbers. */
#include "tests/support.h"
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
            dropped[5 + l][i * T * T] =
                chain_stored(&attention->chain, "inner")[token * C + channel] == 0;
        }
    }
}

/* The fraction of equal elements of two masks, where both are known. */
static double alike(int place, const bool *mask, int other_place, const bool *other) {
    int step = place >= 5 || other_place >= 5 ? T * T : 1, same = 0;
    for (int i = 0; i < COUNT; i += step) same += mask[i] == other[i];
    return (double)same * step / COUNT;
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
