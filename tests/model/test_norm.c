/* What the theory of each norm promises, on a norm alone. Tests that hold for every kind iterate the
   list. Batch Renormalization: which constants its backward has. Outputs and gradients of all norms are
   compared with PyTorch for six channels (test_golden_norms.c), gradients of larger shapes with
   differences (test_gradient_sublayer.c). Here shapes have several row blocks and vectors. */
#include "tests/model/theory.h"
#include "tests/support.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

Test(norm, outputs_have_the_promised_moments) {
    static const struct {
        const char *name;
        bool over_tokens, centred;
    } norms[] = {
        {"ln", false, true}, {"rms", false, false}, {"bn", true, true}, {"pn-v", true, false}};
    real *x = random_reals(COUNT, 1), y[COUNT];
    for (size_t i = 0; i < COUNT; i++) x[i] = 5 + 3 * x[i];
    for (size_t k = 0; k < sizeof norms / sizeof *norms; k++) {
        const bool over_tokens = norms[k].over_tokens;
        theory_apply(norms[k].name, y, x);
        for (size_t i = 0; i < (over_tokens ? C : N); i++) {
            double mean, square;
            theory_moments(over_tokens ? y + i : y + i * C, over_tokens ? N : C,
                           over_tokens ? C : 1, &mean, &square);
            cr_expect(norms[k].centred ? fabs(mean) < 1e-5 : mean > 0.5, "%s: mean %g",
                      norms[k].name, mean);
            cr_expect(fabs(square - 1) < 1e-4, "%s: square %g", norms[k].name, square);
        }
    }
}

/* A norm whose output does not change along certain directions of x has a dx without components
   along them. With gamma 1 and a negligible eps these are, for ln: 1 and xhat over the channels;
   for rms: xhat; for bn: 1 and xhat over the tokens. */
static void expect_orthogonal(const char *name, bool over_tokens, bool to_one) {
    real *x = random_reals(COUNT, 1), *dy = random_reals(COUNT, 2), y[COUNT], dx[COUNT];
    for (size_t i = 0; i < COUNT; i++) x[i] = 100 * x[i] + 30;
    struct lone_norm lone = theory_apply(name, y, x);
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
        cr_expect(size > 0 && fabs(along) < theory_tolerance() * size, "%s: xhat dx = %g", name,
                  along);
        if (to_one) cr_expect(fabs(one) < theory_tolerance() * size, "%s: sum dx = %g", name, one);
    }
}

Test(norm, dx_has_no_part_along_what_the_norm_removes) {
    expect_orthogonal("ln", false, true);
    expect_orthogonal("rms", false, false);
    expect_orthogonal("scale", false, false);
    expect_orthogonal("bn", true, true);
    expect_orthogonal("pn-v", true, false);
}

/* dyt and derf treat each element alone: its y does not depend on the other elements, and is within
   gamma of beta however large x is. At x near 0 the slope is alpha (2 / sqrt(pi) alpha for
   derf). */
static void expect_pointwise(const char *name, double slope) {
    real *x = random_reals(COUNT, 1), y[COUNT], z[COUNT];
    x[7] = (real)1e30, x[8] = (real)-1e30, x[9] = (real)1e-6, x[10] = 0;
    theory_apply(name, y, x);
    cr_expect(y[7] == 1 && y[8] == -1 && y[10] == 0, "%s: %g %g", name, y[7], y[8]);
    cr_expect(fabs((double)y[9] / 1e-6 / slope - 1) < 1e-6, "%s: slope %g", name, y[9] / 1e-6);
    for (size_t i = 0; i < COUNT; i++) x[i] = i % 2 ? -x[i] : 100;
    struct lone_norm b = theory_apply(name, z, x);
    for (size_t i = 1; i < COUNT; i += 2)
        cr_expect(fabs((double)(z[i] + y[i])) < theory_tolerance(), "%s is not odd", name);
    real dy[COUNT], dx[COUNT];
    for (size_t i = 0; i < COUNT; i++) dy[i] = 1;
    lone_norm_backward(&b, dx, dy, x);
    cr_expect(dx[8] == 0, "%s: saturated, dx = %g", name, dx[8]);
    cr_expect(fabs((double)dx[9] / slope - 1) < 1e-6, "%s: dx = %g", name, dx[9]);
}

Test(norm, dyt_squashes_each_number_alone) {
    expect_pointwise("dyt", 0.5);
}

Test(norm, derf_squashes_each_number_alone) {
    expect_pointwise("derf", 1 / sqrt(M_PI));
}

/* Whatever its length was, a token gets the length sqrt(C), unless it is shorter than eps, below
   which the norm is linear. y and dx are orthogonal. rms is the same except for its epsilon. */
