/* Norms with statistics over tokens: running statistics, positions, pads. bn with
   --bn-shards: each part of the batch is normalized as a batch of its own. */
#include "tests/model/theory.h"
#include "tests/support.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

Test(norm, batch_variance_survives_a_large_offset) {
    const real offset =
        (real)(in_double() ? 1e10 : 1e4); // where sum(x^2) - N mean^2 has lost all digits
    real *x = random_reals(COUNT, 1), y[COUNT], moved[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        moved[i] = x[i] + offset; // rounded here
        x[i] = moved[i] - offset; // so that both are the same numbers
    }
    struct lone_norm a = theory_apply("bn", y, x), b = theory_apply("bn", y, moved);
    const real *rstd = a.norm.saved + C, *moved_rstd = b.norm.saved + C;
    expect_close("rstd", C, moved_rstd, rstd, in_double() ? 1e-9 : 1e-5);
}

Test(norm, instance_running_statistics_are_means_over_sequences) {
    real *x = random_reals(COUNT, 1), y[COUNT], dx[COUNT], dy[COUNT];
    const size_t length[B] = {7, 3, 1, 0, 2, 7,
                              5, 7, 1, 4}; // valid tokens of each sequence, at different positions
    unsigned char valid[N];
    for (size_t n = 0; n < N; n++) valid[n] = (n % T + n / T) % T < length[n / T];
    struct lone_norm in = lone_norm(norm_find("in"), B, T, C);
    in.tokens.valid = valid;
    for (size_t i = 0; i < COUNT; i++) dy[i] = (real)(i % 5);
    for (size_t i = 0; i < COUNT; i++) x[i] += 3;
    for (size_t c = 0; c < C; c++) in.norm.param[1].value[c] = (real)c;
    lone_norm_forward(&in, y, x);
    lone_norm_backward(&in, dx, dy, x);
    for (size_t c = 0; c < C; c++) {
        double means = 0, vars = 0, with_mean = 0, with_var = 0;
        for (size_t b = 0; b < B; b++) {
            double sum = 0, squares = 0, l = (double)length[b];
            for (size_t n = b * T; n < (b + 1) * T; n++) sum += valid[n] ? (double)x[n * C + c] : 0;
            for (size_t n = b * T; n < (b + 1) * T; n++)
                squares += valid[n] ? pow((double)x[n * C + c] - sum / l, 2) : 0;
            if (l > 0) means += sum / l, with_mean++;
            if (l > 1) vars += squares / (l - 1), with_var++;
            for (size_t n = b * T; n < (b + 1) * T; n++)
                if (l < 2 || !valid[n]) // the only valid token, or a pad
                    cr_expect(y[n * C + c] == (valid[n] ? (real)c : 0) && dx[n * C + c] == 0);
        }
        cr_assert(with_mean == 9 && with_var == 7);
        cr_expect_float_eq((double)in.norm.state[0][c], 0.1 * means / with_mean, 1e-6);
        cr_expect_float_eq((double)in.norm.state[1][c], 0.9 + 0.1 * vars / with_var, 1e-6);
    }
    cr_expect(*in.norm.batches == 1);
}

Test(norm, power_running_mean_square_moves_by_alpha) {
    real *x = random_reals(COUNT, 1), y[COUNT];
    struct lone_norm power = theory_apply("pn-v", y, x);
    for (size_t c = 0; c < C; c++) {
        double mean, square;
        theory_moments(x + c, N, C, &mean, &square);
        cr_expect(fabs((double)power.norm.state[0][c] - (0.9 + 0.1 * square)) < 1e-6);
    }
}

/* Pads do not count and get no gradient, nor does a token that is the only valid one at its
   position. */
Test(norm, batch_by_position_counts_valid_tokens) {
    struct norm_options options = small_norms;
    norms_set(&options, "bn-axis", BN_AXIS_BATCH);
    real *x = random_reals(COUNT, 1), *dy = random_reals(COUNT, 2), y[COUNT], dx[COUNT];
    const size_t valid_at[T] = {B, 4, 1, 0, 2, 5, 1};
    unsigned char valid[N];
    for (size_t n = 0; n < N; n++) valid[n] = (n / T + n % T) % B < valid_at[n % T];
    struct lone_norm bn = lone_norm_with(norm_find("bn"), &options, B, T, C);
    bn.tokens.valid = valid;
    for (size_t c = 0; c < C; c++) bn.norm.param[1].value[c] = (real)c;
    lone_norm_forward(&bn, y, x);
    lone_norm_backward(&bn, dx, dy, x);
    for (size_t t = 0; t < T; t++)
        for (size_t c = 0; c < C; c++) {
            double sum = 0, squares = 0, l = 0;
            for (size_t n = t; n < N; n += T)
                if (valid[n]) sum += (double)x[n * C + c], l++;
            for (size_t n = t; n < N; n += T) {
                if (valid[n]) squares += pow((double)x[n * C + c] - sum / l, 2);
                if (l < 2 || !valid[n])
                    cr_expect(y[n * C + c] == (valid[n] ? (real)c : 0) && dx[n * C + c] == 0);
            }
            cr_assert(l == (double)valid_at[t]);
            cr_expect_float_eq((double)bn.norm.state[0][t * C + c], l > 0 ? 0.1 * sum / l : 0,
                               1e-6);
            cr_expect_float_eq((double)bn.norm.state[1][t * C + c],
                               l > 1 ? 0.9 + 0.1 * squares / (l - 1) : 1, 1e-6);
        }
    cr_expect(*bn.norm.batches == 1);
}

