/* Every gradient against central differences, in double: each operation with an upstream gradient
   of its own for every element, and the whole model for every norm x placement. */
#include "../data/corpus.h"
#include "../model/embedding.h"
#include "../model/loss.h"
#include "../model/norm_pool.h"
#include "../model/simd.h"
#include "support.h"
#include <criterion/parameterized.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

static void one_thread(void) {
    omp_set_num_threads(1);
}

TestSuite(gradient, .init = one_thread);

static double dot(size_t count, const real *a, const real *b) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

/* The whole model. */

struct model_case {
    struct model model;
    struct batch batch;
    real *state; // before the forward
};

static double model_value(void *context) {
    struct model_case *c = context;
    double sum;
    restore_values(&c->model.lists.state, c->state);
    c->model.lists.param.version++; // a weight has been moved
    model_forward(&c->model, &c->batch, true, 3);
    return model_loss(&c->model, &c->batch, &sum) ? sum : 0;
}

/* Every parameter of a model of this configuration, its weights far from their small start. */
static void check_model(const struct model_config *config, unsigned char *valid) {
    struct model_case c = {.batch = make_batch(SMALL_B, SMALL_T, SMALL_V, 7)};
    model_init(&c.model, config, SMALL_V, SMALL_B, 1);
    struct tensor_list *param = &c.model.lists.param;
    real *noise = random_reals(param->size, 2);
    for (size_t i = 0; i < param->size; i++) param->value[i] += (real)0.3 * noise[i];
    param->version++;
    c.batch.targets[3] = -1; // not every token has a target
    c.batch.valid = valid;
    if (valid)
        for (size_t n = 0; n < SMALL_B * SMALL_T; n++)
            if (!valid[n]) c.batch.targets[n] = -1;
    size_t targets = 0;
    for (size_t n = 0; n < SMALL_B * SMALL_T; n++) targets += c.batch.targets[n] >= 0;
    model_forward(&c.model, &c.batch, true, 3); // a state that is not that of the start
    c.state = copy_values(&c.model.lists.state);
    model_zero_grad(&c.model);
    model_forward(&c.model, &c.batch, true, 3);
    model_backward(&c.model, &c.batch, 3, (double)targets); // of the sum, not the mean
    double typical = largest(param->size, param->grad);
    for (size_t i = 0; i < param->count; i++) {
        const struct tensor *t = &param->tensor[i];
        expect_gradient(t->name, model_value, &c, t->size, param->value + t->offset,
                        param->grad + t->offset, typical);
    }
    free(noise);
    free(c.state);
    c.batch.valid = NULL;
    batch_free(&c.batch);
    model_free(&c.model);
}

ParameterizedTestParameters(gradient, model) {
    return every_pair();
}

ParameterizedTest(struct pair *pair, gradient, model) {
    struct model_config config = pair_config(pair);
    check_model(&config, NULL);
}

ParameterizedTestParameters(gradient, model_with_dropout_and_pads) {
    return every_row();
}

ParameterizedTest(struct pair *pair, gradient, model_with_dropout_and_pads) {
    struct model_config config = pair_config(pair);
    unsigned char valid[SMALL_B * SMALL_T];
    for (size_t n = 0; n < sizeof valid; n++) valid[n] = n % SMALL_T < 2 + n / SMALL_T;
    config.dropout = 0.2;
    check_model(&config, valid);
}

/* Pads that are tokens to the norms have a gradient: that of the statistics. */
ParameterizedTestParameters(gradient, model_with_pads_in_its_statistics) {
    return every_row();
}

ParameterizedTest(struct pair *pair, gradient, model_with_pads_in_its_statistics) {
    struct model_config config = small_config(pair->norm, pair->placement);
    unsigned char valid[SMALL_B * SMALL_T];
    for (size_t n = 0; n < sizeof valid; n++) valid[n] = n % SMALL_T < 2 + n / SMALL_T;
    config.pad_stats = PAD_STATS_INCLUDE;
    check_model(&config, valid);
}

ParameterizedTestParameters(gradient, model_without_bias_or_affine) {
    return every_row();
}

ParameterizedTest(struct pair *pair, gradient, model_without_bias_or_affine) {
    struct model_config config = pair_config(pair);
    config.bias = config.norms.affine = 0;
    config.final_norm = FINAL_NORM_OFF;
    check_model(&config, NULL);
}

