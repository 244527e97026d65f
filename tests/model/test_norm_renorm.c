/* Batch Renormalization: what it is at the ends of its limits, when they grow, and which constants
   its backward has. */
#include "tests/model/theory.h"
#include "tests/support.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* brn with these limits from the first batch on, gamma and beta that are not 1 and 0, and running
   statistics that are not at their start. */
static struct lone_norm renorm_with(double r_max, double d_max) {
    struct norm_options options = small_norms;
    norms_set(&options, "brn-r-max", r_max);
    norms_set(&options, "brn-d-max", d_max);
    norms_set(&options, "brn-warmup", 0);
    norms_set(&options, "brn-relax", 0);
    struct lone_norm lone;
    lone_norm_init_with(&lone, norm_find("brn"), &options, B, T, C);
    for (size_t c = 0; c < C; c++) {
        lone.norm.param[0].value[c] = (real)(1 + 0.1 * (double)c);
        lone.norm.param[1].value[c] = (real)(0.3 * (double)c - 1);
        lone.norm.state[0][c] = (real)(0.5 - 0.1 * (double)c);
        lone.norm.state[1][c] = (real)(0.25 + 0.5 * (double)c);
    }
    return lone;
}

/* bn with the same parameters and running statistics. */
static struct lone_norm batch_like(const struct lone_norm *renorm) {
    struct lone_norm bn;
    lone_norm_init(&bn, norm_find("bn"), B, T, C);
    memcpy(bn.lists.param.value, renorm->lists.param.value, bn.lists.param.size * sizeof(real));
    memcpy(bn.lists.state.value, renorm->lists.state.value, bn.lists.state.size * sizeof(real));
    return bn;
}

static void expect_equal(const char *what, size_t count, const real *a, const real *b) {
    cr_expect(difference(count, a, b) == 0, "%s: %g", what, difference(count, a, b));
}

/* With r_max = 1 and d_max = 0, and in evaluation. */
Test(norm, renorm_without_a_correction_is_batch_to_the_bit) {
    real *x = random_reals(COUNT, 1), *dy = random_reals(COUNT, 2);
    real y[COUNT], z[COUNT], dx[COUNT], dz[COUNT];
    for (int training = 1; training >= 0; training--) {
        struct lone_norm brn = renorm_with(training ? 1 : 3, training ? 0 : 5),
                         bn = batch_like(&brn);
        brn.tokens.training = bn.tokens.training = training;
        lone_norm_forward(&brn, y, x);
        lone_norm_forward(&bn, z, x);
        lone_norm_backward(&brn, dx, dy, x);
        lone_norm_backward(&bn, dz, dy, x);
        expect_equal("y", COUNT, y, z);
        expect_equal("dx", COUNT, dx, dz);
        expect_equal("dgamma", C, brn.norm.param[0].grad, bn.norm.param[0].grad);
        expect_equal("dbeta", C, brn.norm.param[1].grad, bn.norm.param[1].grad);
        expect_equal("running mean", C, brn.norm.state[0], bn.norm.state[0]);
        expect_equal("running var", C, brn.norm.state[1], bn.norm.state[1]);
        cr_expect(*brn.norm.batches == training);
        lone_norm_free(&brn);
        lone_norm_free(&bn);
    }
    free(x);
    free(dy);
}

/* Training computes what evaluation computes, by the running statistics before the batch. */
Test(norm, renorm_without_limits_is_evaluation) {
    real *x = random_reals(COUNT, 1), y[COUNT], z[COUNT];
    struct lone_norm brn = renorm_with(1e9, 1e9), same = renorm_with(1e9, 1e9);
    same.tokens.training = false;
    for (size_t i = 0; i < COUNT; i++) x[i] = 20 * x[i] + 7;
    lone_norm_forward(&brn, y, x);
    lone_norm_forward(&same, z, x);
    expect_close("y", COUNT, y, z, theory_tolerance());
    cr_expect(difference(C, brn.norm.state[0], same.norm.state[0]) > 0.1);
    lone_norm_free(&brn);
    lone_norm_free(&same);
    free(x);
}

/* r and d of a channel, by their definition. */
static void correction(const struct lone_norm *brn, size_t c, const real *x, double *r, double *d) {
    double mean, square, r_max = norm_get(&brn->norm, "brn-r-max"),
                         d_max = norm_get(&brn->norm, "brn-d-max");
    theory_moments(x + c, N, C, &mean, &square);
    double sigma = sqrt(square - mean * mean + 1e-5);
    double run_sigma = sqrt((double)brn->norm.state[1][c] + 1e-5);
    *r = fmin(fmax(sigma / run_sigma, 1 / r_max), r_max);
    *d = fmin(fmax((mean - (double)brn->norm.state[0][c]) / run_sigma, -d_max), d_max);
}

