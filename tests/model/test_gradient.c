/* Every gradient against central differences, in double: each operation of layer/, with an
   upstream gradient of its own for every element. Norms, sub-layers and whole models are in
   test_gradient_norm.c, test_gradient_sublayer.c and test_gradient_model.c. */
#include "data/text/corpus.h"
#include "model/layer/embedding.h"
#include "model/layer/loss.h"
#include "model/math/simd.h"
#include "tests/support.h"
#include <criterion/criterion.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

static void one_thread(void) {
    omp_set_num_threads(1);
}

TestSuite(gradient, .init = one_thread);

struct attention_case {
    size_t B;
    struct attention attention;
    real *out, *dout, *scratch;
};

static double attention_value(void *context) {
    struct attention_case *c = context;
    const struct attention *a = &c->attention;
    attention_forward(a, (struct range){0, c->B * a->NH}, c->out, c->scratch);
    return dot(c->B * a->T * a->C, c->out, c->dout);
}

static void check_attention(size_t B, size_t T, size_t C, size_t NH, double p) {
    real *qkv = random_reals(B * T * 3 * C, 1), *softmax = random_reals(2 * B * T * NH, 4);
    struct attention_case c = {
        .B = B, .attention = {T, C, NH, qkv, softmax, dropout_make(p, 9), .first = 0}};
    c.out = random_reals(B * T * C, 2);
    c.dout = random_reals(B * T * C, 3);
    c.scratch = random_reals(attention_scratch(T, C, NH), 5);
    real *dqkv = random_reals(B * T * 3 * C, 6);
    attention_value(&c);
    attention_backward(&c.attention, (struct range){0, B * NH}, dqkv, c.dout, c.scratch);
    expect_gradient("dqkv", attention_value, &c, B * T * 3 * C, qkv, dqkv, 1);
    free(qkv);
    free(c.out);
    free(c.dout);
    free(softmax);
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
    linear_attach(&c.linear, "layer", in, out, bias, 0.4,
                  &(struct layout){1, N, &lists, &arena, 1});
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
    check_linear(75, 19, 21, true); // several row blocks
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
        cr_expect(difference(COUNT, again, c.y) == 0, "%s: backward gives another y", a->name);
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
    real *losses, *logits, *spent; // a copy of the logits, since the loss overwrites them
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
            cr_expect(dlogits[n * row + v] == 0, "a pad has a gradient");
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
    struct embedding embedding = {3, 5, c->ids, {c->wte, NULL}, {c->wpe, NULL}, c->dropout};
    embedding_forward(&embedding, (struct range){0, 4}, c->x);
    embedding_forward(&embedding, (struct range){4, 6}, c->x);
    return dot(30, c->x, c->dx);
}

Test(gradient, embedding) {
    struct embedding_case c = {random_reals(20, 1), random_reals(15, 2), random_reals(30, 3),
                               random_reals(30, 4), {3, 0, 3, 2, 1, 3},  dropout_make(0.3, 5)};
    real dwte[20] = {0}, dwpe[15] = {0};
    struct embedding embedding = {3, 5, c.ids, {c.wte, dwte}, {c.wpe, dwpe}, c.dropout};
    embedding_backward(&embedding, 6, c.dx);
    expect_gradient("dwte", embedding_value, &c, 20, c.wte, dwte, 1);
    expect_gradient("dwpe", embedding_value, &c, 15, c.wpe, dwpe, 1);
    free(c.wte);
    free(c.wpe);
    free(c.x);
    free(c.dx);
}
