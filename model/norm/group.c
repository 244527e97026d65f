/* GroupNorm of a token: LayerNorm (layer.c) within each of G groups of neighbouring channels.

     mean = sum_c x / K,  var = sum_c (x - mean)^2 / K,  rstd = 1 / sqrt(var + eps)
     xhat = (x - mean) rstd,  y = gamma xhat + beta       c over the K = C / G channels of a group

   Backward, the groups being independent: with g = gamma dy,
     dx = rstd (g - mean_c(g) - xhat mean_c(g xhat))
     dgamma += sum over tokens of dy xhat,  dbeta += sum over tokens of dy

   Wu and He 2018, equations 1, 2, 6 and 7 (arXiv:1803.08494), who also pool over an image's
   pixels. Pooling over the time steps of a text would let a token see later tokens, so here each
   token is an image of one pixel, like the rows of (B T, C) in PyTorch's GroupNorm. One group is
   LayerNorm; groups of one channel leave nothing but beta. */
#include "model/math/reduce.h"
#include "model/math/vecmath.h"
#include "model/norm/kind.h"

static size_t saved_size(const struct norm *norm, size_t B, size_t T) {
    return 2 * B * T * (size_t)norm_option(norm, &norm_groups).integer; // mean, rstd of each group
}

static size_t values(const struct norm *norm, size_t B, size_t T) {
    return norm->C / (size_t)norm_option(norm, &norm_groups).integer;
}

static void groupnorm_forward(const struct norm *norm, const struct tokens *tokens,
                              struct range rows, real *y, const real *x) {
    size_t C = norm->C, G = (size_t)norm_option(norm, &norm_groups).integer, K = C / G;
    const real *gamma = norm->param[0].value, *beta = norm->param[1].value; // (C)
    real *saved = norm->saved + 2 * G * rows.begin, eps = (real)norm_option(norm, &norm_eps).real;
    for (size_t n = rows.begin; n < rows.end; n++)
        for (size_t first = 0; first < C; first += K, x += K, y += K, saved += 2) {
            real mean = row_sum(K, x) / (real)K;
            real rstd = 1 / sqrt_real(row_squares_about(K, x, mean) / (real)K + eps);
#pragma omp simd
            for (size_t k = 0; k < K; k++)
                y[k] = (x[k] - mean) * rstd * gamma[first + k] + beta[first + k];
            saved[0] = mean;
            saved[1] = rstd;
        }
}

static void groupnorm_backward(const struct norm *norm, const struct tokens *tokens,
                               struct range rows, real *dx, const real *dy, const real *x,
                               real *const *sum) {
    size_t C = norm->C, G = (size_t)norm_option(norm, &norm_groups).integer, K = C / G;
    const real *gamma = norm->param[0].value, *saved = norm->saved + 2 * G * rows.begin;
    for (size_t n = rows.begin; n < rows.end; n++)
        for (size_t first = 0; first < C; first += K, x += K, dy += K, dx += K, saved += 2) {
            real mean = saved[0], rstd = saved[1];
            real *dgamma = sum[0] + first, *dbeta = sum[1] + first; // (K)
#pragma omp simd
            for (size_t k = 0; k < K; k++) {
                dgamma[k] += dy[k] * ((x[k] - mean) * rstd);
                dbeta[k] += dy[k];
                dx[k] = gamma[first + k] * dy[k]; // g
            }
            real g_mean = row_sum(K, dx) / (real)K;
            real g_along = row_dot_about(K, dx, x, mean) * rstd / (real)K;
#pragma omp simd
            for (size_t k = 0; k < K; k++)
                dx[k] = rstd * (dx[k] - g_mean - (x[k] - mean) * rstd * g_along);
        }
}

const struct norm_kind norm_group = {
    .name = "gn",
    .full_name = "groupnorm",
    .formula = "y = gamma (x - mean_c x) / sqrt(var_c x + eps) + beta, c over a group of a token's "
               "channels",
    .source = "Wu and He 2018 (arXiv:1803.08494)",
    .options = {&norm_eps, &norm_groups},
    .param = {{"weight", .start = 1}, {"bias", .role = NORM_BETA}},
    .values = values,
    .saved_size = saved_size,
    .check = norm_check_groups,
    .forward = groupnorm_forward,
    .backward = groupnorm_backward,
};
