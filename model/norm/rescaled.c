/* SeeDNorm: RMSNorm whose gamma changes with the token.

     rstd = 1 / sqrt(sum_c x^2 / C + eps),  xhat = x rstd
     t = tanh(sum_c x beta),  y = (gamma + t alpha) xhat       alpha, beta, gamma (C), t one number

   t is computed from x before it is divided by its root mean square, so y still tells how large x
   was. beta starts at 0: initially the norm is RMSNorm (rms.c). alpha and gamma start at 1.

   Backward. With g = (gamma + t alpha) dy and d = tanh'(sum_c x beta) sum_c(dy alpha xhat), the
   gradient of sum_c x beta:
     dx = rstd (g - xhat mean_c(g xhat)) + d beta
     dgamma += sum over tokens of dy xhat,  dalpha += sum over tokens of t dy xhat
     dbeta += sum over tokens of d x
   where sum_c(g xhat) = sum_c(gamma dy xhat) + t sum_c(dy alpha xhat).

   Cai et al. 2025 (arXiv:2510.22777), with one head. --affine=off leaves alpha and beta learned. */
#include "model/math/reduce.h"
#include "model/math/vecmath.h"
#include "model/norm/kind.h"

enum { GAMMA, ALPHA, BETA }; // parameters

enum { RSTD, TANH, SLOPE, G_ALONG, D, SAVED }; // saved: t, tanh'; backward's mean_c(g xhat), d

/* The loops pass over the block as in layer.c. */

static void seednorm_forward(const struct norm *norm, const struct tokens *tokens,
                             struct range rows, real *y, const real *x) {
    size_t M = rows.end - rows.begin, C = norm->C;
    const real *gamma = norm->param[GAMMA].value, *alpha = norm->param[ALPHA].value; // (C)
    const real *beta = norm->param[BETA].value;                                      // (C)
    real *rstd = norm_saved(norm, rows, RSTD), *t = norm_saved(norm, rows, TANH);
    real *slope = norm_saved(norm, rows, SLOPE), eps = (real)norm_option(norm, &norm_eps).real;
    for (size_t n = 0; n < M; n++) {
        rstd[n] = row_dot(C, x + n * C, x + n * C) / (real)C; // the mean square for now
        t[n] = row_dot(C, x + n * C, beta);                   // before tanh
    }
    for (size_t n = 0; n < M; n++) {
        rstd[n] = 1 / sqrt_real(rstd[n] + eps);
        slope[n] = tanh_slope(t[n]);
        t[n] = tanh_real(t[n]);
    }
    for (size_t n = 0; n < M; n++, x += C, y += C) {
        real r = rstd[n], of_alpha = t[n];
#pragma omp simd
        for (size_t c = 0; c < C; c++) y[c] = x[c] * r * mul_add(of_alpha, alpha[c], gamma[c]);
    }
}

static void seednorm_backward(const struct norm *norm, const struct tokens *tokens,
                              struct range rows, real *dx, const real *dy, const real *x,
                              real *const *sum) {
    size_t M = rows.end - rows.begin, C = norm->C;
    const real *gamma = norm->param[GAMMA].value, *alpha = norm->param[ALPHA].value;
    const real *beta = norm->param[BETA].value;
    real *dgamma = sum[GAMMA], *dalpha = sum[ALPHA], *dbeta = sum[BETA]; // (C)
    const real *rstds = norm_saved(norm, rows, RSTD), *ts = norm_saved(norm, rows, TANH);
    const real *slopes = norm_saved(norm, rows, SLOPE);
    real *g_alongs = norm_saved(norm, rows, G_ALONG), *ds = norm_saved(norm, rows, D);
    for (size_t n = 0; n < M; n++) {
        const real *dy_n = dy + n * C, *x_n = x + n * C;
        real along_gamma = row_dot_product_about(C, gamma, dy_n, x_n, 0) * rstds[n];
        real along_alpha = row_dot_product_about(C, alpha, dy_n, x_n, 0) * rstds[n];
        g_alongs[n] = mul_add(ts[n], along_alpha, along_gamma) / (real)C;
        ds[n] = slopes[n] * along_alpha;
    }
    for (size_t n = 0; n < M; n++, x += C, dy += C, dx += C) {
        real rstd = rstds[n], t = ts[n], g_along = g_alongs[n], d = ds[n];
#pragma omp simd
        for (size_t c = 0; c < C; c++) {
            real xhat = x[c] * rstd, along = dy[c] * xhat;
            dgamma[c] += along;
            dalpha[c] = mul_add(t, along, dalpha[c]);
            dbeta[c] = mul_add(d, x[c], dbeta[c]);
            real g = mul_add(t, alpha[c], gamma[c]) * dy[c];
            dx[c] = mul_add(d, beta[c], rstd * mul_add(-xhat, g_along, g));
        }
    }
}

const struct norm_kind norm_rescaled = {
    .name = "seednorm",
    .full_name = "rescalednorm",
    .formula = "y = (gamma + alpha tanh(sum_c x beta)) x / sqrt(mean_c x^2 + eps), alpha and beta "
               "learned for each channel",
    .source = "Cai et al. 2025, SeeDNorm (arXiv:2510.22777)",
    .options = {&norm_eps},
    .param = {[GAMMA] = {"weight", .start = 1},
              [ALPHA] = {"alpha", .start = 1, .role = NORM_OTHER},
              [BETA] = {"beta", .role = NORM_OTHER}},
    .saved = SAVED,
    .forward = seednorm_forward,
    .backward = seednorm_backward,
};