/* A model of many tokens, shared out over threads: one tensor at a time, along a direction. */

struct direction_case {
    struct model_case whole;
    real *from, *along; // the tensor's values, and their way
    struct tensor tensor;
    real t;
};

static double direction_value(void *context) {
    struct direction_case *c = context;
    real *value = c->whole.model.lists.param.value + c->tensor.offset;
    for (size_t i = 0; i < c->tensor.size; i++) value[i] = c->from[i] + c->t * c->along[i];
    return model_value(&c->whole);
}

ParameterizedTestParameters(gradient, model_of_many_tokens) {
    return every_row();
}

ParameterizedTest(struct pair *pair, gradient, model_of_many_tokens) {
    enum { SEQUENCES = 36, LENGTH = 37, TOKENS = SEQUENCES * LENGTH }; // more than the head's 1024
    struct model_config config = pair_config(pair);
    unsigned char valid[TOKENS];
    config.block_size = LENGTH;
    config.dropout = 0.1;
    struct direction_case c = {.whole = {.batch = make_batch(SEQUENCES, LENGTH, SMALL_V, 7)}};
    struct model *model = &c.whole.model;
    omp_set_num_threads(2);
    model_init(model, &config, SMALL_V, SEQUENCES, 1);
    model->threads = 2;
    struct tensor_list *param = &model->lists.param;
    real *noise = random_reals(param->size, 2), slopes[128];
    for (size_t i = 0; i < param->size; i++) param->value[i] += (real)0.3 * noise[i];
    param->version++;
    for (size_t n = 0; n < TOKENS; n++) {
        valid[n] = n % LENGTH < 30 && n / ROWS != 2;
        if (!valid[n]) c.whole.batch.targets[n] = -1;
    }
    size_t targets = 0;
    for (size_t n = 0; n < TOKENS; n++) targets += valid[n];
    c.whole.batch.valid = valid;
    model_forward(model, &c.whole.batch, true, 3);
    c.whole.state = copy_values(&model->lists.state);
    model_zero_grad(model);
    model_forward(model, &c.whole.batch, true, 3);
    model_backward(model, &c.whole.batch, 3, (double)targets);
    double typical = 0;
    cr_assert(param->count <= 128);
    for (int pass = 0; pass < 2; pass++)
        for (size_t k = 0; k < param->count; k++) {
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
                free(c.from);
            }
            free(c.along);
        }
    free(noise);
    free(c.whole.state);
    c.whole.batch.valid = NULL;
    batch_free(&c.whole.batch);
    model_free(model);
}

/* Norms alone: the input's gradient too. */

struct norm_case {
    struct lone_norm lone;
    real *x, *y, *dy;
    real *state; // before the forward
    size_t count;
};

static double norm_value(void *context) {
    struct norm_case *c = context;
    restore_values(&c->lone.lists.state, c->state);
    lone_norm_forward(&c->lone, c->y, c->x);
    return dot(c->count, c->y, c->dy);
}

static void check_norm_with(const struct norm_kind *kind, const struct norm_options *options,
                            size_t B, size_t T, size_t C, const unsigned char *valid,
                            bool training) {
    if (!kind->forward) return; // the identity has nothing to derive: see test_norm.c
    struct norm_case c = {.count = B * T * C};
    lone_norm_init_with(&c.lone, kind, options, B, T, C);
    c.x = random_reals(c.count, 1);
    c.y = random_reals(c.count, 2);
    c.dy = random_reals(c.count, 3);
    real *dx = random_reals(c.count, 4), *noise = random_reals(c.lone.lists.param.size, 5);
    for (size_t i = 0; i < c.lone.lists.param.size; i++)
        c.lone.lists.param.value[i] += (real)0.2 * noise[i];
    c.lone.tokens.valid = valid;
    lone_norm_forward(&c.lone, c.y, c.x); // so that running statistics are not those of the start
    c.state = copy_values(&c.lone.lists.state);
    c.lone.tokens.training = training;
    norm_value(&c);
    lone_norm_backward(&c.lone, dx, c.dy, c.x);
    expect_gradient("dx", norm_value, &c, c.count, c.x, dx, 1);
    for (int i = 0; kind->param[i].name; i++)
        expect_gradient(kind->param[i].name, norm_value, &c, kind->param[i].scalar ? 1 : C,
                        c.lone.norm.param[i].value, c.lone.norm.param[i].grad, 1);
    free(c.x);
    free(c.y);
    free(c.dy);
    free(dx);
    free(noise);
    free(c.state);
    lone_norm_free(&c.lone);
}

