/* The full model: it learns; its initial weights and its gradients are right. */
#include "data/text/corpus.h"
#include "model/optimizer/optimizer.h"
#include "tests/support.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* The loss of a model of these initial weights before training, and after at most this many
   updates. */
static void overfit(const struct model_config *config, uint64_t seed, int updates, double *first,
                    double *last) {
    struct batch batch = make_batch(4, 8, 9, 5);
    for (size_t n = 0; n < 32; n++) // the context up to here determines the target
        batch.targets[n] = n % 8 == 7 ? 0 : batch.ids[n + 1];
    for (size_t b = 0; b < 4; b++) batch.ids[8 * b] = (int32_t)b; // sequences can be told apart
    struct model model = held_model(config, 9, 4, seed);
    struct optimizer adam = held_adamw(fit_options, &model.lists.param, 1);
    *first = fit_batch(&model, &adam, &batch, 1, 3e-3, 0);
    *last = fit_batch(&model, &adam, &batch, updates, 3e-3, 0.01);
}

/* l2 and a learned scale of attention's logits take longer. With such a scale norms that saturate
   may leave a model on a plateau, and rounding decides which weights do: then other initial weights
   are tried. A model that does not learn fails with all of them. Under the sanitizers some updates
   are enough, since all updates use memory alike; the loss must then be lower than initially. */
static void check_overfits_one_batch(const struct pair *pair) {
    struct model_config config = pair_config(pair);
    config.n_embd = 32;
    config.block_size = 8;
    config.qk_scale_start = model_qk_scale_start(&config); // of these heads
    const bool scaled = config.qk_scale == QK_SCALE_LEARNED;
    const bool slow = scaled || pair->norm == norm_index("l2");
    const uint64_t seeds = scaled ? 3 : 1;
    const int updates = SANITIZED ? 100 : slow ? 1500 : 700;
    double first, last = INFINITY, enough = INFINITY;
    for (uint64_t seed = 1; seed <= seeds && !(last < enough); seed++) {
        overfit(&config, seed, updates, &first, &last);
        enough = SANITIZED ? first : 0.02;
        cr_expect(fabs(first - log(9)) < 0.6, "%s does not start near ln V: %g", pair_options(pair),
                  first);
    }
    cr_expect(last < enough, "%s does not reach %g: %g", pair_options(pair), enough, last);
}

Test(model, overfits_one_batch) {
    (sweep() || !in_double() ? every_row : every_norm)(check_overfits_one_batch);
}

Test(model, runs_of_different_norms_are_paired) {
    struct model_config ln = small_config(1, 0), other = small_config(2, 1);
    struct model a, b;
    a = held_model(&ln, SMALL_V, SMALL_B, 1);
    b = held_model(&other, SMALL_V, SMALL_B, 1);
    int same = 0;
    for (size_t i = 0; i < a.lists.param.count; i++)
        for (size_t j = 0; j < b.lists.param.count; j++) {
            const struct tensor *s = &a.lists.param.tensor[i], *t = &b.lists.param.tensor[j];
            if (strcmp(s->name, t->name) != 0) continue;
            same++;
            cr_expect(difference(s->size, a.lists.param.value + s->offset,
                                 b.lists.param.value + t->offset) == 0,
                      "%s", s->name);
        }
    cr_expect(same > 20);
}

Test(model, counts_nanogpt_s_parameters) {
    struct model_config config = small_config(1, 0);
    config.n_layer = 6, config.n_head = 6, config.n_embd = 384, config.block_size = 256;
    config.bias = 0;
    struct model model = held_model(&config, 65, 1, 1);
    cr_expect_eq(model_parameters(&model), 10745088); // nanoGPT's "10.65M" plus the 98304 of wpe
}

/* Llama's 8 C / 3, rounded up to a multiple of 32. */
Test(model, hidden_units_of_gated_activations) {
    struct model_config config = small_config(1, 0);
    config.n_embd = 64;
    while (!activations[config.activation].gated) config.activation++;
    cr_expect_eq(model_ffn_width(&config), 192);
    config.n_embd = 96;
    cr_expect_eq(model_ffn_width(&config), 256);
}
