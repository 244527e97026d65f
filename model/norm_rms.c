/* RMSNorm: each token is divided by the root mean square of its channels, not centred.

     rstd = 1 / sqrt(sum_c x^2 / C + eps),  xhat = x rstd,  y = gamma xhat

   Backward. With g = gamma dy, as in LayerNorm without the term of the mean:
     dx = rstd (g - xhat mean_c(g xhat))
     dgamma += sum over tokens of dy xhat

   Zhang and Sennrich 2019, equation 4 (arXiv:1910.07467); eps inside the root, as PyTorch's and
   LLaMA's RMSNorm have it (the authors' own code adds it outside). No beta. */
#include "norm.h"
#include "vecmath.h"
#include <string.h>

static size_t saved(size_t tokens, size_t C) {
    (void)C;
    return tokens; // rstd (B,T)
}

static size_t scratch_size(size_t tokens, size_t C) {
    (void)tokens;
    return TOKEN_CHUNKS * C; // partial dgamma (C) of each chunk
}

static void forward(const struct norm *norm, const struct tokens *tokens, real *y, const real *x,
                    real *scratch) {
    (void)scratch;
    size_t N = tokens->B * tokens->T, C = norm->C;
    const real *gamma = norm->param[0].value; // (C)
    real *rstd = norm->saved;                 // (B,T)
    real eps = (real)norm->options.eps;
#pragma omp parallel for
    for (size_t n = 0; n < N; n++) {
        const real *xn = x + n * C;
        real *yn = y + n * C;
        real squares = 0;
#pragma omp simd reduction(+ : squares)
        for (size_t c = 0; c < C; c++) squares += xn[c] * xn[c];
        real r = 1 / sqrt_real(squares / (real)C + eps);
#pragma omp simd
        for (size_t c = 0; c < C; c++) yn[c] = xn[c] * r * gamma[c];
        rstd[n] = r;
    }
}

static void backward(const struct norm *norm, const struct tokens *tokens, real *dx, const real *dy,
                     const real *x, real *scratch) {
    size_t N = tokens->B * tokens->T, C = norm->C;
    const real *gamma = norm->param[0].value; // (C)
    const real *rstd = norm->saved;           // (B,T)
#pragma omp parallel for schedule(static)
    for (size_t chunk = 0; chunk < TOKEN_CHUNKS; chunk++) {
        real *dgamma = scratch + chunk * C;
        memset(dgamma, 0, C * sizeof(real));
        for (size_t n = chunk_begin(chunk, N); n < chunk_begin(chunk + 1, N); n++) {
            const real *xn = x + n * C, *dyn = dy + n * C;
            real *dxn = dx + n * C;
            real r = rstd[n], along = 0;
#pragma omp simd reduction(+ : along)
            for (size_t c = 0; c < C; c++) {
                along += gamma[c] * dyn[c] * xn[c] * r;
                dgamma[c] += dyn[c] * xn[c] * r;
            }
            along /= (real)C;
#pragma omp simd
            for (size_t c = 0; c < C; c++) dxn[c] = r * (gamma[c] * dyn[c] - xn[c] * r * along);
        }
    }
    norm_add_chunks(norm->param[0].grad, scratch, C, C);
}

const struct norm_kind norm_rms = {
    .name = "rms",
    .formula = "y = gamma x / sqrt(mean_c x^2 + eps)",
    .param = {{"weight", false, 1}},
    .saved = saved,
    .scratch = scratch_size,
    .forward = forward,
    .backward = backward,
};