static void check_norm(const struct norm_kind *kind, size_t B, size_t T, size_t C,
                       const unsigned char *valid, bool training) {
    check_norm_with(kind, &small_norms, B, T, C, valid, training);
}

ParameterizedTestParameters(gradient, norm) {
    return every_norm();
}

ParameterizedTest(struct pair *pair, gradient, norm) {
    const struct norm_kind *kind = norm_kinds[pair->norm];
    unsigned char valid[3 * 7];
    for (size_t n = 0; n < sizeof valid; n++) valid[n] = n % 7 < 4 + n / 7;
    check_norm(kind, 3, 7, 11, NULL, true);
    check_norm(kind, 3, 7, 11, valid, true);
    check_norm(kind, 3, 7, 11, NULL, false);
    unsigned char most[10 * 7]; // more than two blocks of tokens, the first all pads
    for (size_t n = 0; n < sizeof most; n++) most[n] = n >= ROWS && n % 7 != 3;
    check_norm(kind, 10, 7, 17, NULL, true);
    check_norm(kind, 10, 7, 17, most, true);
    check_norm(kind, 10, 7, 17, most, false);
    check_norm(kind, 2, 2, 1, NULL, true);
    check_norm(kind, 3, 7, 22, valid, true);
    cr_expect(kind->name != NULL);
}

/* What options change a kind to. */
Test(gradient, batchnorm_by_position) {
    const struct norm_kind *kind = norm_find("bn");
    struct norm_options options = small_norms;
    options.bn_axis = BN_AXIS_BATCH;
    unsigned char valid[3 * 7], most[10 * 7];
    for (size_t n = 0; n < sizeof valid; n++) valid[n] = n % 7 < 4 + n / 7; // one, or none, at some
    for (size_t n = 0; n < sizeof most; n++) most[n] = n >= ROWS && n % 7 != 3;
    check_norm_with(kind, &options, 3, 7, 11, NULL, true);
    check_norm_with(kind, &options, 3, 7, 11, valid, true);
    check_norm_with(kind, &options, 3, 7, 11, valid, false);
    check_norm_with(kind, &options, 10, 7, 17, most, true);
    for (int placement = 0; placement < 2; placement++) {
        struct model_config config = small_config(norm_index("bn"), placement);
        config.norms.bn_axis = BN_AXIS_BATCH;
        check_model(&config, NULL);
    }
}

Test(gradient, power_norm_with_heads_and_without) {
    struct norm_options options = small_norms;
    options.heads = 3;
    check_norm_with(norm_find("pn"), &options, 6, 7, 12, NULL, true);
    check_norm_with(norm_find("pn"), &options, 6, 7, 12, NULL, false);
    options.pn_group_scaling = 0;
    check_norm_with(norm_find("pn"), &options, 6, 7, 11, NULL, true);
    check_norm_with(norm_find("pn"), &options, 6, 7, 11, NULL, false);
}

/* Regularized BatchNorm: the function is the loss and the penalty, the running statistics those
   after the first forward. */

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
        double sigma = sqrt((double)pool.moment[c] + norm->options.eps) -
                       sqrt((double)run_var[c] + norm->options.eps);
        sum += norm->options.rbn_mean * mean * mean + norm->options.rbn_var * sigma * sigma;
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

Test(gradient, regularized_batchnorm) {
    struct penalty_case c = {.whole.batch = make_batch(SMALL_B, SMALL_T, SMALL_V, 7),
                             .weight = 0.5};
    struct model_config config = small_config(norm_index("bn"), 0);
    config.norms.rbn_mean = 0.7;
    config.norms.rbn_var = 0.4;
    struct model *model = &c.whole.model;
    struct tensor_list *param = &model->lists.param;
    model_init(model, &config, SMALL_V, SMALL_B, 1);
    real *noise = random_reals(param->size, 2);
    for (size_t i = 0; i < param->size; i++) param->value[i] += (real)0.3 * noise[i];
    param->version++;
    c.whole.state = copy_values(&model->lists.state);
    model_zero_grad(model);
    model_forward(model, &c.whole.batch, true, 3);
    c.running = copy_values(&model->lists.state);
    double loss = model_backward(model, &c.whole.batch, 3, c.weight);
    double bare = model_value(&c.whole) / (SMALL_B * SMALL_T);
    cr_expect(fabs(loss - bare) < 1e-12 && penalty_value(&c) > c.weight * (bare + 0.1),
              "the loss that is logged is without the penalty");
    for (size_t i = 0; i < param->count; i++) {
        const struct tensor *t = &param->tensor[i];
        expect_gradient(t->name, penalty_value, &c, t->size, param->value + t->offset,
                        param->grad + t->offset, largest(param->size, param->grad));
    }
    free(noise);
    free(c.running);
    free(c.whole.state);
    batch_free(&c.whole.batch);
    model_free(model);
}

