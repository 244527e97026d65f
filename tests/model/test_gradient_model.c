/* Every gradient of whole models against central differences, in double, for every norm and
   placement. */
#include "data/text/corpus.h"
#include "tests/support.h"
#include <omp.h>
#include <string.h>

struct model_case {
    struct model model;
    struct batch batch;
    real *state;    // before the forward
    double targets; // their number
};

static double model_value(void *context) {
    struct model_case *c = context;
    double sum;
    restore_values(&c->model.lists.state, c->state);
    c->model.lists.param.version++; // a weight has changed
    model_forward(&c->model, &c->batch, true, 3);
    return head_loss(&c->model, &c->batch, &sum) ? sum : 0;
}

/* A model with weights far from their small initial values, after backward of the sum of the
   losses. */
static struct model_case make_case(const struct model_config *config, size_t B, size_t threads,
                                   unsigned char *valid) {
    struct model_case c = {.batch = make_batch(B, config->block_size, SMALL_V, 7)};
    omp_set_num_threads((int)threads);
    c.model = held_model(config, SMALL_V, B, 1);
    c.model.threads = threads;
    shake(&c.model.lists.param);
    c.batch.targets[3] = -1; // not every token has a target
    c.batch.valid = valid;
    for (size_t n = 0; n < B * c.batch.T; n++) {
        if (valid && !valid[n]) c.batch.targets[n] = -1;
        c.targets += c.batch.targets[n] >= 0;
    }
    model_forward(&c.model, &c.batch, true, 3); // so that the state is not the initial one
    c.state = copy_values(&c.model.lists.state);
    gradient_of(&c.model, &c.batch, 3, c.targets); // of the sum, not of the mean
    return c;
}

/* Checks every parameter of a model of this configuration. */
static void check_model(const struct model_config *config, unsigned char *valid) {
    struct model_case c = make_case(config, SMALL_B, 1, valid);
    struct tensor_list *param = &c.model.lists.param;
    double typical = largest(param->size, param->grad);
    for (size_t i = 0; i < param->count; i++) {
        const struct tensor *t = &param->tensor[i];
        expect_gradient(t->name, model_value, &c, t->size, param->value + t->offset,
                        param->grad + t->offset, typical);
    }
}

static void each_model(const struct pair *pair) {
    struct model_config config = pair_config(pair);
    check_model(&config, NULL);
}

Test(gradient_model, model) {
    if (SANITIZED)
        every_norm_and_placement(each_model);
    else
        every_pair(each_model);
}

/* The ends of sequences. */
static unsigned char *pads(void) {
    static unsigned char valid[SMALL_B * SMALL_T];
    for (size_t n = 0; n < sizeof valid; n++) valid[n] = n % SMALL_T < 2 + n / SMALL_T;
    return valid;
}

static void check_model_with_dropout_and_pads(const struct pair *pair) {
    struct model_config config = pair_config(pair);
    config.dropout = 0.2;
    check_model(&config, pads());
}

Test(gradient_model, model_with_dropout_and_pads) {
    every_row(check_model_with_dropout_and_pads);
}

/* Connections beside a norm of the sub-layer's output, and beside a factor of their input. */
Test(gradient_model, connections_in_other_placements) {
    static const char *const rows[] = {"peri", "keel"};
    for (int k = 0; connection_kinds[k]; k++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            struct pair pair = {norm_index("ln"), placement_index(rows[i]), INNER_WIDTH, BLOCK_GPT2,
                                1 + k};
            gradient_case("%s", pair_options(&pair));
            if (!placement_refuses(&placements[pair.placement], connection_kinds[k]))
                check_model_with_dropout_and_pads(&pair);
            let_go();
        }
}

/* Pads that count as tokens in the norms' statistics have a gradient: that of the statistics. */
static void check_model_with_pads_in_its_statistics(const struct pair *pair) {
    struct model_config config = small_config(pair->norm, pair->placement);
    config.pad_stats = PAD_STATS_INCLUDE;
    check_model(&config, pads());
}

Test(gradient_model, model_with_pads_in_its_statistics) {
    every_row(check_model_with_pads_in_its_statistics);
}

