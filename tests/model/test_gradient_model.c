/* Every gradient of whole models against central differences, in double, for every norm and
   placement. */
#include "data/text/corpus.h"
#include "model/norm/pool.h"
#include "tests/support.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

static void one_thread(void) {
    omp_set_num_threads(1);
}

TestSuite(gradient_model, .init = one_thread);

struct model_case {
    struct model model;
    struct batch batch;
    real *state; // before the forward
};

static double model_value(void *context) {
    struct model_case *c = context;
    double sum;
    restore_values(&c->model.lists.state, c->state);
    c->model.lists.param.version++; // a weight has changed
    model_forward(&c->model, &c->batch, true, 3);
    return model_loss(&c->model, &c->batch, &sum) ? sum : 0;
}

/* Checks every parameter of a model of this configuration, with weights far from their small
   initial values. */
static void check_model(const struct model_config *config, unsigned char *valid) {
    struct model_case c = {.batch = make_batch(SMALL_B, SMALL_T, SMALL_V, 7)};
    gradient_case("%s%s", model_words(config), valid ? ", with pads" : "");
    c.model = held_model(config, SMALL_V, SMALL_B, 1);
    struct tensor_list *param = &c.model.lists.param;
    shake(param);
    c.batch.targets[3] = -1; // not every token has a target
    c.batch.valid = valid;
    if (valid)
        for (size_t n = 0; n < SMALL_B * SMALL_T; n++)
            if (!valid[n]) c.batch.targets[n] = -1;
    size_t targets = 0;
    for (size_t n = 0; n < SMALL_B * SMALL_T; n++) targets += c.batch.targets[n] >= 0;
    model_forward(&c.model, &c.batch, true, 3); // so that the state is not the initial one
    c.state = copy_values(&c.model.lists.state);
    gradient_of(&c.model, &c.batch, 3, (double)targets); // of the sum, not of the mean
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

static void check_model_with_dropout_and_pads(const struct pair *pair) {
    struct model_config config = pair_config(pair);
    unsigned char valid[SMALL_B * SMALL_T];
    for (size_t n = 0; n < sizeof valid; n++) valid[n] = n % SMALL_T < 2 + n / SMALL_T;
    config.dropout = 0.2;
    check_model(&config, valid);
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
            if (!placement_refuses(&placements[pair.placement], connection_kinds[k]))
                check_model_with_dropout_and_pads(&pair);
            let_go();
        }
}

/* Pads that count as tokens in the norms' statistics have a gradient: that of the statistics. */
static void check_model_with_pads_in_its_statistics(const struct pair *pair) {
    struct model_config config = small_config(pair->norm, pair->placement);
    unsigned char valid[SMALL_B * SMALL_T];
    for (size_t n = 0; n < sizeof valid; n++) valid[n] = n % SMALL_T < 2 + n / SMALL_T;
    config.pad_stats = PAD_STATS_INCLUDE;
    check_model(&config, valid);
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
    struct model_case whole;
    real *from, *along; // the tensor's values, and the direction
    struct tensor tensor;
    real t;
};

static double direction_value(void *context) {
    struct direction_case *c = context;
    real *value = c->whole.model.lists.param.value + c->tensor.offset;
    for (size_t i = 0; i < c->tensor.size; i++) value[i] = c->from[i] + c->t * c->along[i];
    return model_value(&c->whole);
}

