/* Gradients against central differences, in double, with an upstream gradient of its own for every
   element: of attention, of every activation, and of the loss. Those of norms are in
   test_gradient_norm.c, of all else in test_gradient_model.c. */
#include "data/text/corpus.h"
#include "model/head.h"
#include "model/layer/activation.h"
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
