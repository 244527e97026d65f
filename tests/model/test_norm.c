/* What the theory of each norm promises, on its own. The tests that hold for every kind iterate the
   table. */
#include "data/random.h"
#include "tests/support.h"
#include <criterion/parameterized.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { B = 10, T = 7, N = B * T, C = 19, COUNT = N * C }; // three blocks of ROWS tokens

static double tolerance(void) {
    return in_double() ? 1e-12 : 2e-5;
}

/* y = norm(x) of a fresh norm of this name with hardly an epsilon, which would blur what theory
   says; returns it for what comes next. */
static struct lone_norm apply(const char *name, real *y, const real *x) {
    struct lone_norm lone;
    struct norm_options options = small_norms;
    norms_set(&options, "norm-eps", 1e-20);
    lone_norm_init_with(&lone, norm_find(name), &options, B, T, C);
    lone_norm_forward(&lone, y, x);
    return lone;
}

static void expect_unchanged(const char *name, const char *how, const real *x, const real *moved) {
    real y[COUNT], z[COUNT];
    struct lone_norm a = apply(name, y, x), b = apply(name, z, moved);
    expect_close(how, COUNT, z, y, 10 * tolerance());
    lone_norm_free(&a);
    lone_norm_free(&b);
}

Test(norm, layer_ignores_shift_and_scale_of_a_token) {
    real *x = random_reals(COUNT, 1), moved[COUNT];
    for (size_t i = 0; i < COUNT; i++) moved[i] = (x[i] - 3) * (real)(100 + i / C) + (real)(i / C);
    for (size_t i = 0; i < COUNT; i++) x[i] *= 100; // so that eps does not matter
    expect_unchanged("ln", "shifted and scaled", x, moved);
    free(x);
}

Test(norm, rms_ignores_scale_but_not_shift) {
    real *x = random_reals(COUNT, 1), moved[COUNT], y[COUNT], z[COUNT];
    for (size_t i = 0; i < COUNT; i++) x[i] *= 100;
    for (size_t i = 0; i < COUNT; i++) moved[i] = x[i] * (real)(2 + i / C);
    expect_unchanged("rms", "scaled", x, moved);
    for (size_t i = 0; i < COUNT; i++) moved[i] = x[i] + 50;
    struct lone_norm a = apply("rms", y, x), b = apply("rms", z, moved);
    cr_expect(difference(COUNT, y, z) > 0.1);
    lone_norm_free(&a);
    lone_norm_free(&b);
    free(x);
}

Test(norm, instance_ignores_shift_and_scale_of_a_channel_of_a_sequence) {
    real *x = random_reals(COUNT, 1), moved[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        size_t line = i / (T * C) * C + i % C;
        moved[i] = x[i] * (real)(100 + line) + (real)(3 * line);
    }
    for (size_t i = 0; i < COUNT; i++) x[i] *= 100;
    expect_unchanged("in", "shifted and scaled", x, moved);
    free(x);
}

Test(norm, batch_ignores_shift_and_scale_of_a_channel) {
    real *x = random_reals(COUNT, 1), moved[COUNT];
    for (size_t i = 0; i < COUNT; i++) moved[i] = x[i] * (real)(100 + i % C) + (real)(3 * (i % C));
    for (size_t i = 0; i < COUNT; i++) x[i] *= 100;
    expect_unchanged("bn", "shifted and scaled", x, moved);
    free(x);
}

Test(norm, power_ignores_scale_of_a_channel_but_not_shift) {
    real *x = random_reals(COUNT, 1), moved[COUNT], y[COUNT], z[COUNT];
    for (size_t i = 0; i < COUNT; i++) moved[i] = x[i] * (real)(2 + i % C);
    expect_unchanged("pn-v", "scaled", x, moved);
    for (size_t i = 0; i < COUNT; i++) moved[i] = x[i] + 50;
    struct lone_norm a = apply("pn-v", y, x), b = apply("pn-v", z, moved);
    cr_expect(difference(COUNT, y, z) > 0.1);
    lone_norm_free(&a);
    lone_norm_free(&b);
    free(x);
}

