/* LayerNorm: each token is normalized over its own channels.

     mean = sum_c x / C,  var = sum_c (x - mean)^2 / C,  rstd = 1 / sqrt(var + eps)
     xhat = (x - mean) rstd,  y = gamma xhat + beta

   Backward. With g = gamma dy, mean and rstd depend on every channel of the token:
     dxhat/dx = rstd (I - 1 1^T / C - xhat xhat^T / C), which is symmetric, so
     dx = rstd (g - mean_c(g) - xhat mean_c(g xhat))
     dgamma += sum over tokens of dy xhat,  dbeta += sum over tokens of dy

   Ba, Kiros and Hinton 2016, equations 3 and 4 (arXiv:1607.06450); variance biased and eps inside
   the root as in PyTorch's LayerNorm. */
#include "norm.h"
#include "reduce.h"
#include "vecmath.h"

static size_t saved(const struct norm *norm, size_t B, size_t T) {
    (void)norm;
    return 2 * B * T; // mean, rstd of each token
}

static void forward(const struct norm *norm, const struct tokens *tokens, struct rows rows, real *y,
                    const real *x) {
    (void)tokens;
    size_t C = norm->C;
    const real *gamma = norm->param[0].value, *beta = norm->param[1].value; // (C)
    real *saved = norm->saved + 2 * rows.begin, eps = (real)norm->options.eps;
    for (size_t n = 0; n < rows.end - rows.begin; n++, x += C, y += C) {
        real mean = row_sum(C, x) / (real)C;
        real rstd = 1 / sqrt_real(row_squares_about(C, x, mean) / (real)C + eps);
#pragma omp simd
        for (size_t c = 0; c < C; c++) y[c] = (x[c] - mean) * rstd * gamma[c] + beta[c];
        saved[2 * n] = mean;
        saved[2 * n + 1] = rstd;
    }
}

static void backward(const struct norm *norm, const struct tokens *tokens, struct rows rows,
                     real *dx, const real *dy, const real *x, real *const *sum) {
    (void)tokens;
    size_t C = norm->C;
    const real *gamma = norm->param[0].value, *saved = norm->saved + 2 * rows.begin;
    real *dgamma = sum[0], *dbeta = sum[1]; // (C)
    for (size_t n = 0; n < rows.end - rows.begin; n++, x += C, dy += C, dx += C) {
        real mean = saved[2 * n], rstd = saved[2 * n + 1];
#pragma omp simd
        for (size_t c = 0; c < C; c++) {
            dgamma[c] += dy[c] * ((x[c] - mean) * rstd);
            dbeta[c] += dy[c];
            dx[c] = gamma[c] * dy[c]; // g
        }
        real all = row_sum(C, dx) / (real)C, along = row_dot_about(C, dx, x, mean) * rstd / (real)C;
#pragma omp simd
        for (size_t c = 0; c < C; c++) dx[c] = rstd * (dx[c] - all - (x[c] - mean) * rstd * along);
    }
}

const struct norm_kind norm_layer = {
    .name = "ln",
    .formula = "y = gamma (x - mean_c x) / sqrt(var_c x + eps) + beta",
    .source = "Ba, Kiros and Hinton 2016",
    .over = NORM_OVER_CHANNELS,
    .centred = true,
    .param = {{"weight", .start = 1}, {"bias", .role = NORM_BETA}},
    .saved = saved,
    .forward = forward,
    .backward = backward,
};
