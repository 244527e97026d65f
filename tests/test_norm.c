/* What the theory of each norm promises, on its own. The tests that hold for every kind iterate the
   table. */
#include "../data/random.h"
#include "support.h"
#include <criterion/parameterized.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { B = 3, T = 7, N = B * T, C = 19, COUNT = N * C };

static double tolerance(void) {
    return in_double() ? 1e-12 : 2e-5;
}

/* y = norm(x) of a fresh norm of this name with hardly an epsilon, which would blur what theory
   says; returns it for what comes next. */
static struct lone_norm apply(const char *name, real *y, const real *x) {
    struct lone_norm lone;
    lone_norm_init(&lone, norm_find(name), B, T, C);
    lone.norm.options.eps = 1e-20;
    norm_forward(&lone.norm, &lone.tokens, y, (real *)x, lone.scratch);
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

Test(norm, batch_ignores_shift_and_scale_of_a_channel) {
    real *x = random_reals(COUNT, 1), moved[COUNT];
    for (size_t i = 0; i < COUNT; i++) moved[i] = x[i] * (real)(100 + i % C) + (real)(3 * (i % C));
    for (size_t i = 0; i < COUNT; i++) x[i] *= 100;
    expect_unchanged("bn", "shifted and scaled", x, moved);
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
    lone_norm_free(&ln);
    lone_norm_free(&rms);
    lone_norm_free(&bn);
    free(x);
}

/* dx of a norm whose output moves only across certain directions has no part along them. With gamma
   1 and eps away, ln: 1 and xhat over the channels; rms: xhat; bn: 1 and xhat over the tokens. */
static void expect_orthogonal(const char *name, bool over_tokens, bool to_one) {
    real *x = random_reals(COUNT, 1), *dy = random_reals(COUNT, 2), y[COUNT], dx[COUNT];
    for (size_t i = 0; i < COUNT; i++) x[i] = 100 * x[i] + 30;
    struct lone_norm lone = apply(name, y, x);
    norm_backward(&lone.norm, &lone.tokens, dx, dy, x, lone.scratch);
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
    expect_orthogonal("bn", true, true);
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
    cr_expect(bn.norm.state[2][0] == 1);
    lone_norm_free(&bn);
    free(x);
}

Test(norm, batch_leaves_pads_out_of_its_statistics) {
    real *x = random_reals(COUNT, 1), y[COUNT], z[COUNT];
    unsigned char valid[N];
    for (size_t n = 0; n < N; n++) valid[n] = n % T < 4;
    struct lone_norm a, b;
    lone_norm_init(&a, norm_find("bn"), B, T, C);
    lone_norm_init(&b, norm_find("bn"), B, T, C);
    a.tokens.valid = b.tokens.valid = valid;
    norm_forward(&a.norm, &a.tokens, y, x, a.scratch);
    for (size_t n = 0; n < N; n++) // other pads,
        for (size_t c = 0; c < C; c++)
            if (!valid[n]) x[n * C + c] = 1000;
    norm_forward(&b.norm, &b.tokens, z, x, b.scratch);
    for (size_t n = 0; n < N; n++) // the same tokens
        if (valid[n]) cr_expect(difference(C, y + n * C, z + n * C) == 0);
    cr_expect(difference(C, a.norm.state[0], b.norm.state[0]) == 0);
    cr_expect(difference(C, a.norm.state[1], b.norm.state[1]) == 0);
    lone_norm_free(&a);
    lone_norm_free(&b);
    free(x);
}

Test(norm, batch_in_evaluation_treats_each_token_alone) {
    real *x = random_reals(COUNT, 1), y[COUNT], z[COUNT];
    struct lone_norm bn = apply("bn", y, x);
    real before = bn.norm.state[0][3];
    bn.tokens.training = false;
    norm_forward(&bn.norm, &bn.tokens, y, x, bn.scratch);
    for (size_t c = 0; c < C; c++) x[c] = 77; // another first token
    norm_forward(&bn.norm, &bn.tokens, z, x, bn.scratch);
    cr_expect(difference(C, y, z) > 1);
    cr_expect(difference(COUNT - C, y + C, z + C) == 0);
    cr_expect(bn.norm.state[0][3] == before && bn.norm.state[2][0] == 1);
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
        (*kind)->forward(&lone.norm, &lone.tokens, y, x, lone.scratch);
        for (size_t i = 0; i < COUNT; i++) cr_expect(isfinite(y[i]), "%s", (*kind)->name);
        lone_norm_free(&lone);
    }
}

Test(norm, none_passes_its_input_by) {
    real x[COUNT] = {0}, y[COUNT];
    struct lone_norm lone;
    lone_norm_init(&lone, norm_find("none"), B, T, C);
    cr_expect_eq(norm_forward(&lone.norm, &lone.tokens, y, x, lone.scratch), x);
    cr_expect_eq(norm_backward(&lone.norm, &lone.tokens, y, x, x, lone.scratch), x);
    lone_norm_free(&lone);
}

ParameterizedTestParameters(norm, same_bits_for_any_number_of_threads) {
    return every_norm();
}

ParameterizedTest(struct pair *pair, norm, same_bits_for_any_number_of_threads) {
    const struct norm_kind *kind = norm_kinds[pair->norm];
    real *x = random_reals(COUNT, 1), *dy = random_reals(COUNT, 2);
    real y[2][COUNT], dx[2][COUNT], grad[2][COUNT] = {0};
    int compared = 0;
    for (int threads = 1; kind->forward && threads <= 8; threads++, compared++) {
        int at = threads > 1;
        struct lone_norm lone;
        omp_set_num_threads(threads);
        lone_norm_init(&lone, kind, B, T, C);
        kind->forward(&lone.norm, &lone.tokens, y[at], x, lone.scratch);
        kind->backward(&lone.norm, &lone.tokens, dx[at], dy, x, lone.scratch);
        memcpy(grad[at], lone.lists.param.grad, lone.lists.param.size * sizeof(real));
        lone_norm_free(&lone);
        if (!at) continue;
        cr_expect(difference(COUNT, y[0], y[1]) == 0);
        cr_expect(difference(COUNT, dx[0], dx[1]) == 0);
        cr_expect(difference(COUNT, grad[0], grad[1]) == 0);
    }
    cr_expect(compared == 8 || !kind->forward);
    free(x);
    free(dy);
}
