/* Every gradient against central differences, in double: each operation with an upstream gradient
   of its own for every element, and the whole model for every norm x placement. */
#include "../data/corpus.h"
#include "../model/embedding.h"
#include "../model/loss.h"
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
};

static double model_value(void *context) {
    struct model_case *c = context;
    double sum;
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
    c.batch.targets[3] = -1; // not every token has a target
    c.batch.valid = valid;
    if (valid)
        for (size_t n = 0; n < SMALL_B * SMALL_T; n++)
            if (!valid[n]) c.batch.targets[n] = -1;
    size_t targets = 0;
    for (size_t n = 0; n < SMALL_B * SMALL_T; n++) targets += c.batch.targets[n] >= 0;
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
    c.batch.valid = NULL;
    batch_free(&c.batch);
    model_free(&c.model);
}

ParameterizedTestParameters(gradient, model) {
    return every_pair();
}

ParameterizedTest(struct pair *pair, gradient, model) {
    struct model_config config = small_config(pair->norm, pair->placement);
    check_model(&config, NULL);
}

ParameterizedTestParameters(gradient, model_with_dropout_and_pads) {
    return every_pair();
}

ParameterizedTest(struct pair *pair, gradient, model_with_dropout_and_pads) {
    struct model_config config = small_config(pair->norm, pair->placement);
    unsigned char valid[SMALL_B * SMALL_T];
    for (size_t n = 0; n < sizeof valid; n++) valid[n] = n % SMALL_T < 2 + n / SMALL_T;
    config.dropout = 0.2;
    check_model(&config, valid);
}

ParameterizedTestParameters(gradient, model_without_bias_or_affine) {
    return every_pair();
}

ParameterizedTest(struct pair *pair, gradient, model_without_bias_or_affine) {
    struct model_config config = small_config(pair->norm, pair->placement);
    config.bias = config.affine = 0;
    config.final_norm = FINAL_NORM_OFF;
    check_model(&config, NULL);
}

/* Norms alone: the input's gradient too. */

struct norm_case {
    struct lone_norm lone;
    real *x, *y, *dy;
    size_t count;
};

static double norm_value(void *context) {
    struct norm_case *c = context;
    c->lone.norm.kind->forward(&c->lone.norm, &c->lone.tokens, c->y, c->x, c->lone.scratch);
    return dot(c->count, c->y, c->dy);
}

static void check_norm(const struct norm_kind *kind, size_t B, size_t T, size_t C,
                       const unsigned char *valid, bool training) {
    if (!kind->forward) return; // the identity has nothing to derive: see test_norm.c
    struct norm_case c = {.count = B * T * C};
    lone_norm_init(&c.lone, kind, B, T, C);
    c.x = random_reals(c.count, 1);
    c.y = random_reals(c.count, 2);
    c.dy = random_reals(c.count, 3);
    real *dx = random_reals(c.count, 4), *noise = random_reals(c.lone.lists.param.size, 5);
    for (size_t i = 0; i < c.lone.lists.param.size; i++)
        c.lone.lists.param.value[i] += (real)0.2 * noise[i];
    c.lone.tokens.valid = valid;
    norm_value(&c); // so that the running statistics are not those of the start
    c.lone.tokens.training = training;
    norm_value(&c);
    c.lone.norm.kind->backward(&c.lone.norm, &c.lone.tokens, dx, c.dy, c.x, c.lone.scratch);
    expect_gradient("dx", norm_value, &c, c.count, c.x, dx, 1);
    for (int i = 0; kind->param[i].name; i++)
        expect_gradient(kind->param[i].name, norm_value, &c, kind->param[i].scalar ? 1 : C,
                        c.lone.norm.param[i].value, c.lone.norm.param[i].grad, 1);
    free(c.x);
    free(c.y);
    free(c.dy);
    free(dx);
    free(noise);
    lone_norm_free(&c.lone);
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
    check_norm(kind, 9, 5, 17, NULL, true); // more tokens than chunks
    check_norm(kind, 2, 2, 1, NULL, true);
    cr_expect(kind->name != NULL);
}

