/* LayerNorm: each token is normalized over its own channels.

     mean = sum_c x / C,  var = sum_c (x - mean)^2 / C,  rstd = 1 / sqrt(var + eps)
     xhat = (x - mean) rstd,  y = gamma xhat + beta

   Backward. With g = gamma dy, mean and rstd depend on every channel of the token:
     dxhat/dx = rstd (I - 1 1^T / C - xhat xhat^T / C), which is symmetric, so
     dx = rstd (g - mean_c(g) - xhat mean_c(g xhat))
     dgamma += sum over tokens of dy xhat,  dbeta += sum over tokens of dy
   With --norm-detach-mean the mean is a constant, and the second term is missing; with
   --norm-detach-std rstd is one, and the third is missing.

   Ba, Kiros and Hinton 2016, equations 3 and 4 (arXiv:1607.06450); variance biased and eps inside
   the root as in PyTorch's LayerNorm. */
#include "model/math/reduce.h"
#include "model/math/vecmath.h"
#include "model/norm/kind.h"
#include <string.h>

enum { GAMMA, BETA };                        // parameters
enum { MEAN, RSTD, G_MEAN, G_ALONG, SAVED }; // saved, with backward's mean_c(g), mean_c(g xhat)

/* The loops below pass several times over the M tokens of a block instead of once over each token.
   A token's result waits for a long chain of dependent operations, from its first sum to its last
   product. The processor overlaps the chains of different tokens within one pass. */

static void layernorm_forward(const struct norm *norm, const struct tokens *tokens,
                              struct range rows, real *y, const real *x) {
    size_t M = rows.end - rows.begin, C = norm->C;
    const real *gamma = norm->param[GAMMA].value, *beta = norm->param[BETA].value; // (C)
    real *mean = norm_saved(norm, rows, MEAN), *rstd = norm_saved(norm, rows, RSTD);
    real eps = (real)norm_option(norm, &norm_eps).real;
    for (size_t n = 0; n < M; n++) mean[n] = row_sum(C, x + n * C) / (real)C;
    for (size_t n = 0; n < M; n++)
        rstd[n] = row_squares_about(C, x + n * C, mean[n]) / (real)C; // the variance for now
    for (size_t n = 0; n < M; n++) rstd[n] = 1 / sqrt_real(rstd[n] + eps);
    for (size_t n = 0; n < M; n++, x += C, y += C) {
        real m = mean[n], r = rstd[n];
#pragma omp simd
        for (size_t c = 0; c < C; c++) y[c] = mul_add((x[c] - m) * r, gamma[c], beta[c]);
    }
}

static void layernorm_backward(const struct norm *norm, const struct tokens *tokens,
                               struct range rows, real *dx, const real *dy, const real *x,
                               real *const *sum) {
    size_t M = rows.end - rows.begin, C = norm->C;
    const real *gamma = norm->param[GAMMA].value;
    real *dgamma = sum[GAMMA], *dbeta = sum[BETA]; // (C)
    const real *mean = norm_saved(norm, rows, MEAN), *rstd = norm_saved(norm, rows, RSTD);
    real *g_mean = norm_saved(norm, rows, G_MEAN), *g_along = norm_saved(norm, rows, G_ALONG);
    for (size_t n = 0; n < M; n++) g_mean[n] = row_dot(C, gamma, dy + n * C) / (real)C;
    for (size_t n = 0; n < M; n++)
        g_along[n] =
            row_dot_product_about(C, gamma, dy + n * C, x + n * C, mean[n]) * rstd[n] / (real)C;
    if (norm_option(norm, &norm_detach_mean).integer) memset(g_mean, 0, M * sizeof *g_mean);
    if (norm_option(norm, &norm_detach_std).integer) memset(g_along, 0, M * sizeof *g_along);
    for (size_t n = 0; n < M; n++, x += C, dy += C, dx += C) {
        real m = mean[n], r = rstd[n], g = g_mean[n], along = g_along[n];
#pragma omp simd
        for (size_t c = 0; c < C; c++) {
            real xhat = (x[c] - m) * r;
            dgamma[c] = mul_add(dy[c], xhat, dgamma[c]);
            dbeta[c] += dy[c];
            dx[c] = r * (mul_add(gamma[c], dy[c], -g) - xhat * along);
        }
    }
}

const struct norm_kind norm_layer = {
    .name = "ln",
    .full_name = "layernorm",
    .formula = "gamma * (x - mean_c(x)) / sqrt(var_c(x) + eps) + beta",
    .source = "Ba, Kiros and Hinton 2016",
    .options = {&norm_eps, &norm_detach_mean, &norm_detach_std},
    .terms = NORM_TERMS_OF_TOKENS,
    .centred = true,
    .param = {[GAMMA] = {"weight", .start = 1}, [BETA] = {"bias", .role = NORM_BETA}},
    .saved = SAVED,
    .forward = layernorm_forward,
    .backward = layernorm_backward,
};