static void check_model_without_bias_or_affine(const struct pair *pair) {
    struct model_config config = pair_config(pair);
    config.bias = config.norms.affine = 0;
    config.final_norm = FINAL_NORM_OFF;
    check_model(&config, NULL);
}

Test(gradient_model, model_without_bias_or_affine) {
    every_row(check_model_without_bias_or_affine);
}

/* A model of many tokens on several threads: one tensor at a time, along a random direction. */

struct direction_case {
    struct model_case model_case;
    real *from, *along; // the tensor's values, and the direction
    struct tensor tensor;
    real t;
};

static double direction_value(void *context) {
    struct direction_case *c = context;
    real *value = c->model_case.model.lists.param.value + c->tensor.offset;
    for (size_t i = 0; i < c->tensor.size; i++) value[i] = c->from[i] + c->t * c->along[i];
    return model_value(&c->model_case);
}

static void check_many_tokens(struct model_config config) {
    enum { SEQUENCES = 36, LENGTH = 37 }; // more than the 1024 tokens that the head takes at once
    unsigned char valid[SEQUENCES * LENGTH];
    for (size_t n = 0; n < sizeof valid; n++) valid[n] = n % LENGTH < 30 && n / ROWS != 2;
    config.block_size = LENGTH;
    config.dropout = 0.1;
    struct direction_case c = {.model_case = make_case(&config, SEQUENCES, 2, valid)};
    struct tensor_list *param = &c.model_case.model.lists.param;
    const double typical = largest(param->size, param->grad);
    for (size_t k = 0; k < param->count; k += SANITIZED || !sweep() ? 5 : 1) {
        c.tensor = param->tensor[k];
        real *value = param->value + c.tensor.offset;
        c.along = random_reals(c.tensor.size, 100 + k);
        c.from = copy_reals(c.tensor.size, value);
        real slope = (real)dot(c.tensor.size, c.along, param->grad + c.tensor.offset);
        expect_gradient(c.tensor.name, direction_value, &c, 1, &c.t, &slope, typical);
        memcpy(value, c.from, c.tensor.size * sizeof(real));
    }
}

static void check_model_of_many_tokens(const struct pair *pair) {
    check_many_tokens(pair_config(pair));
}

Test(gradient_model, model_of_many_tokens) {
    every_row(check_model_of_many_tokens);
}

/* An MLP that is narrower than the stream: values of both widths share the threads' scratch. */
Test(gradient_model, siamese_of_many_tokens_with_a_narrow_mlp) {
    struct model_config config = small_config(norm_index("ln"), placement_index("siamese"));
    config.ffn_width = config.n_embd / 2;
    check_many_tokens(config);
}

Test(gradient_model, batchnorm_by_position) {
    for (int placement = 0; placement < 2; placement++) {
        struct model_config config = small_config(norm_index("bn"), placement);
        norms_set(&config.norms, "bn-axis", BN_AXIS_BATCH);
        gradient_case("%s", placements[placement].name);
        check_model(&config, NULL);
    }
}

/* Regularized BatchNorm's penalty, whose gradient test_golden_norms.c compares with PyTorch, is
   scaled like the loss and is not part of it. */
Test(gradient_model, regularized_batchnorm) {
    struct model_config plain = small_config(norm_index("bn"), 0), penalized = plain;
    norms_set(&penalized.norms, "rbn-mean", 0.7);
    norms_set(&penalized.norms, "rbn-var", 0.4);
    struct model_case a = make_case(&plain, SMALL_B, 1, NULL);
    struct model_case b = make_case(&penalized, SMALL_B, 1, NULL);
    struct tensor_list *param = &b.model.lists.param;
    const real *usual = a.model.lists.param.grad;
    cr_expect(difference(param->size, param->grad, usual) > 0.1 * largest(param->size, usual));
    real *half = copy_reals(param->size, param->grad);
    for (size_t i = 0; i < param->size; i++) half[i] /= 2;
    restore_values(&b.model.lists.state, b.state);
    double loss = gradient_of(&b.model, &b.batch, 3, 0.5 * b.targets);
    expect_close("half", param->size, param->grad, half, 1e-14);
    cr_expect(fabs(loss - model_value(&b) / b.targets) < 1e-12, "the loss contains the penalty");
}