/* Moments of y along channels (step 1) or tokens (step C). */
static void moments(const real *y, size_t count, size_t step, double *mean, double *square) {
    *mean = *square = 0;
    for (size_t i = 0; i < count; i++) {
        *mean += (double)y[i * step] / (double)count;
        *square += (double)y[i * step] * (double)y[i * step] / (double)count;
    }
}

Test(norm, outputs_have_the_promised_moments) {
    real *x = random_reals(COUNT, 1), y[COUNT];
    double mean, square;
    for (size_t i = 0; i < COUNT; i++) x[i] = 5 + 3 * x[i];
    struct lone_norm ln = apply("ln", y, x);
    for (size_t n = 0; n < N; n++) {
        moments(y + n * C, C, 1, &mean, &square);
        cr_expect(fabs(mean) < 1e-5 && fabs(square - 1) < 1e-4, "ln: %g %g", mean, square);
    }
    struct lone_norm rms = apply("rms", y, x);
    for (size_t n = 0; n < N; n++) {
        moments(y + n * C, C, 1, &mean, &square);
        cr_expect(mean > 0.5 && fabs(square - 1) < 1e-4, "rms: %g %g", mean, square);
    }
    struct lone_norm bn = apply("bn", y, x);
    for (size_t c = 0; c < C; c++) {
        moments(y + c, N, C, &mean, &square);
        cr_expect(fabs(mean) < 1e-5 && fabs(square - 1) < 1e-4, "bn: %g %g", mean, square);
    }
    struct lone_norm power = apply("pn-v", y, x);
    for (size_t c = 0; c < C; c++) {
        moments(y + c, N, C, &mean, &square);
        cr_expect(mean > 0.5 && fabs(square - 1) < 1e-4, "pn-v: %g %g", mean, square);
    }
    lone_norm_free(&ln);
    lone_norm_free(&rms);
    lone_norm_free(&bn);
    lone_norm_free(&power);
    free(x);
}

/* dx of a norm whose output moves only across certain directions has no part along them. With gamma
   1 and eps away, ln: 1 and xhat over the channels; rms: xhat; bn: 1 and xhat over the tokens. */
static void expect_orthogonal(const char *name, bool over_tokens, bool to_one) {
    real *x = random_reals(COUNT, 1), *dy = random_reals(COUNT, 2), y[COUNT], dx[COUNT];
    for (size_t i = 0; i < COUNT; i++) x[i] = 100 * x[i] + 30;
    struct lone_norm lone = apply(name, y, x);
    lone_norm_backward(&lone, dx, dy, x);
    size_t lines = over_tokens ? C : N, length = over_tokens ? N : C, step = over_tokens ? C : 1;
    for (size_t l = 0; l < lines; l++) {
        size_t first = over_tokens ? l : l * C;
        double one = 0, along = 0, size = 0;
        for (size_t i = 0; i < length; i++) {
            double d = (double)dx[first + i * step];
            one += d;
            along += d * (double)y[first + i * step];
            size += fabs(d);
        }
        cr_expect(size > 0 && fabs(along) < tolerance() * size, "%s: xhat dx = %g", name, along);
        if (to_one) cr_expect(fabs(one) < tolerance() * size, "%s: sum dx = %g", name, one);
    }
    lone_norm_free(&lone);
    free(x);
    free(dy);
}

Test(norm, dx_has_no_part_along_what_the_norm_removes) {
    expect_orthogonal("ln", false, true);
    expect_orthogonal("rms", false, false);
    expect_orthogonal("scale", false, false);
    expect_orthogonal("bn", true, true);
    expect_orthogonal("pn-v", true, false);
}

/* dyt and derf look at no other number: y of one alone is y of it among others, and within gamma of
   beta however large x is. At x near 0 the slope is alpha (2 / sqrt(pi) alpha for derf). */
