/* Dynamic Tanh: no statistics at all, each number is squashed alone.

     u = tanh(alpha x),  y = gamma u + beta       alpha one learned number

   Backward. du/dx = alpha (1 - u^2) and du/dalpha = x (1 - u^2), so with h = gamma dy (1 - u^2)
     dx = alpha h
     dalpha += sum over tokens and channels of h x
     dgamma += sum over tokens of dy u,  dbeta += sum over tokens of dy
   u is computed again, which takes less than to keep it.

   Zhu et al. 2025 (arXiv:2503.10622); names and shapes of the tensors as in the authors'
   code. Their recipe for language models also multiplies the embedding by a learned number that
   starts at sqrt(C); here the embedding is not scaled. */
#include "norm.h"
#include "reduce.h"
#include "vecmath.h"

static double alpha_start(const struct norm_options *options, size_t C) {
    (void)C;
    return options->dyt_alpha;
}

static void forward(const struct norm *norm, const struct tokens *tokens, struct rows rows, real *y,
                    const real *x) {
    (void)tokens;
    size_t C = norm->C;
    const real *gamma = norm->param[1].value, *beta = norm->param[2].value; // (C)
    real alpha = norm->param[0].value[0];
    for (size_t n = rows.begin; n < rows.end; n++, x += C, y += C)
#pragma omp simd
        for (size_t c = 0; c < C; c++) y[c] = gamma[c] * tanh_real(alpha * x[c]) + beta[c];
}

static void backward(const struct norm *norm, const struct tokens *tokens, struct rows rows,
                     real *dx, const real *dy, const real *x, real *const *sum) {
    (void)tokens;
    size_t C = norm->C;
    const real *gamma = norm->param[1].value; // (C)
    real *dgamma = sum[1], *dbeta = sum[2];   // (C)
    real alpha = norm->param[0].value[0];
    for (size_t n = rows.begin; n < rows.end; n++, x += C, dy += C, dx += C) {
#pragma omp simd
        for (size_t c = 0; c < C; c++) {
            real u = tanh_real(alpha * x[c]);
            dgamma[c] += dy[c] * u;
            dbeta[c] += dy[c];
            dx[c] = gamma[c] * dy[c] * (1 - u * u); // h
        }
        sum[0][0] += row_dot(C, dx, x);
#pragma omp simd
        for (size_t c = 0; c < C; c++) dx[c] *= alpha;
    }
}

const struct norm_kind norm_dyt = {
    .name = "dyt",
    .formula = "y = gamma tanh(alpha x) + beta, alpha one learned number",
    .source = "Zhu et al. 2025, Dynamic Tanh (arXiv:2503.10622)",
    .param = {{"alpha", .scalar = true, .dimensions = 1, .role = NORM_OTHER,
               .start_of = alpha_start},
              {"weight", .start = 1},
              {"bias", .role = NORM_BETA}},
    .forward = forward,
    .backward = backward,
};
