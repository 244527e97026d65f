/* Every gradient against central differences, in double: each operation of layer/, with an
   upstream gradient of its own for every element. Norms and sub-layers are in
   test_gradient_norm.c, full models in test_gradient_model.c. */
#include "data/text/corpus.h"
#include "model/head.h"
#include "model/layer/activation.h"
#include "model/layer/embedding.h"
#include "model/layer/rope.h"
#include "model/layer/softcap.h"
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

static void check_attention(size_t B, struct attention attention) {
    const size_t T = attention.T, C = attention.C, NH = attention.NH;
    const size_t size = B * T * attention_row(&attention);
    real *qkv = random_reals(size, 1), *softmax = random_reals(2 * B * T * NH, 4);
    attention.qkv = qkv;
    attention.softmax = softmax;
    struct attention_case c = {.B = B, .attention = attention};
    c.out = random_reals(B * T * C, 2);
    c.dout = random_reals(B * T * C, 3);
    c.scratch = random_reals(attention_scratch(&attention), 5);
    real *dqkv = random_reals(size, 6);
    attention_value(&c);
    attention_backward(&c.attention, (struct range){0, B * NH}, dqkv, c.dout, c.scratch);
    expect_gradient("dqkv", attention_value, &c, size, qkv, dqkv, 1);
}

Test(gradient, attention) {
    const struct dropout dropout = dropout_make(0.3, 9);
    check_attention(2, (struct attention){.T = 5, .C = 6, .NH = 2, .KV = 2});
    check_attention(2, (struct attention){.T = 5, .C = 6, .NH = 2, .KV = 2, .dropout = dropout});
    check_attention(1, (struct attention){.T = 37, .C = 5, .NH = 1, .KV = 1}); // blocks of queries
    check_attention(1, (struct attention){.T = 37, .C = 4, .NH = 2, .KV = 2, .dropout = dropout});
    check_attention(2, (struct attention){.T = 5, .C = 12, .NH = 6, .KV = 2, .dropout = dropout});
    check_attention(1, (struct attention){.T = 37, .C = 4, .NH = 4, .KV = 1, .softcap = 1});
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
    struct arena arena = held_arena((1 << 14) * sizeof(real));
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
    const struct parts parts = parts_one(N);
    linear_weight_gradient(&c.linear, &parts, (struct range){0, N}, c.dy, out, c.x);
    linear_bias_gradient(&c.linear, &parts);
    expect_gradient("dx", linear_value, &c, N * in, c.x, dx, 1);
    expect_gradient("dW", linear_value, &c, in * out, c.linear.weight.value, c.linear.weight.grad,
                    1);
    if (bias)
        expect_gradient("db", linear_value, &c, out, c.linear.bias.value, c.linear.bias.grad, 1);
    cr_expect_eq(lists.param.count, bias ? 2 : 1);
}

Test(gradient, linear) {
    check_linear(13, 7, 5, true);
    check_linear(13, 7, 5, false);
    check_linear(75, 19, 21, true); // several row blocks
}

struct activation_case {
    const struct activation *activation;
    size_t M, H;
    real *x, *y, *dy;
};

static double activation_value(void *context) {
    struct activation_case *c = context;
    activation_forward(c->activation, c->M, c->H, c->y, c->x);
    return dot(c->M * c->H, c->y, c->dy);
}

Test(gradient, activations) {
    enum { M = 3, H = 37, COUNT = M * H };
    for (const struct activation *a = activations; a->name; a++) {
        const size_t inputs = M * activation_inputs(a, H);
        struct activation_case c = {
            a, M, H, random_reals(inputs, 1), random_reals(COUNT, 2), random_reals(COUNT, 3)};
        for (size_t i = 0; i < inputs; i++) // ReLU has no derivative at 0
            if (fabs((double)c.x[i]) < 0.01) c.x[i] = 1;
        real *dx = random_reals(inputs, 4), *again = random_reals(COUNT, 5);
        activation_forward(a, M, H, c.y, c.x);
        activation_backward(a, M, H, dx, again, c.dy, c.x);
        cr_expect(difference(COUNT, again, c.y) == 0, "%s: backward gives another y", a->name);
        expect_gradient(a->name, activation_value, &c, inputs, c.x, dx, 1);
    }
}

/* Softcap, and rotary positions of two heads of 4 in rows of 9. */
struct elementwise_case {
    real *x, *y, *dy;
    struct rope rope;
};

static double softcap_value(void *context) {
    struct elementwise_case *c = context;
    softcap_forward(2, 36, c->y, c->x);
    return dot(36, c->y, c->dy);
}