static void expect_pointwise(const char *name, double slope) {
    real *x = random_reals(COUNT, 1), y[COUNT], z[COUNT];
    x[7] = (real)1e30, x[8] = (real)-1e30, x[9] = (real)1e-6, x[10] = 0;
    struct lone_norm a = apply(name, y, x);
    cr_expect(y[7] == 1 && y[8] == -1 && y[10] == 0, "%s: %g %g", name, y[7], y[8]);
    cr_expect(fabs((double)y[9] / 1e-6 / slope - 1) < 1e-6, "%s: slope %g", name, y[9] / 1e-6);
    for (size_t i = 0; i < COUNT; i++) x[i] = i % 2 ? -x[i] : 100;
    struct lone_norm b = apply(name, z, x);
    for (size_t i = 1; i < COUNT; i += 2)
        cr_expect(fabs((double)(z[i] + y[i])) < tolerance(), "%s is odd at first", name);
    real dy[COUNT], dx[COUNT];
    for (size_t i = 0; i < COUNT; i++) dy[i] = 1;
    lone_norm_backward(&b, dx, dy, x);
    cr_expect(dx[8] == 0, "%s: saturated, dx = %g", name, dx[8]);
    cr_expect(fabs((double)dx[9] / slope - 1) < 1e-6, "%s: dx = %g", name, dx[9]);
    lone_norm_free(&a);
    lone_norm_free(&b);
    free(x);
}

Test(norm, dyt_squashes_each_number_alone) {
    expect_pointwise("dyt", 0.5);
}

Test(norm, derf_squashes_each_number_alone) {
    expect_pointwise("derf", 1 / sqrt(M_PI));
}

/* Whatever its length was, a token gets that of sqrt(C), unless it is shorter than eps, below which
   the norm is linear; y and dx are orthogonal, and rms is the same but for its epsilon. */
Test(norm, scale_gives_every_token_one_length) {
    real *x = random_reals(COUNT, 1), *dy = random_reals(COUNT, 2), moved[COUNT], y[COUNT];
    real z[COUNT], dx[COUNT];
    for (size_t i = 0; i < COUNT; i++) moved[i] = x[i] * (real)(2 + i / C);
    expect_unchanged("scale", "scaled", x, moved);
    struct lone_norm scale = apply("scale", y, x), rms = apply("rms", z, x);
    expect_close("rms", COUNT, y, z, tolerance());
    lone_norm_free(&scale);
    lone_norm_free(&rms);
    lone_norm_init(&scale, norm_find("scale"), B, T, C);
    for (size_t c = 0; c < C; c++) x[c] *= (real)1e-8, x[C + c] = 0;
    lone_norm_forward(&scale, y, x);
    lone_norm_backward(&scale, dx, dy, x);
    const real linear = (real)(sqrt(C) / 1e-5); // g / eps
    for (size_t c = 0; c < C; c++) {
        moved[c] = linear * x[c];
        moved[C + c] = linear * dy[C + c];
        cr_expect(y[C + c] == 0);
    }
    expect_close("short: y", C, y, moved, tolerance());
    expect_close("zero: dx", C, dx + C, moved + C, tolerance());
    for (size_t n = 2; n < N; n++) {
        double mean, square;
        moments(y + n * C, C, 1, &mean, &square);
        cr_expect(fabs(square - 1) < 1e-5, "mean square %g", square);
    }
    lone_norm_free(&scale);
    free(x);
    free(dy);
}

/* In each group of a token's channels gn is ln. */
Test(norm, group_is_layer_within_each_group) {
    enum { GROUPS = 2, WIDTH = 2 * C };
    real *x = random_reals(2 * COUNT, 1), *dy = random_reals(2 * COUNT, 2), *parts[2];
    real y[2 * COUNT], dx[2 * COUNT], z[2 * COUNT], dz[2 * COUNT];
    struct lone_norm gn, ln;
    lone_norm_init(&gn, norm_find("gn"), B, T, WIDTH);
    cr_assert_eq(norm_get(&gn.norm, "norm-groups"), GROUPS);
    for (int i = 0; i < 2; i++) { // each group a token of its own: (B,T,GROUPS C) is (B,GROUPS T,C)
        parts[i] = random_reals(2 * C, 3 + i);
        memcpy(gn.norm.param[i].value, parts[i], 2 * C * sizeof(real));
    }
    lone_norm_forward(&gn, y, x);
    lone_norm_backward(&gn, dx, dy, x);
    lone_norm_init(&ln, norm_find("ln"), B, GROUPS * T, C);
    for (size_t i = 0; i < 2 * COUNT; i++) dz[i] = dy[i] * parts[0][i % WIDTH];
    lone_norm_forward(&ln, z, x);
    for (size_t i = 0; i < 2 * COUNT; i++) z[i] = z[i] * parts[0][i % WIDTH] + parts[1][i % WIDTH];
    expect_close("y", 2 * COUNT, y, z, tolerance());
    lone_norm_backward(&ln, z, dz, x);
    expect_close("dx", 2 * COUNT, dx, z, tolerance());
    lone_norm_free(&gn);
    lone_norm_free(&ln);
    free(x);
    free(dy);
    free(parts[0]);
    free(parts[1]);
}

