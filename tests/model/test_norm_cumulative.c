/* Norms over the past (past.h): their definition, pads, heads, precision. What a token sees:
   test_measure.c and test_model_causality.c. */
#include "tests/model/theory.h"
#include "tests/support.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A norm of (B,length,width) whose gamma and beta are random; the same ones for each call. */
static struct lone_norm random_norm(const char *name, size_t length, size_t width) {
    struct lone_norm lone;
    lone_norm_init(&lone, norm_find(name), B, length, width);
    for (int i = 0; lone.norm.kind->param[i].name; i++) {
        size_t size = norm_param_size(&lone.norm, i);
        real *values = random_reals(size, 100 + i);
        memcpy(lone.norm.param[i].value, values, size * sizeof(real));
        free(values);
    }
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
    lone_norm_free(&lone);
    free(x);
}

/* Pads, wherever they are, change no bit of other tokens. */
Test(cumulative, pads_are_left_out) {
    real *x = random_reals(COUNT, 1), *dy = random_reals(COUNT, 2);
    real y[COUNT], dx[COUNT], z[COUNT], dz[COUNT];
    unsigned char valid[N];
    for (size_t n = 0; n < N; n++) valid[n] = (n % T) % 3 != (n / T) % 3;
    struct lone_norm lone = random_norm("cln", T, C);
    const real *beta = lone.norm.param[1].value;
    lone.tokens.valid = valid;
    lone_norm_forward(&lone, y, x);
    lone_norm_backward(&lone, dx, dy, x);
    for (size_t b = 0; b < B; b++) { // its valid tokens alone
        real part[T * C], dpart[T * C];
        size_t k = 0;
        struct lone_norm alone = random_norm("cln", T, C);
        for (size_t n = b * T; n < (b + 1) * T; n++) {
            if (!valid[n]) continue;
            memcpy(part + k * C, x + n * C, C * sizeof(real));
            memcpy(dpart + k++ * C, dy + n * C, C * sizeof(real));
        }
        alone.tokens.B = 1;
        alone.tokens.T = k;
        lone_norm_forward(&alone, z, part);
        lone_norm_backward(&alone, dz, dpart, part);
        k = 0;
        for (size_t n = b * T; n < (b + 1) * T; n++)
            for (size_t c = 0, at = valid[n] ? k++ : 0; c < C; c++) {
                cr_expect(y[n * C + c] == (valid[n] ? z[at * C + c] : beta[c]), "y of %zu", n);
                cr_expect(dx[n * C + c] == (valid[n] ? dz[at * C + c] : 0), "dx of %zu", n);
            }
        lone_norm_free(&alone);
    }
    lone_norm_free(&lone);
    free(x);
    free(dy);
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
    lone_norm_free(&heads);
    lone_norm_free(&wide);
    free(x);
    free(dy);
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
    lone_norm_free(&a);
    lone_norm_free(&b);
    free(x);
    free(dy);
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
    lone_norm_free(&cln);
    lone_norm_free(&ts);
    free(x);
    free(dy);
}