/* A sub-layer alone, with rows that the table does not have: every norm there is, and a factor. */

struct sublayer_case {
    struct sublayer sublayer;
    struct pass pass;
    struct sublayer_scratch scratch;
    real *x, *dy;
    struct tensor_list *states;
    real *state; // before the forward
    size_t count;
};

static double sublayer_value(void *context) {
    struct sublayer_case *c = context;
    restore_values(c->states, c->state);
    sublayer_prepare(&c->sublayer);
    sublayer_forward(&c->sublayer, &c->pass, &c->scratch);
    return dot(c->count, c->sublayer.y, c->dy);
}

static void check_sublayer(const struct norm_kind *norm, const struct placement *placement,
                           bool inner, size_t heads) {
    enum { B = 2, T = 5, C = 6, REALS = 1 << 17 };
    struct tensor tensors[3][32];
    struct arena arena = {.base = calloc(REALS, sizeof(real))};
    struct tensor_lists lists = {0};
    struct tensor_list *list[] = {&lists.param, &lists.state, &lists.fixed};
    for (int i = 0; i < 3; i++)
        *list[i] = (struct tensor_list){.tensor = tensors[i],
                                        .value = arena_reals(&arena, 2048),
                                        .grad = arena_reals(&arena, 2048)};
    struct sublayer_options options = {.placement = placement,
                                       .norm = norm,
                                       .inner_norm = inner ? norm : norm_find("none"),
                                       .norm_options = small_norms,
                                       .depth = 2,
                                       .gain = 1,
                                       .activation = activations,
                                       .C = C,
                                       .heads = heads,
                                       .dropout = 0.2,
                                       .bias = true,
                                       .seed = 1};
    struct sublayer_case c = {.pass = {{.B = B, .T = T, .training = true}, {0, B * T}, 3},
                              .count = B * T * C};
    c.x = random_reals(c.count, 1);
    sublayer_attach(&c.sublayer, &options, c.x, B, T, &lists, &arena);
    sublayer_scratch_need(&c.scratch, &c.sublayer, T);
    sublayer_scratch_attach(&c.scratch, B * T, 1, &arena);
    real *dx = arena_reals(&arena, c.count);
    cr_assert(arena.used < REALS * sizeof(real) && lists.param.size < 2048);
    for (int i = 0; i < 3; i++) tensor_initialize(list[i], 1);
    c.dy = random_reals(c.count, 2);
    real *noise = random_reals(lists.param.size, 3);
    for (size_t i = 0; i < lists.param.size; i++) lists.param.value[i] += (real)0.3 * noise[i];
    c.states = &lists.state;
    sublayer_prepare(&c.sublayer);
    sublayer_forward(&c.sublayer, &c.pass, &c.scratch);
    c.state = copy_values(&lists.state);
    sublayer_value(&c);
    sublayer_backward(&c.sublayer, &c.pass, dx, c.dy, &c.scratch);
    sublayer_gradient(&c.sublayer, B * T);
    double typical = fmax(largest(lists.param.size, lists.param.grad), largest(c.count, dx));
    expect_gradient("dx", sublayer_value, &c, c.count, c.x, dx, typical);
    for (size_t i = 0; i < lists.param.count; i++) {
        const struct tensor *t = &lists.param.tensor[i];
        expect_gradient(t->name, sublayer_value, &c, t->size, lists.param.value + t->offset,
                        lists.param.grad + t->offset, typical);
    }
    free(c.x);
    free(c.dy);
    free(noise);
    free(c.state);
    free(arena.base);
}

static double more(size_t depth) {
    (void)depth;
    return 1.7;
}

static double less(size_t depth) {
    (void)depth;
    return 0.6;
}