Test(norm, batch_variance_survives_a_large_offset) {
    const real offset =
        (real)(in_double() ? 1e10 : 1e4); // where sum(x^2) - N mean^2 has no digit left
    real *x = random_reals(COUNT, 1), y[COUNT], moved[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        moved[i] = x[i] + offset; // rounded here,
        x[i] = moved[i] - offset; // so that both are the same numbers
    }
    struct lone_norm a = apply("bn", y, x), b = apply("bn", y, moved);
    const real *rstd = a.norm.saved + C, *moved_rstd = b.norm.saved + C;
    expect_close("rstd", C, moved_rstd, rstd, in_double() ? 1e-9 : 1e-5);
    lone_norm_free(&a);
    lone_norm_free(&b);
    free(x);
}

Test(norm, batch_running_statistics_move_by_momentum_with_unbiased_variance) {
    real *x = random_reals(COUNT, 1), y[COUNT];
    struct lone_norm bn = apply("bn", y, x);
    for (size_t c = 0; c < C; c++) {
        double mean, square;
        moments(x + c, N, C, &mean, &square);
        double unbiased = (square - mean * mean) * N / (N - 1);
        cr_expect(fabs((double)bn.norm.state[0][c] - 0.1 * mean) < 1e-6);
        cr_expect(fabs((double)bn.norm.state[1][c] - (0.9 + 0.1 * unbiased)) < 1e-6);
    }
    cr_expect(*bn.norm.batches == 1);
    lone_norm_free(&bn);
    free(x);
}

Test(norm, instance_running_statistics_are_means_over_sequences) {
    real *x = random_reals(COUNT, 1), y[COUNT], dx[COUNT], dy[COUNT];
    const size_t length[B] = {7, 3, 1, 0, 2, 7, 5, 7, 1, 4}; // valid tokens, in places of their own
    unsigned char valid[N];
    for (size_t n = 0; n < N; n++) valid[n] = (n % T + n / T) % T < length[n / T];
    struct lone_norm in;
    lone_norm_init(&in, norm_find("in"), B, T, C);
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
                if (l < 2 || !valid[n]) // alone, or a pad
                    cr_expect(y[n * C + c] == (real)c && dx[n * C + c] == 0);
        }
        cr_assert(with_mean == 9 && with_var == 7);
        cr_expect_float_eq((double)in.norm.state[0][c], 0.1 * means / with_mean, 1e-6);
        cr_expect_float_eq((double)in.norm.state[1][c], 0.9 + 0.1 * vars / with_var, 1e-6);
    }
    cr_expect(*in.norm.batches == 1);
    lone_norm_free(&in);
    free(x);
}

/* A sequence's tokens are normalized as if it were the whole batch, in which bn would see them. */
Test(norm, instance_is_batch_of_one_sequence) {
    real *x = random_reals(COUNT, 1), *dy = random_reals(COUNT, 2);
    real y[COUNT], dx[COUNT], z[T * C], dz[T * C];
    struct lone_norm in = apply("in", y, x), bn;
    lone_norm_backward(&in, dx, dy, x);
    for (size_t b = 0, at = 0; b < B; b++, at += T * C) {
        lone_norm_init(&bn, norm_find("bn"), 1, T, C);
        norm_set(&bn.norm, "norm-eps", 1e-20);
        lone_norm_forward(&bn, z, x + at);
        lone_norm_backward(&bn, dz, dy + at, x + at);
        expect_close("y", T * C, y + at, z, tolerance());
        expect_close("dx", T * C, dx + at, dz, tolerance());
        lone_norm_free(&bn);
    }
    lone_norm_free(&in);
    free(x);
    free(dy);
}

