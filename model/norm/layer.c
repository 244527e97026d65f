/* LayerNorm: each token is normalized over its own channels.

     mean = sum_c x / C,  var = sum_c (x - mean)^2 / C,  rstd = 1 / sqrt(var + eps)
     xhat = (x - mean) rstd,  y = gamma xhat + beta

   Backward. With g = gamma dy, mean and rstd depend on every channel of the token:
     dxhat/dx = rstd (I - 1 1^T / C - xhat xhat^T / C), which is symmetric, so
     dx = rstd (g - mean_c(g) - xhat mean_c(g xhat))
     dgamma += sum over tokens of dy xhat,  dbeta += sum over tokens of dy

   Ba, Kiros and Hinton 2016, equations 3 and 4 (arXiv:1607.06450); variance biased and eps inside
   the root as in PyTorch's LayerNorm. */
#include "model/math/reduce.h"
#include "model/math/vecmath.h"
#include "model/norm/norm.h"

/* Each pass below goes through all M tokens of a block: what takes a token long is the way from its
   first sum to its last product, and so many tokens are on that way at a time. */

/* Of each token of a block, each (M). */
struct statistics {
    real *mean, *rstd;
    real *all, *along; // backward's mean_c(g), mean_c(g xhat)
};

static struct statistics statistics_of(const struct norm *norm, struct range rows) {
    size_t M = rows.end - rows.begin;
    real *saved = norm->saved + 4 * rows.begin;
    return (struct statistics){saved, saved + M, saved + 2 * M, saved + 3 * M};
}

static size_t saved(const struct norm *norm, size_t B, size_t T) {
    (void)norm;
    return 4 * B * T;
}

static void forward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                    real *y, const real *x) {
    (void)tokens;
    size_t M = rows.end - rows.begin, C = norm->C;
    const real *gamma = norm->param[0].value, *beta = norm->param[1].value; // (C)
    struct statistics s = statistics_of(norm, rows);
    real eps = (real)norm->options.eps;
    for (size_t n = 0; n < M; n++) s.mean[n] = row_sum(C, x + n * C) / (real)C;
    for (size_t n = 0; n < M; n++)
        s.rstd[n] = row_squares_about(C, x + n * C, s.mean[n]) / (real)C; // not yet: the variance
    for (size_t n = 0; n < M; n++) s.rstd[n] = 1 / sqrt_real(s.rstd[n] + eps);
    for (size_t n = 0; n < M; n++, x += C, y += C) {
        real mean = s.mean[n], rstd = s.rstd[n];
#pragma omp simd
        for (size_t c = 0; c < C; c++) y[c] = mul_add((x[c] - mean) * rstd, gamma[c], beta[c]);
    }
}

static void backward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                     real *dx, const real *dy, const real *x, real *const *sum) {
    (void)tokens;
    size_t M = rows.end - rows.begin, C = norm->C;
    const real *gamma = norm->param[0].value;
    real *dgamma = sum[0], *dbeta = sum[1]; // (C)
    struct statistics s = statistics_of(norm, rows);
    for (size_t n = 0; n < M; n++) s.all[n] = row_dot(C, gamma, dy + n * C) / (real)C;
    for (size_t n = 0; n < M; n++)
        s.along[n] =
            row_dot_product_about(C, gamma, dy + n * C, x + n * C, s.mean[n]) * s.rstd[n] / (real)C;
    for (size_t n = 0; n < M; n++, x += C, dy += C, dx += C) {
        real mean = s.mean[n], rstd = s.rstd[n], all = s.all[n], along = s.along[n];
#pragma omp simd
        for (size_t c = 0; c < C; c++) {
            real xhat = (x[c] - mean) * rstd;
            dgamma[c] = mul_add(dy[c], xhat, dgamma[c]);
            dbeta[c] += dy[c];
            dx[c] = rstd * (mul_add(gamma[c], dy[c], -all) - xhat * along);
        }
    }
}

const struct norm_kind norm_layer = {
    .name = "ln",
    .full_name = "layernorm",
    .formula = "y = gamma (x - mean_c x) / sqrt(var_c x + eps) + beta",
    .source = "Ba, Kiros and Hinton 2016",
    .options = "norm-eps",
    .over = NORM_OVER_CHANNELS,
    .centred = true,
    .param = {{"weight", .start = 1}, {"bias", .role = NORM_BETA}},
    .saved = saved,
    .forward = forward,
    .backward = backward,
};
