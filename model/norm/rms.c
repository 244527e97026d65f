/* RMSNorm: each token is divided by the root mean square of its first K channels, not centred.

     rstd = 1 / sqrt(sum_{c < K} x^2 / K + eps),  xhat = x rstd,  y = gamma xhat

   K = C, unless --rms-fraction=p says K = ceil(p C): partial RMSNorm.

   Backward. With g = gamma dy and a = sum_c(g xhat) / K, the sum over all channels:
     dx = rstd (g - xhat a) for c < K,  dx = rstd g for the other channels
     dgamma += sum over tokens of dy xhat
   With --norm-detach-std rstd is a constant, so dx = rstd g.

   Zhang and Sennrich 2019, equation 4, and pRMSNorm (arXiv:1910.07467); eps inside the root, as
   PyTorch's and LLaMA's RMSNorm have it (the authors' own code adds it outside, and rounds p C
   down). No beta. */
#include "model/math/reduce.h"
#include "model/math/vecmath.h"
#include "model/norm/kind.h"
#include <string.h>

enum { GAMMA }; // parameters
enum { RSTD, A, SAVED };

static const struct option rms_fraction = {
    "rms-fraction", NUMBER(OPTION_REAL, "1", 0, 1),
    .help = "let rms compute the root mean square over this fraction of the channels, from the "
            "first on, but over at least one (partial RMSNorm)",
    .scope = OPTION_OF_MODEL};

/* K. The product of p and C may be above an integer by rounding alone. */
static size_t pooled_channels(const struct norm *norm) {
    double K = ceil(norm_option(norm, &rms_fraction).real * (double)norm->C - 1e-9);
    return K > 1 ? (size_t)K : 1;
}

/* The loops pass over the block as in layer.c. */

static void rmsnorm_forward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                            real *y, const real *x) {
    size_t M = rows.end - rows.begin, C = norm->C, K = pooled_channels(norm);
    const real *gamma = norm->param[GAMMA].value; // (C)
    real *rstd = norm_saved(norm, rows, RSTD), eps = (real)norm_option(norm, &norm_eps).real;
    for (size_t n = 0; n < M; n++)
        rstd[n] = row_dot(K, x + n * C, x + n * C) / (real)K; // the mean square for now
    for (size_t n = 0; n < M; n++) rstd[n] = 1 / sqrt_real(rstd[n] + eps);
    for (size_t n = 0; n < M; n++, x += C, y += C) {
        real r = rstd[n];
#pragma omp simd
        for (size_t c = 0; c < C; c++) y[c] = x[c] * r * gamma[c];
    }
}

static void rmsnorm_backward(const struct norm *norm, const struct tokens *tokens,
                             struct range rows, real *dx, const real *dy, const real *x,
                             real *const *sum) {
    size_t M = rows.end - rows.begin, C = norm->C, K = pooled_channels(norm);
    const real *gamma = norm->param[GAMMA].value;
    real *dgamma = sum[GAMMA]; // (C)
    const real *rstd = norm_saved(norm, rows, RSTD);
    real *a = norm_saved(norm, rows, A);
    for (size_t n = 0; n < M; n++)
        a[n] = row_dot_product_about(C, gamma, dy + n * C, x + n * C, 0) * rstd[n] / (real)K;
    if (norm_option(norm, &norm_detach_std).integer) memset(a, 0, M * sizeof *a);
    for (size_t n = 0; n < M; n++, x += C, dy += C, dx += C) {
        real r = rstd[n], along = a[n];
#pragma omp simd
        for (size_t c = 0; c < K; c++) {
            real xhat = x[c] * r;
            dgamma[c] = mul_add(dy[c], xhat, dgamma[c]);
            dx[c] = r * mul_add(gamma[c], dy[c], -xhat * along);
        }
#pragma omp simd
        for (size_t c = K; c < C; c++) {
            dgamma[c] = mul_add(dy[c], x[c] * r, dgamma[c]);
            dx[c] = r * (gamma[c] * dy[c]);
        }
    }
}

static bool partial(const struct norm *norm) {
    return pooled_channels(norm) < norm->C;
}

const struct norm_kind norm_rms = {
    .name = "rms",
    .full_name = "rmsnorm",
    .formula = "gamma * x / rms_c(x)",
    .source = "Zhang and Sennrich 2019",
    .options = {&norm_eps, &rms_fraction, &norm_detach_std},
    .terms = NORM_TERMS_OF_TOKENS,
    .param = {[GAMMA] = {"weight", .start = 1}},
    .partial = partial,
    .saved = SAVED,
    .forward = rmsnorm_forward,
    .backward = rmsnorm_backward,
};