Test(norm, power_running_mean_square_moves_by_alpha) {
    real *x = random_reals(COUNT, 1), y[COUNT];
    struct lone_norm power = apply("pn-v", y, x);
    for (size_t c = 0; c < C; c++) {
        double mean, square;
        moments(x + c, N, C, &mean, &square);
        cr_expect(fabs((double)power.norm.state[0][c] - (0.9 + 0.1 * square)) < 1e-6);
    }
    lone_norm_free(&power);
    free(x);
}

/* lambda falls from 1 to 0 in prepbn_steps batches; then and in evaluation bn + eta x is left. */
Test(norm, prep_turns_from_layer_to_batch) {
    real *x = random_reals(COUNT, 1), y[COUNT], ln[COUNT], bn[COUNT], want[COUNT];
    struct lone_norm a = apply("ln", ln, x), b = apply("bn", bn, x), prep = apply("prepbn", y, x);
    expect_close("the first batch", COUNT, y, ln, tolerance());
    for (int k = 1; k <= 6; k++) {
        real lambda = k < 4 ? 1 - (real)k / 4 : 0;
        lone_norm_forward(&prep, y, x);
        lone_norm_forward(&b, bn, x);
        for (size_t i = 0; i < COUNT; i++)
            want[i] = lambda * ln[i] + (1 - lambda) * (bn[i] + (real)0.5 * x[i]);
        expect_close("a mixture", COUNT, y, want, tolerance());
    }
    b.tokens.training = prep.tokens.training = false;
    lone_norm_forward(&prep, y, x);
    lone_norm_forward(&b, bn, x);
    for (size_t i = 0; i < COUNT; i++) want[i] = bn[i] + (real)0.5 * x[i];
    expect_close("evaluation", COUNT, y, want, tolerance());
    lone_norm_free(&a);
    lone_norm_free(&b);
    lone_norm_free(&prep);
    free(x);
}

/* Each position is a norm of its own, over the batch alone. */
Test(norm, batch_by_position_is_a_norm_for_each_position) {
    struct norm_options options = small_norms;
    norms_set(&options, "bn-axis", BN_AXIS_BATCH);
    real *x = random_reals(COUNT, 1), *dy = random_reals(COUNT, 2), y[COUNT], dx[COUNT];
    struct lone_norm whole;
    lone_norm_init_with(&whole, norm_find("bn"), &options, B, T, C);
    lone_norm_forward(&whole, y, x);
    lone_norm_backward(&whole, dx, dy, x);
    for (size_t t = 0; t < T; t++) {
        real at[B * C], d_at[B * C], one[B * C], d_one[B * C], want[B * C], d_want[B * C];
        for (size_t b = 0; b < B; b++) {
            memcpy(at + b * C, x + (b * T + t) * C, C * sizeof(real));
            memcpy(d_at + b * C, dy + (b * T + t) * C, C * sizeof(real));
            memcpy(one + b * C, y + (b * T + t) * C, C * sizeof(real));
            memcpy(d_one + b * C, dx + (b * T + t) * C, C * sizeof(real));
        }
        struct lone_norm bn;
        lone_norm_init(&bn, norm_find("bn"), B, 1, C);
        lone_norm_forward(&bn, want, at);
        lone_norm_backward(&bn, d_want, d_at, at);
        expect_close("y", B * C, one, want, tolerance());
        expect_close("dx", B * C, d_one, d_want, 10 * tolerance());
        for (int i = 0; i < 2; i++)
            expect_close("running", C, whole.norm.state[i] + t * C, bn.norm.state[i], tolerance());
        lone_norm_free(&bn);
    }
    lone_norm_free(&whole);
    free(x);
    free(dy);
}

/* Pads take no part and get nothing, nor does a token that has its position for itself. */
Test(norm, batch_by_position_counts_valid_tokens) {
    struct norm_options options = small_norms;
    norms_set(&options, "bn-axis", BN_AXIS_BATCH);
    real *x = random_reals(COUNT, 1), *dy = random_reals(COUNT, 2), y[COUNT], dx[COUNT];
    const size_t valid_at[T] = {B, 4, 1, 0, 2, 5, 1};
    unsigned char valid[N];
    for (size_t n = 0; n < N; n++) valid[n] = (n / T + n % T) % B < valid_at[n % T];
    struct lone_norm bn;
    lone_norm_init_with(&bn, norm_find("bn"), &options, B, T, C);
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
                if (l < 2 || !valid[n]) cr_expect(y[n * C + c] == (real)c && dx[n * C + c] == 0);
            }
            cr_assert(l == (double)valid_at[t]);
            cr_expect_float_eq((double)bn.norm.state[0][t * C + c], l > 0 ? 0.1 * sum / l : 0,
                               1e-6);
            cr_expect_float_eq((double)bn.norm.state[1][t * C + c],
                               l > 1 ? 0.9 + 0.1 * squares / (l - 1) : 1, 1e-6);
        }
    cr_expect(*bn.norm.batches == 1);
    lone_norm_free(&bn);
    free(x);
    free(dy);
}