/* r and d are constants in backward: brn is bn with gamma r for gamma and gamma d + beta for
   beta. */
Test(norm, renorm_is_batch_with_another_gamma_and_beta) {
    real *x = random_reals(COUNT, 1), *dy = random_reals(COUNT, 2);
    real y[COUNT], z[COUNT], dx[COUNT], dz[COUNT], dgamma[C];
    struct lone_norm brn = renorm_with(1.5, 0.2), bn = batch_like(&brn);
    double r[C], d[C];
    int inside[2] = {0}, clipped[2] = {0};
    for (size_t c = 0; c < C; c++) {
        double gamma = (double)brn.norm.param[0].value[c];
        correction(&brn, c, x, &r[c], &d[c]);
        inside[0] += fabs(log(r[c])) < 0.4;
        clipped[0] += r[c] == 1.5 || r[c] == 1 / 1.5;
        inside[1] += fabs(d[c]) < 0.2;
        clipped[1] += fabs(d[c]) == 0.2;
        bn.norm.param[0].value[c] = (real)(gamma * r[c]);
        bn.norm.param[1].value[c] += (real)(gamma * d[c]);
    }
    cr_assert(inside[0] > 2 && inside[1] > 2 && clipped[0] > 2 && clipped[1] > 2);
    lone_norm_forward(&brn, y, x);
    lone_norm_forward(&bn, z, x);
    lone_norm_backward(&brn, dx, dy, x);
    lone_norm_backward(&bn, dz, dy, x);
    for (size_t c = 0; c < C; c++) // dy / dgamma = xhat r + d
        dgamma[c] = (real)(r[c] * (double)bn.norm.param[0].grad[c] +
                           d[c] * (double)bn.norm.param[1].grad[c]);
    expect_close("y", COUNT, y, z, theory_tolerance());
    expect_close("dx", COUNT, dx, dz, theory_tolerance());
    expect_close("dgamma", C, brn.norm.param[0].grad, dgamma, theory_tolerance());
    expect_close("dbeta", C, brn.norm.param[1].grad, bn.norm.param[1].grad, theory_tolerance());
    lone_norm_free(&brn);
    lone_norm_free(&bn);
    free(x);
    free(dy);
}

/* While the limits grow, which the number of batches decides. */
Test(norm, renorm_has_the_same_bits_for_any_number_of_threads) {
    real *x = random_reals(COUNT, 1), *dy = random_reals(COUNT, 2), *want = NULL;
    for (int threads = 1; threads <= 3; threads++) {
        struct lone_norm brn = renorm_with(3, 5);
        norm_set(&brn.norm, "brn-relax", 100);
        brn.threads = threads;
        real *got = malloc(2 * COUNT * sizeof(real));
        for (int k = 0; k < 20; k++) lone_norm_forward(&brn, got, x);
        lone_norm_backward(&brn, got + COUNT, dy, x);
        if (want) expect_equal("y, dx", 2 * COUNT, got, want);
        free(want);
        want = got;
        lone_norm_free(&brn);
    }
    free(want);
    free(x);
    free(dy);
}

/* With means and deviations of the batch far above the running ones, u = xhat r_max + d_max. */
Test(norm, renorm_limits_grow_after_warm_up) {
    enum { WARMUP = 2, RELAX = 14 };
    real *x = random_reals(COUNT, 1), y[COUNT];
    for (size_t i = 0; i < COUNT; i++) x[i] = 1000 * x[i] + 100000;
    struct lone_norm brn = renorm_with(3, 5);
    norm_set(&brn.norm, "brn-warmup", WARMUP);
    norm_set(&brn.norm, "brn-relax", RELAX);
    for (size_t c = 0; c < C; c++) {
        brn.norm.param[0].value[c] = 1;
        brn.norm.param[1].value[c] = 0;
    }
    for (int k = 0; k < WARMUP + RELAX + 3; k++) {
        int grown = k < WARMUP ? 0 : k - WARMUP + 1;
        double r_max = 1 + 2 * fmin(1, (double)grown / RELAX), d_max = 5 * fmin(1, grown / 8.0);
        for (size_t c = 0; c < C; c++) brn.norm.state[0][c] = 0, brn.norm.state[1][c] = 1;
        lone_norm_forward(&brn, y, x);
        for (size_t c = 0; c < C; c++) {
            double mean, square;
            theory_moments(y + c, N, C, &mean, &square);
            cr_expect_float_eq(mean, d_max, 1e-3, "batch %d: d is %g", k, mean);
            cr_expect_float_eq(sqrt(square - mean * mean), r_max, 1e-3, "batch %d: r", k);
        }
    }
    lone_norm_free(&brn);
    free(x);
}