ParameterizedTestParameters(gradient, sublayer) {
    return every_norm();
}

ParameterizedTest(struct pair *pair, gradient, sublayer) {
    static const struct placement rows_of_its_own[] = {
        {.name = "all", .pre = true, .out = true, .post = true, .a = more, .s = less},
        {.name = "out", .out = true, .a = less},
        {.name = "pre and out", .pre = true, .out = true},
        {.name = "factors alone", .a = less, .s = more},
    };
    for (int row = 0; row < 4; row++)
        for (size_t heads = 0; heads <= 2; heads += 2)
            check_sublayer(norm_kinds[pair->norm], &rows_of_its_own[row], row == 0, heads);
}

/* The other operations. */

struct attention_case {
    size_t B, T, C, NH;
    real *qkv, *out, *logsum, *dout, *scratch;
    struct dropout dropout;
};

static double attention_value(void *context) {
    struct attention_case *c = context;
    attention_forward(c->B, c->T, c->C, c->NH, 0, c->out, c->logsum, c->qkv, c->dropout,
                      c->scratch);
    return dot(c->B * c->T * c->C, c->out, c->dout);
}

static void check_attention(size_t B, size_t T, size_t C, size_t NH, double p) {
    struct attention_case c = {B, T, C, NH, .dropout = dropout_make(p, 9)};
    c.qkv = random_reals(B * T * 3 * C, 1);
    c.out = random_reals(B * T * C, 2);
    c.dout = random_reals(B * T * C, 3);
    c.logsum = random_reals(B * T * NH, 4);
    c.scratch = random_reals(attention_scratch(T, C, NH), 5);
    real *dqkv = random_reals(B * T * 3 * C, 6);
    attention_value(&c);
    attention_backward(B, T, C, NH, dqkv, c.dout, c.logsum, c.qkv, c.dropout, c.scratch);
    expect_gradient("dqkv", attention_value, &c, B * T * 3 * C, c.qkv, dqkv, 1);
    free(c.qkv);
    free(c.out);
    free(c.dout);
    free(c.logsum);
    free(c.scratch);
    free(dqkv);
}

Test(gradient, attention) {
    check_attention(2, 5, 6, 2, 0);
    check_attention(2, 5, 6, 2, 0.3);
    check_attention(1, 37, 5, 1, 0); // more than one block of queries
    check_attention(1, 37, 4, 2, 0.3);
}

struct linear_case {
    struct linear linear;
    size_t N;
    real *x, *y, *dy;
};

static double linear_value(void *context) {
    struct linear_case *c = context;
    linear_prepare(&c->linear);
    for (size_t n = 0; n < c->N; n += ROWS) {
        size_t M = c->N - n < ROWS ? c->N - n : ROWS;
        linear_forward(&c->linear, M, c->y + n * c->linear.out, c->x + n * c->linear.in);
    }
    return dot(c->N * c->linear.out, c->y, c->dy);
}

static void check_linear(size_t N, size_t in, size_t out, bool bias) {
    struct tensor tensors[2];
    struct arena arena = {.base = calloc(1 << 14, sizeof(real))};
    struct tensor_list list = {
        .tensor = tensors, .value = arena_reals(&arena, 4096), .grad = arena_reals(&arena, 4096)};
    struct linear_case c = {.N = N,
                            .x = random_reals(N * in, 3),
                            .y = random_reals(N * out, 4),
                            .dy = random_reals(N * out, 5)};
    linear_attach(&c.linear, "layer", in, out, bias, 0.4, N, &list, &arena);
    cr_assert(arena.used < (1 << 14) * sizeof(real) && list.size < 4096);
    tensor_initialize(&list, 1);
    real *dx = random_reals(N * in, 7);
    for (size_t n = 0; n < N; n += ROWS) {
        size_t M = N - n < ROWS ? N - n : ROWS;
        linear_backward(&c.linear, n / ROWS, M, dx + n * in, c.dy + n * out);
    }
    linear_gradient(&c.linear, N, c.dy, out, c.x);
    linear_bias_gradient(&c.linear, N);
    expect_gradient("dx", linear_value, &c, N * in, c.x, dx, 1);
    expect_gradient("dW", linear_value, &c, in * out, c.linear.weight.value, c.linear.weight.grad,
                    1);
    if (bias)
        expect_gradient("db", linear_value, &c, out, c.linear.bias.value, c.linear.bias.grad, 1);
    cr_expect_eq(list.count, bias ? 2 : 1);
    free(c.x);
    free(c.y);
    free(c.dy);
    free(dx);
    free(arena.base);
}

