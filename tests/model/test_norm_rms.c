/* Partial RMSNorm, and the precision of SeeDNorm. Norms over the past (past.c): their definition, heads,
   precision; what a token sees is tested in test_measure.c. */
#include "tests/model/theory.h"
#include "tests/support.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* With a negligible epsilon. */
static struct lone_norm partial_rms(double fraction, size_t width) {
    struct norm_options options = small_norms;
    norms_set(&options, "rms-fraction", fraction);
    norms_set(&options, "norm-eps", 1e-20);
    return lone_norm_with(norm_find("rms"), &options, B, T, width);
}

/* Gives parameter i the values of normal(0, 1). */
static void randomize(const struct norm *norm, int i) {
    real *values = random_reals(norm_param_size(norm, i), 100 + (uint64_t)i);
    memcpy(norm->param[i].value, values, norm_param_size(norm, i) * sizeof(real));
}

static void expect_partial(double fraction, size_t K) {
    real *x = random_reals(COUNT, 1), y[COUNT], want[COUNT];
    struct lone_norm lone = partial_rms(fraction, C);
    for (size_t n = 0; n < N; n++) {
        double square = 0;
        for (size_t c = 0; c < K; c++) square += pow((double)x[n * C + c], 2) / (double)K;
        for (size_t c = 0; c < C; c++)
            want[n * C + c] = (real)((double)x[n * C + c] / sqrt(square));
    }
    lone_norm_forward(&lone, y, x);
    cr_expect(difference(COUNT, y, want) <= theory_tolerance() * largest(COUNT, want),
              "fraction %g is not %zu channels", fraction, K);
}

Test(partial_rms, pools_over_the_first_channels_and_at_least_one) {
    for (size_t K = 1; K <= C; K++) expect_partial((double)K / C, K);
    expect_partial(0, 1);
    expect_partial(1e-6, 1);
    expect_partial(0.5, C / 2 + 1); // of 19
    expect_partial(1 - 1e-6, C);
}

/* 0.07 * 100 is above 7 by rounding alone. The eighth of 100 channels is then not pooled. */
Test(partial_rms, rounding_adds_no_channel) {
    enum { WIDE = 100 };
    static real x[N * WIDE], y[N * WIDE];
    struct lone_norm lone = partial_rms(0.07, WIDE);
    for (size_t i = 0; i < N * WIDE; i++) x[i] = i % WIDE == 0 || i % WIDE == 7;
    lone_norm_forward(&lone, y, x);
    cr_expect(fabs((double)y[0] - sqrt(7)) < 1e-5, "%g", (double)y[0]);
}

/* Where tanh is nearly 1 its slope 1 - tanh^2 is small, but has all its digits: beta's gradient is
   that of the formula in double. */
Test(seednorm, beta_learns_where_tanh_saturates) {
    real *x = random_reals(COUNT, 1), *dy = random_reals(COUNT, 2), y[COUNT], dx[COUNT], want[C];
    double sum[C] = {0}, squares = 0;
    struct lone_norm lone = lone_norm(norm_find("seednorm"), B, T, C);
    randomize(&lone.norm, 1), randomize(&lone.norm, 2);
    const real *alpha = lone.norm.param[1].value, *beta = lone.norm.param[2].value;
    for (size_t c = 0; c < C; c++) squares += (double)(beta[c] * beta[c]);
    for (size_t n = 0; n < N; n++) {
        real *x_n = x + n * C, wanted = n % 2 ? -5 - (real)n / 16 : 5 + (real)n / 16; // of x beta
        double seed = 0, mean, square, along = 0;
        for (size_t c = 0; c < C; c++) seed += (double)(x_n[c] * beta[c]);
        for (size_t c = 0; c < C; c++) x_n[c] += (wanted - (real)seed) / (real)squares * beta[c];
        theory_moments(x_n, C, 1, &mean, &square);
        seed = 0;
        for (size_t c = 0; c < C; c++) seed += (double)x_n[c] * (double)beta[c];
        for (size_t c = 0; c < C; c++)
            along += (double)dy[n * C + c] * (double)alpha[c] * (double)x_n[c];
        along /= sqrt(square + 1e-5);
        for (size_t c = 0; c < C; c++) sum[c] += along * (double)x_n[c] / pow(cosh(seed), 2);
    }
    for (size_t c = 0; c < C; c++) want[c] = (real)sum[c];
    lone_norm_forward(&lone, y, x);
    lone_norm_backward(&lone, dx, dy, x);
    expect_close("dbeta", C, lone.norm.param[2].grad, want, theory_tolerance());
}

/* A norm of (B,length,width) whose gamma and beta are random; the same ones for each call. */
static struct lone_norm random_norm(const char *name, size_t length, size_t width) {
    struct lone_norm lone = lone_norm(norm_find(name), B, length, width);
    for (int i = 0; lone.norm.kind->param[i].name; i++) randomize(&lone.norm, i);
    return lone;
}