/* A sub-layer alone, with rows that the table does not have: every norm there is, and a factor. */

struct sublayer_case {
    struct sublayer sublayer;
    struct pass pass;
    struct sublayer_scratch scratch;
    real *x, *dy;
    size_t count;
};

static double sublayer_value(void *context) {
    struct sublayer_case *c = context;
    return dot(c->count, sublayer_forward(&c->sublayer, &c->pass, c->x, &c->scratch), c->dy);
}

static void check_sublayer(const struct norm_kind *norm, const struct placement *placement,
                           size_t heads) {
    enum { B = 2, T = 5, C = 6, REALS = 1 << 15 };
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
                                       .norm_options = {1e-5, 0.1, true, true},
                                       .activation = activations,
                                       .C = C,
                                       .heads = heads,
                                       .proj_deviation = 0.3,
                                       .dropout = 0.2,
                                       .bias = true,
                                       .seed = 1};
    struct sublayer_case c = {.pass = {{B, T, NULL, true}, 3}, .count = B * T * C};
    sublayer_attach(&c.sublayer, &options, B, T, &lists, &arena);
    for (int i = 0; i < 3; i++) c.scratch.stream[i] = arena_reals(&arena, c.count);
    for (int i = 0; i < 2; i++) c.scratch.wide[i] = arena_reals(&arena, 4 * c.count);
    c.scratch.scratch = arena_reals(&arena, sublayer_scratch_size(&c.sublayer, B, T, 1));
    real *dx = arena_reals(&arena, c.count);
    cr_assert(arena.used < REALS * sizeof(real) && lists.param.size < 2048);
    for (int i = 0; i < 3; i++) tensor_initialize(list[i], 1);
    c.x = random_reals(c.count, 1);
    c.dy = random_reals(c.count, 2);
    real *dy = random_reals(c.count, 2), *noise = random_reals(lists.param.size, 3);
    for (size_t i = 0; i < lists.param.size; i++) lists.param.value[i] += (real)0.3 * noise[i];
    sublayer_value(&c);
    sublayer_backward(&c.sublayer, &c.pass, dx, dy, &c.scratch);
    double typical = fmax(largest(lists.param.size, lists.param.grad), largest(c.count, dx));
    expect_gradient("dx", sublayer_value, &c, c.count, c.x, dx, typical);
    for (size_t i = 0; i < lists.param.count; i++) {
        const struct tensor *t = &lists.param.tensor[i];
        expect_gradient(t->name, sublayer_value, &c, t->size, lists.param.value + t->offset,
                        lists.param.grad + t->offset, typical);
    }
    free(c.x);
    free(c.dy);
    free(dy);
    free(noise);
    free(arena.base);
}

ParameterizedTestParameters(gradient, sublayer) {
    return every_norm();
}

ParameterizedTest(struct pair *pair, gradient, sublayer) {
    static const struct placement rows_of_its_own[] = {
        {.name = "all", .pre = true, .out = true, .post = true, .a = 1.7},
        {.name = "out", .out = true, .a = 0.6},
        {.name = "sandwich", .pre = true, .out = true, .a = 1},
    };
    for (int row = 0; row < 3; row++)
        for (size_t heads = 0; heads <= 2; heads += 2)
            check_sublayer(norm_kinds[pair->norm], &rows_of_its_own[row], heads);
}

/* The other operations. */

struct attention_case {
    size_t B, T, C, NH;
    real *qkv, *out, *logsum, *dout, *scratch;
    struct dropout dropout;
};

static double attention_value(void *context) {
    struct attention_case *c = context;
    attention_forward(c->B, c->T, c->C, c->NH, c->out, c->logsum, c->qkv, c->dropout, c->scratch);
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
    attention_backward(B, T, C, NH, dqkv, c.dout, c.out, c.logsum, c.qkv, c.dropout, c.scratch);
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
    real *x, *y, *dy, *scratch;
};