/* Those that pool over all tokens of the batch. */
static const char *const pooling[] = {"bn", "pn-v", "pn", "prepbn"};
enum { POOLING = sizeof pooling / sizeof *pooling };

static void expect_no_pads_in_statistics(const char *name) {
    real *x = random_reals(COUNT, 1), y[COUNT], z[COUNT];
    unsigned char valid[N];
    for (size_t n = 0; n < N; n++) valid[n] = n % T < 4;
    struct lone_norm a, b;
    lone_norm_init(&a, norm_find(name), B, T, C);
    lone_norm_init(&b, norm_find(name), B, T, C);
    a.tokens.valid = b.tokens.valid = valid;
    lone_norm_forward(&a, y, x);
    for (size_t n = 0; n < N; n++) // other pads,
        for (size_t c = 0; c < C; c++)
            if (!valid[n]) x[n * C + c] = 1000;
    lone_norm_forward(&b, z, x);
    for (size_t n = 0; n < N; n++) // the same tokens
        if (valid[n]) cr_expect(difference(C, y + n * C, z + n * C) == 0, "%s", name);
    size_t states = a.lists.state.size;
    cr_expect(states > 0 && difference(states, a.lists.state.value, b.lists.state.value) == 0);
    lone_norm_free(&a);
    lone_norm_free(&b);
    free(x);
}

Test(norm, pools_leave_pads_out_of_their_statistics) {
    for (int i = 0; i < POOLING; i++) expect_no_pads_in_statistics(pooling[i]);
}

static void expect_valid_tokens_counted(const char *name) {
    real *x = random_reals(COUNT, 1), *y = random_reals(COUNT, 2);
    real *few = random_reals(COUNT, 3), *z = random_reals(COUNT, 4);
    unsigned char valid[N];
    size_t count = 0;
    for (size_t n = 0; n < N; n++) { // none in the first block, not all in the others
        valid[n] = n >= ROWS + 3 && n % 5 != 1;
        if (valid[n]) memcpy(few + count++ * C, x + n * C, C * sizeof(real));
    }
    struct lone_norm padded, compact;
    lone_norm_init(&padded, norm_find(name), B, T, C);
    lone_norm_init(&compact, norm_find(name), 1, count, C);
    padded.tokens.valid = valid;
    lone_norm_forward(&padded, y, x);
    lone_norm_forward(&compact, z, few);
    cr_assert(count > 20 && count < ROWS);
    expect_close("running", padded.lists.state.size, padded.lists.state.value,
                 compact.lists.state.value, tolerance() / 10);
    for (size_t n = 0, k = 0; n < N; n++)
        if (valid[n]) expect_close("y", C, y + n * C, z + k++ * C, tolerance());
    lone_norm_free(&padded);
    lone_norm_free(&compact);
    free(x);
    free(y);
    free(few);
    free(z);
}

Test(norm, pools_count_valid_tokens_wherever_they_are) {
    for (int i = 0; i < POOLING; i++) expect_valid_tokens_counted(pooling[i]);
}

Test(norm, batch_in_evaluation_treats_each_token_alone) {
    real *x = random_reals(COUNT, 1), y[COUNT], z[COUNT];
    struct lone_norm bn = apply("bn", y, x);
    real before = bn.norm.state[0][3];
    bn.tokens.training = false;
    lone_norm_forward(&bn, y, x);
    for (size_t c = 0; c < C; c++) x[c] = 77; // another first token
    lone_norm_forward(&bn, z, x);
    cr_expect(difference(C, y, z) > 1);
    cr_expect(difference(COUNT - C, y + C, z + C) == 0);
    cr_expect(bn.norm.state[0][3] == before && *bn.norm.batches == 1);
    lone_norm_free(&bn);
    free(x);
}