static void check_many_tokens(struct model_config config) {
    enum {
        SEQUENCES = 36,
        LENGTH = 37,
        TOKENS = SEQUENCES * LENGTH
    }; // more than the 1024 that the head takes at once
    unsigned char valid[TOKENS];
    config.block_size = LENGTH;
    config.dropout = 0.1;
    struct direction_case c = {.whole = {.batch = make_batch(SEQUENCES, LENGTH, SMALL_V, 7)}};
    struct model *model = &c.whole.model;
    gradient_case("%s, many tokens", model_words(&config));
    omp_set_num_threads(2);
    *model = held_model(&config, SMALL_V, SEQUENCES, 1);
    model->threads = 2;
    struct tensor_list *param = &model->lists.param;
    real slopes[128];
    shake(param);
    for (size_t n = 0; n < TOKENS; n++) {
        valid[n] = n % LENGTH < 30 && n / ROWS != 2;
        if (!valid[n]) c.whole.batch.targets[n] = -1;
    }
    size_t targets = 0;
    for (size_t n = 0; n < TOKENS; n++) targets += valid[n];
    c.whole.batch.valid = valid;
    model_forward(model, &c.whole.batch, true, 3);
    c.whole.state = copy_values(&model->lists.state);
    gradient_of(model, &c.whole.batch, 3, (double)targets);
    double typical = 0;
    cr_assert(param->count <= 128);
    for (int pass = 0; pass < 2; pass++)
        for (size_t k = 0; k < param->count; k += pass && (SANITIZED || !sweep()) ? 5 : 1) {
            c.tensor = param->tensor[k];
            c.along = random_reals(c.tensor.size, 100 + k);
            for (size_t i = 0; i < c.tensor.size; i++)
                c.along[i] /= (real)sqrt((double)c.tensor.size);
            if (pass == 0) {
                slopes[k] = (real)dot(c.tensor.size, c.along, param->grad + c.tensor.offset);
                typical = fmax(typical, fabs((double)slopes[k]));
            } else {
                c.from = random_reals(c.tensor.size, 1);
                memcpy(c.from, param->value + c.tensor.offset, c.tensor.size * sizeof(real));
                expect_gradient(c.tensor.name, direction_value, &c, 1, &c.t, &slopes[k], typical);
                memcpy(param->value + c.tensor.offset, c.from, c.tensor.size * sizeof(real));
            }
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
        check_model(&config, NULL);
    }
}

/* Regularized BatchNorm: the function is the loss plus the penalty; the running statistics are
   those after the first forward. */

struct penalty_case {
    struct model_case whole;
    real *running; // as the model's states
    double weight; // of the mean loss
};

static double penalty_of(const struct norm *norm, const struct tensor_list *states,
                         const real *running) {
    const real *run_mean = running + (norm->state[0] - states->value);
    const real *run_var = running + (norm->state[1] - states->value);
    struct pool pool = pool_at(norm->saved, norm->C);
    double sum = 0;
    for (size_t c = 0; c < norm->C; c++) {
        double mean = (double)(pool.mean[c] - run_mean[c]);
        double sigma = sqrt((double)pool.moment[c] + norm_get(norm, "norm-eps")) -
                       sqrt((double)run_var[c] + norm_get(norm, "norm-eps"));
        sum += norm_get(norm, "rbn-mean") * mean * mean + norm_get(norm, "rbn-var") * sigma * sigma;
    }
    return sum;
}

static double penalty_value(void *context) {
    struct penalty_case *c = context;
    struct model *m = &c->whole.model;
    double sum = model_value(&c->whole) / (SMALL_B * SMALL_T);
    for (size_t l = 0; l < m->L; l++) {
        sum += penalty_of(&m->layer[l].attention.pre, &m->lists.state, c->running);
        sum += penalty_of(&m->layer[l].mlp.pre, &m->lists.state, c->running);
    }
    return c->weight * (sum + penalty_of(&m->final, &m->lists.state, c->running));
}

Test(gradient_model, regularized_batchnorm) {
    struct penalty_case c = {.whole.batch = make_batch(SMALL_B, SMALL_T, SMALL_V, 7),
                             .weight = 0.5};
    struct model_config config = small_config(norm_index("bn"), 0);
    norms_set(&config.norms, "rbn-mean", 0.7);
    norms_set(&config.norms, "rbn-var", 0.4);
    gradient_case("%s", model_words(&config));
    struct model *model = &c.whole.model;
    struct tensor_list *param = &model->lists.param;
    *model = held_model(&config, SMALL_V, SMALL_B, 1);
    shake(param);
    c.whole.state = copy_values(&model->lists.state);
    model_zero_grad(model);
    model_forward(model, &c.whole.batch, true, 3);
    c.running = copy_values(&model->lists.state);
    double loss = model_backward(model, &c.whole.batch, 3, c.weight);
    double bare = model_value(&c.whole) / (SMALL_B * SMALL_T);
    cr_expect(fabs(loss - bare) < 1e-12 && penalty_value(&c) > c.weight * (bare + 0.1),
              "the logged loss contains the penalty");
    for (size_t i = 0; i < param->count; i++) {
        const struct tensor *t = &param->tensor[i];
        expect_gradient(t->name, penalty_value, &c, t->size, param->value + t->offset,
                        param->grad + t->offset, largest(param->size, param->grad));
    }
}