Test(cumulative, equals_its_definition) {
    real *x = random_reals(COUNT, 1), y[COUNT], want[COUNT];
    struct lone_norm lone = random_norm("cln", T, C);
    const real *gamma = lone.norm.param[0].value, *beta = lone.norm.param[1].value;
    for (size_t i = 0; i < COUNT; i++) x[i] = 3 * x[i] + (real)(i / C % T); // a drift
    lone_norm_forward(&lone, y, x);
    for (size_t n = 0; n < N; n++) {
        size_t begin = n / T * T * C, end = (n + 1) * C;
        double mean = 0, var = 0, count = (double)(end - begin);
        for (size_t i = begin; i < end; i++) mean += (double)x[i] / count;
        for (size_t i = begin; i < end; i++) var += pow((double)x[i] - mean, 2) / count;
        for (size_t c = 0; c < C; c++)
            want[n * C + c] = (real)((x[n * C + c] - mean) / sqrt(var + 1e-5) * gamma[c] + beta[c]);
    }
    expect_close("y", COUNT, y, want, in_double() ? 1e-13 : 1e-6);
}

/* Heads are rows of a token: they share its statistics, and one gamma and beta. */
Test(cumulative, all_heads_of_a_token_are_one_step) {
    enum { HEADS = 3, WIDTH = HEADS * C, SIZE = B * T * WIDTH };
    real *x = random_reals(SIZE, 1), *dy = random_reals(SIZE, 2);
    static real y[SIZE], dx[SIZE], z[SIZE], dz[SIZE];
    unsigned char valid[N];
    for (size_t n = 0; n < N; n++) valid[n] = n % T < 3 + n / T;
    struct lone_norm heads = random_norm("cln", T * HEADS, C), wide = random_norm("cln", T, WIDTH);
    heads.tokens.rows_per_token = HEADS;
    heads.tokens.valid = wide.tokens.valid = valid;
    for (int i = 0; i < 2; i++)
        for (size_t c = 0; c < WIDTH; c++)
            wide.norm.param[i].value[c] = heads.norm.param[i].value[c % C];
    lone_norm_forward(&heads, y, x);
    lone_norm_backward(&heads, dx, dy, x);
    lone_norm_forward(&wide, z, x);
    lone_norm_backward(&wide, dz, dy, x);
    expect_close("y", SIZE, y, z, in_double() ? 1e-13 : 1e-5);
    expect_close("dx", SIZE, dx, dz, in_double() ? 1e-13 : 1e-5);
}

Test(cumulative, variance_survives_a_large_offset) {
    const real offset = (real)(in_double() ? 1e10 : 1e4);
    real *x = random_reals(COUNT, 1), *dy = random_reals(COUNT, 2), moved[COUNT];
    real y[COUNT], z[COUNT], dx[COUNT], dz[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        moved[i] = x[i] + offset; // rounded here
        x[i] = moved[i] - offset; // so that both are the same numbers
    }
    struct lone_norm a = random_norm("cln", T, C), b = random_norm("cln", T, C);
    lone_norm_forward(&a, y, x);
    lone_norm_backward(&a, dx, dy, x);
    lone_norm_forward(&b, z, moved);
    lone_norm_backward(&b, dz, dy, moved);
    const double tolerance = in_double() ? 1e-5 : 2e-3; // the means are rounded to those of offset
    expect_close("y", COUNT, z, y, tolerance);
    expect_close("dx", COUNT, dz, dx, tolerance);
}

/* ts with one group and no prior is cln, with weight gamma - 1. */
Test(cumulative, timestep_of_one_group_without_a_prior_is_cumulative) {
    real *x = random_reals(COUNT, 1), *dy = random_reals(COUNT, 2);
    real y[COUNT], dx[COUNT], z[COUNT], dz[COUNT];
    struct lone_norm cln = random_norm("cln", T, C), ts = random_norm("ts", T, C);
    norm_set(&ts.norm, "ts-prior-count", 0);
    cr_assert_eq(norm_get(&ts.norm, "norm-groups"), 1);
    for (size_t c = 0; c < C; c++) ts.norm.param[0].value[c] = cln.norm.param[0].value[c] - 1;
    lone_norm_forward(&cln, y, x);
    lone_norm_backward(&cln, dx, dy, x);
    lone_norm_forward(&ts, z, x);
    lone_norm_backward(&ts, dz, dy, x);
    expect_close("y", COUNT, z, y, in_double() ? 1e-13 : 1e-5);
    expect_close("dx", COUNT, dz, dx, in_double() ? 1e-13 : 1e-5);
    cr_expect(ts.norm.param[2].grad[0] == 0 && ts.norm.param[3].grad[0] == 0, "no prior");
}