static double linear_value(void *context) {
    struct linear_case *c = context;
    linear_forward(&c->linear, c->N, c->y, c->x, c->scratch);
    return dot(c->N * c->linear.out, c->y, c->dy);
}

Test(gradient, linear) {
    enum { N = 13, IN = 7, OUT = 5 };
    struct linear_case c = {.linear = {IN,
                                       OUT,
                                       {random_reals(IN * OUT, 1), calloc(IN * OUT, sizeof(real))},
                                       {random_reals(OUT, 2), calloc(OUT, sizeof(real))}},
                            .N = N,
                            .x = random_reals(N * IN, 3),
                            .y = random_reals(N * OUT, 4),
                            .dy = random_reals(N * OUT, 5),
                            .scratch = random_reals(linear_scratch(IN, OUT), 6)};
    real *dx = random_reals(N * IN, 7);
    linear_backward(&c.linear, N, dx, c.dy, c.x, c.scratch);
    expect_gradient("dx", linear_value, &c, N * IN, c.x, dx, 1);
    expect_gradient("dW", linear_value, &c, IN * OUT, c.linear.weight.value, c.linear.weight.grad,
                    1);
    expect_gradient("db", linear_value, &c, OUT, c.linear.bias.value, c.linear.bias.grad, 1);
    real *all[] = {c.x,
                   c.y,
                   c.dy,
                   c.scratch,
                   dx,
                   c.linear.weight.value,
                   c.linear.weight.grad,
                   c.linear.bias.value,
                   c.linear.bias.grad};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
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
        real *dx = random_reals(COUNT, 4);
        a->backward(COUNT, dx, c.dy, c.x);
        expect_gradient(a->name, activation_value, &c, COUNT, c.x, dx, 1);
        free(c.x);
        free(c.y);
        free(c.dy);
        free(dx);
    }
}

struct loss_case {
    size_t N, V;
    real *losses, *logits;
    int32_t *targets;
};

static double loss_value(void *context) {
    struct loss_case *c = context;
    double sum;
    loss_cross_entropy(c->N, c->V, c->losses, NULL, c->logits, c->targets, 0);
    loss_sum(c->N, c->losses, c->targets, &sum);
    return 0.7 * sum;
}

Test(gradient, cross_entropy) {
    enum { N = 9, V = 11 };
    int32_t targets[N] = {0, 10, -1, 3, 3, 7, -1, 1, 2};
    struct loss_case c = {N, V, random_reals(N, 1), random_reals(N * V, 2), targets};
    real *dlogits = random_reals(N * V, 3);
    loss_cross_entropy(N, V, c.losses, dlogits, c.logits, targets, (real)0.7);
    expect_gradient("dlogits", loss_value, &c, N * V, c.logits, dlogits, 1);
    for (size_t v = 0; v < V; v++) cr_expect(dlogits[2 * V + v] == 0, "no target, no gradient");
    free(c.losses);
    free(c.logits);
    free(dlogits);
}

struct embedding_case {
    real *wte, *wpe, *x, *dx;
    int32_t ids[6];
    struct dropout dropout;
};

static double embedding_value(void *context) {
    struct embedding_case *c = context;
    embedding_forward(2, 3, 5, c->x, c->ids, c->wte, c->wpe, c->dropout);
    return dot(30, c->x, c->dx);
}

Test(gradient, embedding) {
    struct embedding_case c = {random_reals(20, 1), random_reals(15, 2), random_reals(30, 3),
                               random_reals(30, 4), {3, 0, 3, 2, 1, 3},  dropout_make(0.3, 5)};
    real dwte[20] = {0}, dwpe[15] = {0};
    embedding_backward(2, 3, 5, dwte, dwpe, c.dx, c.ids, c.dropout);
    expect_gradient("dwte", embedding_value, &c, 20, c.wte, dwte, 1);
    expect_gradient("dwpe", embedding_value, &c, 15, c.wpe, dwpe, 1);
    free(c.wte);
    free(c.wpe);
    free(c.x);
    free(c.dx);
}