Test(norm, scale_gives_every_token_one_length) {
    real *x = random_reals(COUNT, 1), *dy = random_reals(COUNT, 2), moved[COUNT], y[COUNT];
    real z[COUNT], dx[COUNT];
    theory_apply("scale", y, x), theory_apply("rms", z, x);
    expect_close("rms", COUNT, y, z, theory_tolerance());
    struct lone_norm scale = lone_norm(norm_find("scale"), B, T, C);
    for (size_t c = 0; c < C; c++) x[c] *= (real)1e-8, x[C + c] = 0;
    lone_norm_forward(&scale, y, x);
    lone_norm_backward(&scale, dx, dy, x);
    const real linear = (real)(sqrt(C) / 1e-5); // g / eps
    for (size_t c = 0; c < C; c++) {
        moved[c] = linear * x[c];
        moved[C + c] = linear * dy[C + c];
        cr_expect(y[C + c] == 0);
    }
    expect_close("short: y", C, y, moved, theory_tolerance());
    expect_close("zero: dx", C, dx + C, moved + C, theory_tolerance());
    for (size_t n = 2; n < N; n++) {
        double mean, square;
        theory_moments(y + n * C, C, 1, &mean, &square);
        cr_expect(fabs(square - 1) < 1e-5, "mean square %g", square);
    }
}

/* In each group of a token's channels, gn is ln. */
Test(norm, group_is_layer_within_each_group) {
    enum { GROUPS = 2, WIDTH = 2 * C };
    real *x = random_reals(2 * COUNT, 1), *dy = random_reals(2 * COUNT, 2), *parts[2];
    real y[2 * COUNT], dx[2 * COUNT], z[2 * COUNT], dz[2 * COUNT];
    struct lone_norm gn, ln;
    gn = lone_norm(norm_find("gn"), B, T, WIDTH);
    cr_assert_eq(norm_get(&gn.norm, "norm-groups"), GROUPS);
    for (int i = 0; i < 2; i++) { // each group a token of its own: (B,T,GROUPS C) is (B,GROUPS T,C)
        parts[i] = random_reals(2 * C, 3 + i);
        memcpy(gn.norm.param[i].value, parts[i], 2 * C * sizeof(real));
    }
    lone_norm_forward(&gn, y, x);
    lone_norm_backward(&gn, dx, dy, x);
    ln = lone_norm(norm_find("ln"), B, GROUPS * T, C);
    for (size_t i = 0; i < 2 * COUNT; i++) dz[i] = dy[i] * parts[0][i % WIDTH];
    lone_norm_forward(&ln, z, x);
    for (size_t i = 0; i < 2 * COUNT; i++) z[i] = z[i] * parts[0][i % WIDTH] + parts[1][i % WIDTH];
    expect_close("y", 2 * COUNT, y, z, theory_tolerance());
    lone_norm_backward(&ln, z, dz, x);
    expect_close("dx", 2 * COUNT, dx, z, theory_tolerance());
}

Test(norm, extreme_tokens_stay_finite) {
    real x[COUNT] = {0}, y[COUNT];
    for (size_t c = 0; c < C; c++) x[C + c] = 5; // a constant token among zeros
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++) {
        if (!(*kind)->forward) continue;
        struct lone_norm lone = lone_norm(*kind, B, T, C);
        lone_norm_forward(&lone, y, x);
        for (size_t i = 0; i < COUNT; i++) cr_expect(isfinite(y[i]), "%s", (*kind)->name);
    }
}

Test(norm, none_passes_its_input_by) {
    real x[COUNT] = {0}, y[COUNT];
    struct lone_norm lone = lone_norm(norm_find("none"), B, T, C);
    struct range all = {0, N};
    cr_expect_eq(norm_forward(&lone.norm, &lone.tokens, all, y, x), x);
    cr_expect_eq(norm_backward(&lone.norm, &lone.tokens, all, y, x, x), x);
}

/* brn with these limits from the first batch on, gamma and beta that are not 1 and 0, and running
   statistics that are not at their start. */
static struct lone_norm renorm_with(double r_max, double d_max) {
    struct norm_options options = small_norms;
    norms_set(&options, "brn-r-max", r_max);
    norms_set(&options, "brn-d-max", d_max);
    norms_set(&options, "brn-warmup", 0);
    norms_set(&options, "brn-relax", 0);
    struct lone_norm lone = lone_norm_with(norm_find("brn"), &options, B, T, C);
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
    struct lone_norm bn = lone_norm(norm_find("bn"), B, T, C);
    memcpy(bn.lists.param.value, renorm->lists.param.value, bn.lists.param.size * sizeof(real));
    memcpy(bn.lists.state.value, renorm->lists.state.value, bn.lists.state.size * sizeof(real));
    return bn;
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
}