Test(gradient, linear) {
    check_linear(13, 7, 5, true);
    check_linear(13, 7, 5, false);
    check_linear(75, 19, 21, true); // several blocks of tokens
}

struct elementwise_case {
    const struct activation *activation;
    size_t count;
    real *x, *y, *dy;
};

static double activation_value(void *context) {
    struct elementwise_case *c = context;
    c->activation->forward(c->count, c->y, c->x);
    return dot(c->count, c->y, c->dy);
}

Test(gradient, activations) {
    enum { COUNT = 101 };
    for (const struct activation *a = activations; a->name; a++) {
        struct elementwise_case c = {a, COUNT, random_reals(COUNT, 1), random_reals(COUNT, 2),
                                     random_reals(COUNT, 3)};
        for (size_t i = 0; i < COUNT; i++) // ReLU has no derivative at 0
            if (fabs((double)c.x[i]) < 0.01) c.x[i] = 1;
        real *dx = random_reals(COUNT, 4), *again = random_reals(COUNT, 5);
        a->forward(COUNT, c.y, c.x);
        a->backward(COUNT, dx, again, c.dy, c.x);
        cr_expect(difference(COUNT, again, c.y) == 0, "%s: another y", a->name);
        expect_gradient(a->name, activation_value, &c, COUNT, c.x, dx, 1);
        free(again);
        free(c.x);
        free(c.y);
        free(c.dy);
        free(dx);
    }
}

struct loss_case {
    size_t N, V;
    real *losses, *logits, *spent; // a copy of the logits, which are used up
    int32_t *targets;
};

static double loss_value(void *context) {
    struct loss_case *c = context;
    double sum;
    memcpy(c->spent, c->logits, c->N * whole_vectors(c->V) * sizeof(real));
    loss_cross_entropy(c->N, c->V, c->losses, NULL, c->spent, c->targets, 0);
    loss_sum(c->N, c->losses, c->targets, &sum);
    return 0.7 * sum;
}

Test(gradient, cross_entropy) {
    enum { N = 9, V = 11 };
    size_t row = whole_vectors(V);
    int32_t targets[N] = {0, 10, -1, 3, 3, 7, -1, 1, 2};
    struct loss_case c = {
        N, V, random_reals(N, 1), random_reals(N * row, 2), random_reals(N * row, 3), targets};
    real *dlogits = random_reals(N * row, 4);
    memcpy(c.spent, c.logits, N * row * sizeof(real));
    loss_cross_entropy(N, V, c.losses, dlogits, c.spent, targets, (real)0.7);
    for (size_t n = 0; n < N; n++) {
        expect_gradient("dlogits", loss_value, &c, V, c.logits + n * row, dlogits + n * row, 1);
        for (size_t v = targets[n] < 0 ? 0 : V; v < row; v++)
            cr_expect(dlogits[n * row + v] == 0, "no target or no logit, no gradient");
    }
    free(c.losses);
    free(c.logits);
    free(c.spent);
    free(dlogits);
}

struct embedding_case {
    real *wte, *wpe, *x, *dx;
    int32_t ids[6];
    struct dropout dropout;
};

static double embedding_value(void *context) {
    struct embedding_case *c = context;
    embedding_forward((struct rows){0, 4}, 3, 5, c->x, c->ids, c->wte, c->wpe, c->dropout);
    embedding_forward((struct rows){4, 6}, 3, 5, c->x, c->ids, c->wte, c->wpe, c->dropout);
    return dot(30, c->x, c->dx);
}

Test(gradient, embedding) {
    struct embedding_case c = {random_reals(20, 1), random_reals(15, 2), random_reals(30, 3),
                               random_reals(30, 4), {3, 0, 3, 2, 1, 3},  dropout_make(0.3, 5)};
    real dwte[20] = {0}, dwpe[15] = {0};
    embedding_backward(6, 3, 5, dwte, dwpe, c.dx, c.ids, c.dropout);
    expect_gradient("dwte", embedding_value, &c, 20, c.wte, dwte, 1);
    expect_gradient("dwpe", embedding_value, &c, 15, c.wpe, dwpe, 1);
    free(c.wte);
    free(c.wpe);
    free(c.x);
    free(c.dx);
}
