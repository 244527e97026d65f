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
#include "vecmath.h"
#include <string.h>

static size_t saved(size_t tokens, size_t C) {
    (void)C;
    return 2 * tokens; // mean (B,T), rstd (B,T)
}

static size_t scratch_size(size_t tokens, size_t C) {
    (void)tokens;
    return TOKEN_CHUNKS * 2 * C; // partial dgamma (C), dbeta (C) of each chunk
}

static void forward(const struct norm *norm, const struct tokens *tokens, real *y, const real *x,
                    real *scratch) {
    (void)scratch;
    size_t N = tokens->B * tokens->T, C = norm->C;
    const real *gamma = norm->param[0].value, *beta = norm->param[1].value; // (C)
    real *mean = norm->saved, *rstd = mean + N;                             // (B,T)
    real eps = (real)norm->options.eps;
#pragma omp parallel for
    for (size_t n = 0; n < N; n++) {
        const real *xn = x + n * C;
        real *yn = y + n * C;
        real sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
        for (size_t c = 0; c < C; c++) sum += xn[c];
        real m = sum / (real)C;
#pragma omp simd reduction(+ : squares)
        for (size_t c = 0; c < C; c++) squares += (xn[c] - m) * (xn[c] - m);
        real r = 1 / sqrt_real(squares / (real)C + eps);
#pragma omp simd
        for (size_t c = 0; c < C; c++) yn[c] = (xn[c] - m) * r * gamma[c] + beta[c];
        mean[n] = m;
        rstd[n] = r;
    }
}

static void backward(const struct norm *norm, const struct tokens *tokens, real *dx, const real *dy,
                     const real *x, real *scratch) {
    size_t N = tokens->B * tokens->T, C = norm->C;
    const real *gamma = norm->param[0].value;         // (C)
    const real *mean = norm->saved, *rstd = mean + N; // (B,T)
#pragma omp parallel for schedule(static)
    for (size_t chunk = 0; chunk < TOKEN_CHUNKS; chunk++) {
        real *dgamma = scratch + chunk * 2 * C, *dbeta = dgamma + C;
        memset(dgamma, 0, 2 * C * sizeof(real));
        for (size_t n = chunk_begin(chunk, N); n < chunk_begin(chunk + 1, N); n++) {
            const real *xn = x + n * C, *dyn = dy + n * C;
            real *dxn = dx + n * C;
            real m = mean[n], r = rstd[n], sum = 0, along = 0;
#pragma omp simd reduction(+ : sum, along)
            for (size_t c = 0; c < C; c++) {
                real xhat = (xn[c] - m) * r, g = gamma[c] * dyn[c];
                sum += g;
                along += g * xhat;
                dgamma[c] += dyn[c] * xhat;
                dbeta[c] += dyn[c];
            }
            sum /= (real)C;
            along /= (real)C;
#pragma omp simd
            for (size_t c = 0; c < C; c++)
                dxn[c] = r * (gamma[c] * dyn[c] - sum - (xn[c] - m) * r * along);
        }
    }
    norm_add_chunks(norm->param[0].grad, scratch, 2 * C, C);
    norm_add_chunks(norm->param[1].grad, scratch + C, 2 * C, C);
}

const struct norm_kind norm_layer = {
    .name = "ln",
    .formula = "y = gamma (x - mean_c x) / sqrt(var_c x + eps) + beta",
    .param = {{"weight", false, 1}, {"bias", false, 0}},
    .saved = saved,
    .scratch = scratch_size,
    .forward = forward,
    .backward = backward,
};