/* Norms that pool over all tokens of the batch. */
static const char *const pooling[] = {"bn", "brn", "pn-v", "pn", "prepbn"};
enum { POOLING = sizeof pooling / sizeof *pooling };

static void expect_valid_tokens_counted(const char *name) {
    real *x = random_reals(COUNT, 1), *y = random_reals(COUNT, 2);
    real *few = random_reals(COUNT, 3), *z = random_reals(COUNT, 4);
    unsigned char valid[N];
    size_t count = 0;
    for (size_t n = 0; n < N; n++) { // none in the first row block, not all in the others
        valid[n] = n >= ROWS + 3 && n % 5 != 1;
        if (valid[n]) memcpy(few + count++ * C, x + n * C, C * sizeof(real));
    }
    struct lone_norm padded, compact;
    padded = lone_norm(norm_find(name), B, T, C);
    compact = lone_norm(norm_find(name), 1, count, C);
    padded.tokens.valid = valid;
    lone_norm_forward(&padded, y, x);
    lone_norm_forward(&compact, z, few);
    cr_assert(count > 20 && count < ROWS);
    expect_close("running", padded.lists.state.size, padded.lists.state.value,
                 compact.lists.state.value, theory_tolerance() / 10);
    for (size_t n = 0, k = 0; n < N; n++)
        if (valid[n]) expect_close("y", C, y + n * C, z + k++ * C, theory_tolerance());
}

Test(norm, pools_count_valid_tokens_wherever_they_are) {
    for (int i = 0; i < POOLING; i++) expect_valid_tokens_counted(pooling[i]);
}

static struct lone_norm bn_with(int shards, size_t sequences) {
    struct norm_options options = small_norms;
    norms_set(&options, "bn-shards", shards);
    struct lone_norm lone = lone_norm_with(norm_find("bn"), &options, sequences, T, C);
    for (size_t c = 0; c < C; c++) {
        lone.norm.param[0].value[c] = (real)(1 + 0.1 * (double)c);
        lone.norm.param[1].value[c] = (real)(0.3 * (double)c - 1);
    }
    return lone;
}

/* y, dx and the gradients are those of bn over each part, whose sizes differ by one at most; the
   running statistics move by the mean over the parts. */
static void expect_parts(int shards, int parts, const size_t *first) {
    real *x = random_reals(COUNT, 1), *dy = random_reals(COUNT, 2);
    real y[COUNT], dx[COUNT], z[COUNT], dz[COUNT], running[2 * C] = {0}, grads[2 * C] = {0};
    for (size_t i = 0; i < COUNT; i++) x[i] += (real)(i / (T * C)); // sequences differ
    struct lone_norm whole = bn_with(shards, B);
    lone_norm_forward(&whole, y, x);
    lone_norm_backward(&whole, dx, dy, x);
    for (int i = 0; i < parts; i++) {
        size_t at = first[i] * T * C;
        struct lone_norm part = bn_with(1, first[i + 1] - first[i]);
        lone_norm_forward(&part, z + at, x + at);
        lone_norm_backward(&part, dz + at, dy + at, x + at);
        for (size_t k = 0; k < 2 * C; k++) {
            running[k] += part.norm.state[k / C][k % C] / (real)parts;
            grads[k] += part.norm.param[k / C].grad[k % C];
        }
    }
    expect_close("y", COUNT, y, z, theory_tolerance());
    expect_close("dx", COUNT, dx, dz, 10 * theory_tolerance());
    for (size_t i = 0; i < 2; i++) {
        expect_close("running", C, whole.norm.state[i], running + i * C, theory_tolerance());
        expect_close("gradient", C, whole.norm.param[i].grad, grads + i * C,
                     10 * theory_tolerance());
    }
    cr_expect(*whole.norm.batches == 1);
}

Test(norm, shards_are_batches_of_their_own) {
    static const size_t each[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    expect_parts(2, 2, (size_t[]){0, 5, 10});
    expect_parts(5, 5, (size_t[]){0, 2, 4, 6, 8, 10});
    expect_parts(4, 4, (size_t[]){0, 3, 5, 8, 10}); // sequence b is in part floor(b 4 / 10)
    expect_parts(B, B, each);
    expect_parts(B + 3, B, each); // no more than sequences
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

Test(norm, shards_have_the_same_bits_for_any_number_of_threads) {
    real *x = random_reals(COUNT, 1), *dy = random_reals(COUNT, 2);
    struct lone_norm one = bn_with(4, B), three = bn_with(4, B);
    three.threads = 3;
    expect_same(&one, &three, x, dy);
}

Test(norm, shards_do_not_matter_in_evaluation) {
    real *x = random_reals(COUNT, 1);
    struct lone_norm parts = bn_with(4, B), whole = bn_with(1, B);
    parts.tokens.training = whole.tokens.training = false;
    for (size_t c = 0; c < C; c++) parts.norm.state[0][c] = whole.norm.state[0][c] = (real)c;
    real y[COUNT], z[COUNT];
    lone_norm_forward(&parts, y, x);
    lone_norm_forward(&whole, z, x);
    expect_close("y", COUNT, y, z, theory_tolerance());
}
