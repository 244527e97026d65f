/* RMSNorm: each token is divided by the root mean square of its channels, not centred.

     rstd = 1 / sqrt(sum_c x^2 / C + eps),  xhat = x rstd,  y = gamma xhat

   Backward. With g = gamma dy, as in LayerNorm without the term of the mean:
     dx = rstd (g - xhat mean_c(g xhat))
     dgamma += sum over tokens of dy xhat

   Zhang and Sennrich 2019, equation 4 (arXiv:1910.07467); eps inside the root, as PyTorch's and
   LLaMA's RMSNorm have it (the authors' own code adds it outside). No beta. */
#include "model/math/reduce.h"
#include "model/math/vecmath.h"
#include "model/norm/kind.h"

enum { EPS };   // options
enum { GAMMA }; // parameters

/* What is saved of a block, each (M). The loops pass over the block as in layer.c. */
struct saved {
    real *rstd;
    real *g_along; // backward's mean_c(g xhat)
};

static struct saved saved_of(const struct norm *norm, struct range rows) {
    real *saved = norm->saved + 2 * rows.begin;
    return (struct saved){saved, saved + (rows.end - rows.begin)};
}

static size_t saved_size(const struct norm *norm, size_t B, size_t T) {
    return 2 * B * T;
}

static void forward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                    real *y, const real *x) {
    size_t M = rows.end - rows.begin, C = norm->C;
    const real *gamma = norm->param[GAMMA].value; // (C)
    struct saved s = saved_of(norm, rows);
    real eps = (real)norm->option[EPS].real;
    for (size_t n = 0; n < M; n++)
        s.rstd[n] = row_dot(C, x + n * C, x + n * C) / (real)C; // mean_c x^2 for now
    for (size_t n = 0; n < M; n++) s.rstd[n] = 1 / sqrt_real(s.rstd[n] + eps);
    for (size_t n = 0; n < M; n++, x += C, y += C) {
        real rstd = s.rstd[n];
#pragma omp simd
        for (size_t c = 0; c < C; c++) y[c] = x[c] * rstd * gamma[c];
    }
}

static void backward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                     real *dx, const real *dy, const real *x, real *const *sum) {
    size_t M = rows.end - rows.begin, C = norm->C;
    const real *gamma = norm->param[GAMMA].value;
    real *dgamma = sum[GAMMA]; // (C)
    struct saved s = saved_of(norm, rows);
    for (size_t n = 0; n < M; n++)
        s.g_along[n] =
            row_dot_product_about(C, gamma, dy + n * C, x + n * C, 0) * s.rstd[n] / (real)C;
    for (size_t n = 0; n < M; n++, x += C, dy += C, dx += C) {
        real rstd = s.rstd[n], g_along = s.g_along[n];
#pragma omp simd
        for (size_t c = 0; c < C; c++) {
            real xhat = x[c] * rstd;
            dgamma[c] = mul_add(dy[c], xhat, dgamma[c]);
            dx[c] = rstd * mul_add(gamma[c], dy[c], -xhat * g_along);
        }
    }
}

const struct norm_kind norm_rms = {
    .name = "rms",
    .full_name = "rmsnorm",
    .formula = "y = gamma x / sqrt(mean_c x^2 + eps)",
    .source = "Zhang and Sennrich 2019",
    .options = {[EPS] = &norm_eps},
    .over = NORM_OVER_CHANNELS,
    .param = {[GAMMA] = {"weight", .start = 1}},
    .saved_size = saved_size,
    .forward = forward,
    .backward = backward,
};
