/* bn with --bn-shards: each part of the batch is normalized as a batch of its own. */
#include "tests/model/theory.h"
#include "tests/support.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct lone_norm bn_with(int shards, size_t sequences) {
    struct norm_options options = small_norms;
    norms_set(&options, "bn-shards", shards);
    struct lone_norm lone;
    lone_norm_init_with(&lone, norm_find("bn"), &options, sequences, T, C);
    for (size_t c = 0; c < C; c++) {
        lone.norm.param[0].value[c] = (real)(1 + 0.1 * (double)c);
        lone.norm.param[1].value[c] = (real)(0.3 * (double)c - 1);
    }
    return lone;
}

/* y, dx and the gradients are those of bn over each part, whose sizes differ by one at most; the
   running statistics move by the mean over the parts. */
static void expect_parts(int shards, const size_t *first) {
    real *x = random_reals(COUNT, 1), *dy = random_reals(COUNT, 2);
    real y[COUNT], dx[COUNT], z[COUNT], dz[COUNT], running[2 * C] = {0}, grads[2 * C] = {0};
    for (size_t i = 0; i < COUNT; i++) x[i] += (real)(i / (T * C)); // sequences differ
    struct lone_norm whole = bn_with(shards, B);
    lone_norm_forward(&whole, y, x);
    lone_norm_backward(&whole, dx, dy, x);
    for (int i = 0; i < shards; i++) {
        size_t at = first[i] * T * C;
        struct lone_norm part = bn_with(1, first[i + 1] - first[i]);
        lone_norm_forward(&part, z + at, x + at);
        lone_norm_backward(&part, dz + at, dy + at, x + at);
        for (size_t k = 0; k < 2 * C; k++) {
            running[k] += part.norm.state[k / C][k % C] / (real)shards;
            grads[k] += part.norm.param[k / C].grad[k % C];
        }
        lone_norm_free(&part);
    }
    expect_close("y", COUNT, y, z, theory_tolerance());
    expect_close("dx", COUNT, dx, dz, 10 * theory_tolerance());
    for (size_t i = 0; i < 2; i++) {
        expect_close("running", C, whole.norm.state[i], running + i * C, theory_tolerance());
        expect_close("gradient", C, whole.norm.param[i].grad, grads + i * C,
                     10 * theory_tolerance());
    }
    cr_expect(*whole.norm.batches == 1);
    lone_norm_free(&whole);
    free(x);
    free(dy);
}

Test(norm, shards_are_batches_of_their_own) {
    expect_parts(2, (size_t[]){0, 5, 10});
    expect_parts(5, (size_t[]){0, 2, 4, 6, 8, 10});
    expect_parts(4, (size_t[]){0, 3, 5, 8, 10}); // sequence b is in part floor(b 4 / 10)
}

static void expect_same(const struct lone_norm *a, const struct lone_norm *b, const real *x,
                        const real *dy) {
    real y[COUNT], z[COUNT], dx[COUNT], dz[COUNT];
    lone_norm_forward(a, y, x);
    lone_norm_forward(b, z, x);
    lone_norm_backward(a, dx, dy, x);
    lone_norm_backward(b, dz, dy, x);
    cr_expect(difference(COUNT, y, z) == 0 && difference(COUNT, dx, dz) == 0);
    for (int i = 0; i < 2; i++) {
        cr_expect(difference(C, a->norm.state[i], b->norm.state[i]) == 0);
        cr_expect(difference(C, a->norm.param[i].grad, b->norm.param[i].grad) == 0);
    }
}

/* As many parts as sequences, or more. */
Test(norm, shards_of_one_sequence_are_instances) {
    real *x = random_reals(COUNT, 1), *dy = random_reals(COUNT, 2);
    for (int shards = B; shards <= B + 3; shards += 3) {
        struct lone_norm bn = bn_with(shards, B), in;
        lone_norm_init(&in, norm_find("in"), B, T, C);
        memcpy(in.lists.param.value, bn.lists.param.value, in.lists.param.size * sizeof(real));
        expect_same(&bn, &in, x, dy);
        lone_norm_free(&bn);
        lone_norm_free(&in);
    }
    free(x);
    free(dy);
}

Test(norm, shards_have_the_same_bits_for_any_number_of_threads) {
    real *x = random_reals(COUNT, 1), *dy = random_reals(COUNT, 2);
    struct lone_norm one = bn_with(4, B), three = bn_with(4, B);
    three.threads = 3;
    expect_same(&one, &three, x, dy);
    lone_norm_free(&one);
    lone_norm_free(&three);
    free(x);
    free(dy);
}

Test(norm, shards_do_not_matter_in_evaluation) {
    real *x = random_reals(COUNT, 1), *dy = random_reals(COUNT, 2);
    struct lone_norm parts = bn_with(4, B), whole = bn_with(1, B);
    parts.tokens.training = whole.tokens.training = false;
    for (size_t c = 0; c < C; c++) parts.norm.state[0][c] = whole.norm.state[0][c] = (real)c;
    real y[COUNT], z[COUNT];
    lone_norm_forward(&parts, y, x);
    lone_norm_forward(&whole, z, x);
    expect_close("y", COUNT, y, z, theory_tolerance());
    lone_norm_free(&parts);
    lone_norm_free(&whole);
    free(x);
    free(dy);
}
