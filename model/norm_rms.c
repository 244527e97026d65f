/* RMSNorm: each token is divided by the root mean square of its channels, not centred.

     rstd = 1 / sqrt(sum_c x^2 / C + eps),  xhat = x rstd,  y = gamma xhat

   Backward. With g = gamma dy, as in LayerNorm without the term of the mean:
     dx = rstd (g - xhat mean_c(g xhat))
     dgamma += sum over tokens of dy xhat

   Zhang and Sennrich 2019, equation 4 (arXiv:1910.07467); eps inside the root, as PyTorch's and
   LLaMA's RMSNorm have it (the authors' own code adds it outside). No beta. */
#include "norm.h"
#include "reduce.h"
#include "vecmath.h"

static size_t saved(const struct norm *norm, size_t B, size_t T) {
    (void)norm;
    return B * T; // rstd of each
}

static void forward(const struct norm *norm, const struct tokens *tokens, struct rows rows, real *y,
                    const real *x) {
    (void)tokens;
    size_t C = norm->C;
    const real *gamma = norm->param[0].value; // (C)
    real *saved = norm->saved + rows.begin, eps = (real)norm->options.eps;
    for (size_t n = 0; n < rows.end - rows.begin; n++, x += C, y += C) {
        real rstd = saved[n] = 1 / sqrt_real(row_dot(C, x, x) / (real)C + eps);
#pragma omp simd
        for (size_t c = 0; c < C; c++) y[c] = x[c] * rstd * gamma[c];
    }
}

static void backward(const struct norm *norm, const struct tokens *tokens, struct rows rows,
                     real *dx, const real *dy, const real *x, real *const *sum) {
    (void)tokens;
    size_t C = norm->C;
    const real *gamma = norm->param[0].value, *saved = norm->saved + rows.begin;
    real *dgamma = sum[0]; // (C)
    for (size_t n = 0; n < rows.end - rows.begin; n++, x += C, dy += C, dx += C) {
        real rstd = saved[n];
#pragma omp simd
        for (size_t c = 0; c < C; c++) {
            dgamma[c] += dy[c] * (x[c] * rstd);
            dx[c] = gamma[c] * dy[c]; // g
        }
        real along = row_dot(C, dx, x) * rstd / (real)C;
#pragma omp simd
        for (size_t c = 0; c < C; c++) dx[c] = rstd * (dx[c] - x[c] * rstd * along);
    }
}

const struct norm_kind norm_rms = {
    .name = "rms",
    .formula = "y = gamma x / sqrt(mean_c x^2 + eps)",
    .source = "Zhang and Sennrich 2019",
    .over = NORM_OVER_CHANNELS,
    .param = {{"weight", .start = 1}},
    .saved = saved,
    .forward = forward,
    .backward = backward,
};
