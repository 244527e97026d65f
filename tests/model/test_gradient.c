/* Gradients against central differences, in double, with an upstream gradient of its own for every
   element: of attention and of every activation. Those of norms are in test_gradient_norm.c, of the
   loss in test_operations.c, of all else in test_gradient_model.c. */
#include "model/layer/activation.h"
#include "model/layer/attention.h"
#include "tests/support.h"

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
    gradient_case("%zu heads, %zu of keys, T %zu, C %zu%s%s", NH, attention.KV, T, C,
                  attention.dropout.threshold ? ", dropout" : "",
                  attention.softcap > 0 ? ", soft cap" : "");
    attention_value(&c);
    attention_backward(&c.attention, (struct range){0, B * NH}, dqkv, c.dout, c.scratch);
    expect_gradient("dqkv", attention_value, &c, size, qkv, dqkv, 1);
}

Test(gradient, attention) {
    const struct dropout dropout = dropout_make(0.3, 9, 0);
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
        gradient_case("activation %s", a->name);
        cr_expect(difference(COUNT, again, c.y) == 0, "backward gives another y");
        expect_gradient("dx", activation_value, &c, inputs, c.x, dx, 1);
    }
}