Test(norm, extreme_tokens_stay_finite) {
    real x[COUNT] = {0}, y[COUNT];
    for (size_t c = 0; c < C; c++) x[C + c] = 5; // a constant token among zeros
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++) {
        if (!(*kind)->forward) continue;
        struct lone_norm lone;
        lone_norm_init(&lone, *kind, B, T, C);
        lone_norm_forward(&lone, y, x);
        for (size_t i = 0; i < COUNT; i++) cr_expect(isfinite(y[i]), "%s", (*kind)->name);
        lone_norm_free(&lone);
    }
}

Test(norm, none_passes_its_input_by) {
    real x[COUNT] = {0}, y[COUNT];
    struct lone_norm lone;
    lone_norm_init(&lone, norm_find("none"), B, T, C);
    struct range all = {0, N};
    cr_expect_eq(norm_forward(&lone.norm, &lone.tokens, all, y, x), x);
    cr_expect_eq(norm_backward(&lone.norm, &lone.tokens, all, y, x, x), x);
    lone_norm_free(&lone);
}

/* What a norm of a kind makes of `tokens` tokens by so many threads: y, dx, its gradient, its
 * state.
 */
enum { WIDE = 134 }; // channels for every thread, in two odd groups
struct made {
    real *y, *dx, *grad, *state;
    size_t count, grads, states;
};

static struct made make(const struct norm_kind *kind, int threads, size_t tokens,
                        const unsigned char *valid, bool training) {
    struct lone_norm lone;
    size_t length = tokens % 10 ? tokens : 10; // of a sequence
    lone_norm_init(&lone, kind, tokens / length, length, WIDE);
    lone.threads = threads;
    lone.tokens.valid = valid;
    size_t count = tokens * WIDE;
    struct made made = {random_reals(count, 3), random_reals(count, 4), NULL, NULL, count,
                        lone.lists.param.size,  lone.lists.state.size};
    real *x = random_reals(count, 1), *dy = random_reals(count, 2);
    for (size_t i = 0; i < made.grads; i++) lone.lists.param.value[i] += (real)0.01 * (real)(i % 7);
    lone_norm_forward(&lone, made.y, x);
    lone.tokens.training = training;
    lone_norm_forward(&lone, made.y, x);
    lone_norm_backward(&lone, made.dx, dy, x);
    made.grad = malloc((made.grads + 1) * sizeof(real));
    made.state = malloc((made.states + 1) * sizeof(real));
    memcpy(made.grad, lone.lists.param.grad, made.grads * sizeof(real));
    memcpy(made.state, lone.lists.state.value, made.states * sizeof(real));
    lone_norm_free(&lone);
    free(x);
    free(dy);
    return made;
}

static void made_free(struct made made) {
    free(made.y);
    free(made.dx);
    free(made.grad);
    free(made.state);
}

ParameterizedTestParameters(norm, same_bits_for_any_number_of_threads) {
    return every_norm();
}

ParameterizedTest(struct pair *pair, norm, same_bits_for_any_number_of_threads) {
    const struct norm_kind *kind = norm_kinds[pair->norm];
    const size_t tokens[] = {1, 21, 64, 70, 100, 300}; // 300: more blocks than threads
    unsigned char valid[300];
    for (size_t n = 0; n < sizeof valid; n++) valid[n] = n % 11 > 3 && n / ROWS != 1;
    int compared = 0;
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        for (int way = 0; way < 4; way++) {
            const unsigned char *pads = way & 1 ? valid : NULL;
            struct made one = make(kind, 1, tokens[i], pads, way < 2);
            for (int threads = 2; threads <= 8; threads++, compared++) {
                struct made many = make(kind, threads, tokens[i], pads, way < 2);
                cr_expect(difference(one.count, one.y, many.y) == 0, "%d threads", threads);
                cr_expect(difference(one.count, one.dx, many.dx) == 0, "%d threads", threads);
                cr_expect(difference(one.grads, one.grad, many.grad) == 0, "%d threads", threads);
                cr_expect(difference(one.states, one.state, many.state) == 0, "%d threads",
                          threads);
                made_free(many);
            }
            made_free(one);
        }
    cr_expect_eq(compared, 6 * 4 * 7);
}
