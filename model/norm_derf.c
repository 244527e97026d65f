/* Dynamic erf: as Dynamic Tanh (norm_dyt.c) with a steeper function, and a shift.

     z = alpha x + s,  y = gamma erf(z) + beta       alpha and s one learned number each

   Backward. derf/dz = 2 / sqrt(pi) exp(-z^2), so with h = gamma dy 2 / sqrt(pi) exp(-z^2)
     dx = alpha h
     dalpha += sum over tokens and channels of h x,  ds += sum over tokens and channels of h
     dgamma += sum over tokens of dy erf(z),  dbeta += sum over tokens of dy

   Chen et al. 2025 (arXiv:2512.10938); names and shapes of the tensors as in the authors'
   code, where the shift is one number too. Their recipe for language models also multiplies the
   embedding by a learned number that starts at sqrt(C) and starts alpha at 1; here the embedding is
   not scaled. */
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
    const real *gamma = norm->param[2].value, *beta = norm->param[3].value; // (C)
    real alpha = norm->param[0].value[0], shift = norm->param[1].value[0];
    for (size_t n = rows.begin; n < rows.end; n++, x += C, y += C)
#pragma omp simd
        for (size_t c = 0; c < C; c++) y[c] = gamma[c] * erf_real(alpha * x[c] + shift) + beta[c];
}

static void backward(const struct norm *norm, const struct tokens *tokens, struct rows rows,
                     real *dx, const real *dy, const real *x, real *const *sum) {
    (void)tokens;
    size_t C = norm->C;
    const real *gamma = norm->param[2].value; // (C)
    real *dgamma = sum[2], *dbeta = sum[3];   // (C)
    real alpha = norm->param[0].value[0], shift = norm->param[1].value[0];
    for (size_t n = rows.begin; n < rows.end; n++, x += C, dy += C, dx += C) {
#pragma omp simd
        for (size_t c = 0; c < C; c++) {
            real z = alpha * x[c] + shift;
            real slope = (real)1.12837916709551257390 * exp_nonpositive(-z * z);
            dgamma[c] += dy[c] * erf_real(z);
            dbeta[c] += dy[c];
            dx[c] = gamma[c] * dy[c] * slope; // h
        }
        sum[0][0] += row_dot(C, dx, x);
        sum[1][0] += row_sum(C, dx);
#pragma omp simd
        for (size_t c = 0; c < C; c++) dx[c] *= alpha;
    }
}

const struct norm_kind norm_derf = {
    .name = "derf",
    .formula = "y = gamma erf(alpha x + s) + beta, alpha and s one learned number each",
    .source = "Chen et al. 2025, Dynamic erf (arXiv:2512.10938)",
    .param = {{"alpha", .scalar = true, .dimensions = 1, .role = NORM_OTHER,
               .start_of = alpha_start},
              {"shift", .scalar = true, .dimensions = 1, .role = NORM_OTHER},
              {"weight", .start = 1},
              {"bias", .role = NORM_BETA}},
    .forward = forward,
    .backward = backward,
};
