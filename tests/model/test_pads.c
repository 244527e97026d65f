/* Pads after a batch's sequences: what they must not change, and what they do change where the
   norms' statistics include them. */
#include "data/random.h"
#include "data/text/corpus.h"
#include "tests/support.h"
#include <string.h>

enum { B = 4, LONGEST = 9, PADDED = 4 * LONGEST, V = 7 };
static const size_t length[B] = {5, LONGEST, 1, 7};
enum { TOKENS = 5 + LONGEST + 1 + 7 };

/* The same sequences, padded to T. */
static struct batch padded_to(size_t T) {
    struct batch batch = make_batch(B, T, V, 1);
    batch.valid = batch.marks;
    size_t n = 0;
    for (size_t b = 0; b < B; b++)
        for (size_t t = 0; t < T; t++) {
            bool token = t < length[b];
            batch.valid[b * T + t] = token;
            batch.ids[b * T + t] = token ? (int32_t)random_below(1, n, V) : 0;
            batch.targets[b * T + t] = token ? (int32_t)random_below(2, n, V) : -1;
            n += token;
        }
    cr_assert(n == TOKENS && batch_targets(&batch) == TOKENS);
    return batch;
}

/* What a model computes from them in training. */
struct made {
    real *logits; // (TOKENS,V) of the valid tokens
    real *grad, *state;
    size_t grads, states;
    double loss;
};

static struct made made_of(struct model_config config, size_t T) {
    struct made made;
    struct batch batch = padded_to(T);
    config.block_size = PADDED;
    struct model model = held_model(&config, V, B, 1);
    struct tensor_list *param = &model.lists.param;
    shake(param);
    if (model_needs_first_batch(&model.config)) model_set_initial(&model, &batch);
    model_zero_grad(&model);
    model_forward(&model, &batch, true, 0);
    made.logits = hold(TOKENS * V * sizeof(real));
    for (size_t n = 0, k = 0; n < B * T; n++)
        if (batch.valid[n]) memcpy(made.logits + k++ * V, head_logits(&model, n), V * sizeof(real));
    made.loss = model_backward(&model, &batch, 0, 1);
    made.grads = param->size;
    made.grad = copy_reals(made.grads, param->grad);
    made.states = model.lists.state.size;
    made.state = copy_values(&model.lists.state);
    return made;
}

static double tolerance(void) {
    return in_double() ? 1e-12 : 1e-4;
}

static void check_masked(struct model_config config) {
    struct made want = made_of(config, LONGEST);
    for (size_t T = 2 * LONGEST; T <= PADDED; T *= 2) {
        struct made got = made_of(config, T);
        expect_close("logits", TOKENS * V, got.logits, want.logits, tolerance());
        expect_close("gradients", want.grads, got.grad, want.grad, tolerance());
        if (want.states)
            expect_close("statistics", want.states, got.state, want.state, tolerance());
        cr_expect(fabs(got.loss - want.loss) <= tolerance() * want.loss);
    }
}

static void check_masked_ones_change_nothing(const struct pair *pair) {
    check_masked(pair_config(pair));
}

Test(pads, masked_ones_change_nothing) {
    every_norm_and_placement(check_masked_ones_change_nothing);
}

/* With statistics for each position and for parts of the batch, in norms of heads and inside the
   MLP too, and with a penalty on the statistics of valid tokens. */
Test(pads, masked_ones_change_nothing_by_position_and_in_penalties) {
    struct pair pair = {.norm = norm_index("bn"), .inner = INNER_HEADS};
    struct model_config config = pair_config(&pair);
    norms_set(&config.norms, "bn-axis", BN_AXIS_BATCH);
    check_masked(config);
    norms_set(&config.norms, "bn-axis", BN_AXIS_BATCH_TIME);
    norms_set(&config.norms, "bn-shards", 2);
    check_masked(config);
    norms_set(&config.norms, "bn-shards", 1);
    norms_set(&config.norms, "rbn-mean", 1);
    norms_set(&config.norms, "rbn-var", 1);
    check_masked(config);
}

static void check_included_ones_change_what_pools_over_tokens(const struct pair *pair) {
    struct model_config config = pair_config(pair);
    bool pools = kind_mixes_tokens(norm_kinds[pair->norm]);
    norms_set(&config.norms, "prepbn-steps", 0); // bn alone from the first batch on
    struct made masked = made_of(config, PADDED);
    config.pad_stats = PAD_STATS_INCLUDE;
    struct made few = made_of(config, LONGEST), many = made_of(config, PADDED);
    if (pools) {
        double scale = largest(many.grads, many.grad);
        cr_expect(difference(TOKENS * V, few.logits, many.logits) > 1e-3);
        cr_expect(difference(few.states, few.state, many.state) > 1e-3);
        cr_expect(difference(many.grads, few.grad, many.grad) > 1e-3 * scale);
        cr_expect(difference(TOKENS * V, masked.logits, many.logits) > 1e-3);
    } else {
        expect_close("logits", TOKENS * V, many.logits, few.logits, tolerance());
        expect_close("gradients", few.grads, many.grad, few.grad, tolerance());
        cr_expect(difference(TOKENS * V, masked.logits, many.logits) == 0);
        cr_expect(difference(many.grads, masked.grad, many.grad) == 0);
    }
}

Test(pads, included_ones_change_what_pools_over_tokens) {
    every_norm(check_included_ones_change_what_pools_over_tokens);
}

/* One item of one character: statistics of two tokens, or of one where the item is cut. The pads
   are far from them, and must not become infinite through many layers. */
static void check_few_tokens_among_many_pads_stay_finite(const struct pair *pair) {
    enum { LENGTH = 16 };
    for (int stats = PAD_STATS_MASK; stats <= PAD_STATS_INCLUDE; stats++)
        for (size_t tokens = 1; tokens <= 2; tokens++) {
            struct model_config config = pair_config(pair);
            config.n_layer = 24;
            config.n_embd = 64;
            config.block_size = LENGTH;
            config.pad_stats = stats;
            struct batch batch = make_batch(1, LENGTH, 2, 1);
            batch.valid = batch.marks;
            for (size_t t = 0; t < LENGTH; t++) {
                batch.valid[t] = t < tokens;
                batch.ids[t] = t == 1;
                batch.targets[t] = t < tokens ? t == 0 : -1;
            }
            struct model model = held_model(&config, 2, 1, 1);
            model_zero_grad(&model);
            for (uint64_t step = 0; step < 2; step++) {
                model_forward(&model, &batch, true, step);
                double loss = model_backward(&model, &batch, step, 1);
                cr_expect(isfinite(loss), "loss %g", loss);
            }
            cr_expect(!tensor_nonfinite(&model.lists.param, model.lists.param.grad), "gradients");
            cr_expect(!tensor_nonfinite(&model.lists.state, model.lists.state.value), "states");
        }
}

Test(pads, few_tokens_among_many_pads_stay_finite) {
    (sweep() ? every_row : every_norm)(check_few_tokens_among_many_pads_stay_finite);
}
