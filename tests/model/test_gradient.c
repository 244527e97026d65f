/* Every gradient against central differences, in double: each operation with an upstream gradient
   of its own for every element; whole models are test_gradient_model.c's. */
#include "data/text/corpus.h"
#include "model/layer/embedding.h"
#include "model/layer/loss.h"
#include "model/math/simd.h"
#include "tests/support.h"
#include <criterion/parameterized.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

static void one_thread(void) {
    omp_set_num_threads(1);
}

TestSuite(gradient, .init = one_thread);

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
    norms_set(&options, "bn-axis", BN_AXIS_BATCH);
    unsigned char valid[3 * 7], most[10 * 7];
    for (size_t n = 0; n < sizeof valid; n++) valid[n] = n % 7 < 4 + n / 7; // one, or none, at some
    for (size_t n = 0; n < sizeof most; n++) most[n] = n >= ROWS && n % 7 != 3;
    check_norm_with(kind, &options, 3, 7, 11, NULL, true);
    check_norm_with(kind, &options, 3, 7, 11, valid, true);
    check_norm_with(kind, &options, 3, 7, 11, valid, false);
    check_norm_with(kind, &options, 10, 7, 17, most, true);
}

Test(gradient, power_norm_with_heads_and_without) {
    struct norm_options options = small_norms;
    options.heads = 3;
    check_norm_with(norm_find("pn"), &options, 6, 7, 12, NULL, true);
    check_norm_with(norm_find("pn"), &options, 6, 7, 12, NULL, false);
    norms_set(&options, "pn-group-scaling", 0);
    check_norm_with(norm_find("pn"), &options, 6, 7, 11, NULL, true);
    check_norm_with(norm_find("pn"), &options, 6, 7, 11, NULL, false);
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
    sublayer_attach(&c.sublayer, &options, c.x, &(struct layout){B, T, &lists, &arena});
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
    real *qkv, *out, *softmax, *dout, *scratch;
    struct dropout dropout;
};

static double attention_value(void *context) {
    struct attention_case *c = context;
    attention_forward((struct range){0, c->B * c->NH}, c->T, c->C, c->NH, 0, c->out, c->softmax,
                      c->qkv, c->dropout, c->scratch);
    return dot(c->B * c->T * c->C, c->out, c->dout);
}

static void check_attention(size_t B, size_t T, size_t C, size_t NH, double p) {
    struct attention_case c = {B, T, C, NH, .dropout = dropout_make(p, 9)};
    c.qkv = random_reals(B * T * 3 * C, 1);
    c.out = random_reals(B * T * C, 2);
    c.dout = random_reals(B * T * C, 3);
    c.softmax = random_reals(2 * B * T * NH, 4);
    c.scratch = random_reals(attention_scratch(T, C, NH), 5);
    real *dqkv = random_reals(B * T * 3 * C, 6);
    attention_value(&c);
    attention_backward((struct range){0, B * NH}, T, C, NH, dqkv, c.dout, c.softmax, c.qkv,
                       c.dropout, c.scratch);
    expect_gradient("dqkv", attention_value, &c, B * T * 3 * C, c.qkv, dqkv, 1);
    free(c.qkv);
    free(c.out);
    free(c.dout);
    free(c.softmax);
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
    struct tensor_lists lists = {.param = {.tensor = tensors,
                                           .value = arena_reals(&arena, 4096),
                                           .grad = arena_reals(&arena, 4096)}};
    struct linear_case c = {.N = N,
                            .x = random_reals(N * in, 3),
                            .y = random_reals(N * out, 4),
                            .dy = random_reals(N * out, 5)};
    linear_attach(&c.linear, "layer", in, out, bias, 0.4, &(struct layout){1, N, &lists, &arena});
    cr_assert(arena.used < (1 << 14) * sizeof(real) && lists.param.size < 4096);
    tensor_initialize(&lists.param, 1);
    real *dx = random_reals(N * in, 7);
    for (size_t n = 0; n < N; n += ROWS) {
        size_t M = N - n < ROWS ? N - n : ROWS;
        linear_backward(&c.linear, n / ROWS, M, dx + n * in, c.dy + n * out);
    }
    linear_weight_gradient(&c.linear, N, c.dy, out, c.x);
    linear_bias_gradient(&c.linear, N);
    expect_gradient("dx", linear_value, &c, N * in, c.x, dx, 1);
    expect_gradient("dW", linear_value, &c, in * out, c.linear.weight.value, c.linear.weight.grad,
                    1);
    if (bias)
        expect_gradient("db", linear_value, &c, out, c.linear.bias.value, c.linear.bias.grad, 1);
    cr_expect_eq(lists.param.count, bias ? 2 : 1);
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
    memcpy(c->spent, c->logits, c->N * vec_padded(c->V) * sizeof(real));
    loss_cross_entropy(c->N, c->V, c->losses, NULL, c->spent, c->targets, 0);
    loss_sum(c->N, c->losses, c->targets, &sum);
    return 0.7 * sum;
}

Test(gradient, cross_entropy) {
    enum { N = 9, V = 11 };
    size_t row = vec_padded(V);
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
    embedding_forward((struct range){0, 4}, 3, 5, c->x, c->ids, c->wte, c->wpe, c->dropout);
    embedding_forward((struct range){4, 6}, 3, 5, c->x, c->ids, c->wte, c->wpe, c->dropout);
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