static double rope_value(void *context) {
    struct elementwise_case *c = context;
    memcpy(c->y, c->x, 36 * sizeof(real));
    rope_forward(&c->rope, 3, (struct range){2, 6}, 2, c->y, 9);
    return dot(36, c->y, c->dy);
}

Test(gradient, softcap_and_rope) {
    struct elementwise_case c = {
        random_reals(36, 1), random_reals(36, 2), random_reals(36, 3), {0}};
    real *dx = random_reals(36, 4);
    struct arena arena = {0};
    memcpy(dx, c.dy, 36 * sizeof(real));
    softcap_forward(2, 36, c.y, c.x);
    softcap_backward(2, 36, dx, c.y);
    expect_gradient("softcap", softcap_value, &c, 36, c.x, dx, 1);

    rope_attach(&c.rope, 3, 4, 5, &arena);
    arena_allocate(&arena, "a test");
    rope_attach(&c.rope, 3, 4, 5, &arena);
    memcpy(dx, c.dy, 36 * sizeof(real));
    rope_backward(&c.rope, 3, (struct range){2, 6}, 2, dx, 9);
    expect_gradient("rope", rope_value, &c, 36, c.x, dx, 1);
    arena_free(&arena);
}

struct loss_case {
    struct loss loss;
    size_t N;
    real *losses, *logits, *spent; // a copy of the logits, since the loss overwrites them
    int32_t *targets;
};

/* `scale` times the losses, and the z-loss by its definition. */
static double loss_value(void *context) {
    struct loss_case *c = context;
    double sum, squares = 0;
    size_t V = c->loss.V, row = vec_padded(V);
    memcpy(c->spent, c->logits, c->N * row * sizeof(real));
    loss_cross_entropy(&c->loss, c->N, c->losses, NULL, c->spent, c->targets);
    loss_sum(c->N, c->losses, c->targets, &sum);
    for (size_t n = 0; n < c->N; n++) {
        double exponentials = 0;
        for (size_t v = 0; v < V; v++) exponentials += exp((double)c->logits[n * row + v]);
        if (c->targets[n] >= 0) squares += pow(log(exponentials), 2);
    }
    return (double)c->loss.scale * (sum + (double)c->loss.z_loss * squares);
}

static void check_cross_entropy(double z_loss) {
    enum { N = 9, V = 11 };
    size_t row = vec_padded(V);
    int32_t targets[N] = {0, 10, -1, 3, 3, 7, -1, 1, 2};
    struct loss_case c = {{V, (real)0.7, (real)z_loss}, N,
                          random_reals(N, 1),           random_reals(N * row, 2),
                          random_reals(N * row, 3),     targets};
    real *dlogits = random_reals(N * row, 4);
    memcpy(c.spent, c.logits, N * row * sizeof(real));
    loss_cross_entropy(&c.loss, N, c.losses, dlogits, c.spent, targets);
    for (size_t n = 0; n < N; n++) {
        expect_gradient("dlogits", loss_value, &c, V, c.logits + n * row, dlogits + n * row, 1);
        for (size_t v = targets[n] < 0 ? 0 : V; v < row; v++)
            cr_expect(dlogits[n * row + v] == 0, "a pad has a gradient");
    }
}

Test(gradient, cross_entropy) {
    check_cross_entropy(0);
    check_cross_entropy(0.3);
}

struct embedding_case {
    real *wte, *wpe, *x, *dx;
    int32_t ids[6];
    struct dropout dropout;
};

static double embedding_value(void *context) {
    struct embedding_case *c = context;
    struct embedding embedding = {3,         5, 4, c->ids, {.value = c->wte}, {.value = c->wpe},
                                  c->dropout};
    embedding_forward(&embedding, (struct range){0, 4}, c->x);
    embedding_forward(&embedding, (struct range){4, 6}, c->x);
    return dot(30, c->x, c->dx);
}

Test(gradient, embedding) {
    struct embedding_case c = {random_reals(20, 1), random_reals(15, 2), random_reals(30, 3),
                               random_reals(30, 4), {3, 0, 3, 2, 1, 3},  dropout_make(0.3, 5)};
    real dwte[20] = {0}, dwpe[15] = {0};
    struct embedding embedding = {3, 5, 4, c.ids, {c.wte, dwte, 0}, {c.wpe, dwpe, 0}, c.dropout};
    const struct parts parts = parts_one(6);
    embedding_backward(&embedding, &parts, c.dx);
    expect_gradient("dwte", embedding_value, &c, 20, c.wte, dwte, 1);
    expect_gradient("dwpe", embedding_value, &c, 15, c.wpe, dwpe, 1);
}
