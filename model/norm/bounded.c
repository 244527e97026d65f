/* BHyT (Bounded Hyperbolic Tangent): RMSNorm (rms.c), then tanh.

     rstd = 1 / sqrt(sum_c x^2 / C + eps),  r = lambda rstd / kappa
     y = gamma tanh(r x)                             lambda one learned number, kappa a constant

   The argument of tanh has the root mean square lambda / kappa, initially 0.2, so tanh bounds the
   few large channels and is nearly linear elsewhere. So y is smaller than RMSNorm's by about this
   factor.

   Backward. With h = gamma dy (1 - tanh^2(r x)), the gradient of the argument, and xhat = x rstd:
     dx = r (h - xhat mean_c(h xhat))
     dlambda += sum over tokens and channels of h xhat / kappa
     dgamma += sum over tokens of dy tanh(r x)
   tanh is computed again, which is cheaper than saving it.

   Byun et al. 2026 (arXiv:2601.09719) and the authors' code: its BHyT*, with lambda learned as in
   its configurations. Their BHyT is the same before attention; before the MLP it does not measure
   the mean square of x but estimates it from that before attention, to save time. Here each norm
   measures its own. Before the head their recipe has RMSNorm (--norm-final=rms): with BHyT
   before a tied head the logits would initially be too small. */
#include "model/math/reduce.h"
#include "model/math/vecmath.h"
#include "model/norm/kind.h"

enum { GAMMA, LAMBDA };        // parameters
enum { RSTD, H_ALONG, SAVED }; // saved, with backward's mean_c(h xhat)

static const struct option bhyt_kappa = {"bhyt-kappa",
                                         OPTION_REAL,
                                         .start = "10",
                                         .min = 1e-3,
                                         .max = 1e6,
                                         .help = "constant by which bhyt divides lambda",
                                         .scope = OPTION_OF_MODEL};

/* lambda / kappa */
static real bound(const struct norm *norm) {
    return norm->param[LAMBDA].value[0] / (real)norm_option(norm, &bhyt_kappa).real;
}

/* The loops pass over the block as in layer.c. */

static void bhyt_forward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                         real *y, const real *x) {
    size_t M = rows.end - rows.begin, C = norm->C;
    const real *gamma = norm->param[GAMMA].value; // (C)
    real *rstd = norm_saved(norm, rows, RSTD);
    real eps = (real)norm_option(norm, &norm_eps).real, scale = bound(norm);
    for (size_t n = 0; n < M; n++)
        rstd[n] = row_dot(C, x + n * C, x + n * C) / (real)C; // the mean square for now
    for (size_t n = 0; n < M; n++) rstd[n] = 1 / sqrt_real(rstd[n] + eps);
    for (size_t n = 0; n < M; n++, x += C, y += C) {
        real r = scale * rstd[n];
#pragma omp simd
        for (size_t c = 0; c < C; c++) y[c] = gamma[c] * tanh_real(r * x[c]);
    }
}

static void bhyt_backward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                          real *dx, const real *dy, const real *x, real *const *sum) {
    size_t M = rows.end - rows.begin, C = norm->C;
    const real *gamma = norm->param[GAMMA].value;
    real *dgamma = sum[GAMMA], *dlambda = sum[LAMBDA]; // (C), one
    const real *rstd = norm_saved(norm, rows, RSTD);
    real *h_along = norm_saved(norm, rows, H_ALONG);
    real scale = bound(norm), inverse_kappa = 1 / (real)norm_option(norm, &bhyt_kappa).real;
    for (size_t n = 0; n < M; n++) {
        const real *dy_n = dy + n * C, *x_n = x + n * C;
        real *h = dx + n * C, r = scale * rstd[n];
#pragma omp simd
        for (size_t c = 0; c < C; c++) {
            real f = tanh_real(r * x_n[c]);
            dgamma[c] = mul_add(dy_n[c], f, dgamma[c]);
            h[c] = gamma[c] * dy_n[c] * (1 - f * f);
        }
    }
    for (size_t n = 0; n < M; n++) {
        real along = row_dot(C, dx + n * C, x + n * C) * rstd[n];
        *dlambda = mul_add(along, inverse_kappa, *dlambda);
        h_along[n] = along / (real)C;
    }
    for (size_t n = 0; n < M; n++, x += C, dx += C) {
        real r = rstd[n], along = h_along[n];
#pragma omp simd
        for (size_t c = 0; c < C; c++) dx[c] = scale * r * mul_add(-x[c] * r, along, dx[c]);
    }
}

static size_t bhyt_saturated(const struct norm *norm, const real *x) {
    size_t C = norm->C, count = 0;
    real eps = (real)norm_option(norm, &norm_eps).real;
    real r = bound(norm) / sqrt_real(row_dot(C, x, x) / (real)C + eps);
    for (size_t c = 0; c < C; c++) {
        real f = tanh_real(r * x[c]);
        count += f > NORM_SATURATED || f < -NORM_SATURATED;
    }
    return count;
}

static const struct option bhyt_lambda = {
    "bhyt-lambda", OPTION_REAL, .start = "2", .max = 1000,
    .help = "initial value of lambda in bhyt, which its authors combine with --norm-final=rms"};

const struct norm_kind norm_bounded = {
    .name = "bhyt",
    .full_name = "boundedtanh",
    .formula = "y = gamma tanh((lambda / kappa) x / sqrt(mean_c x^2 + eps)), lambda one learned "
               "number",
    .source = "Byun et al. 2026, BHyT (arXiv:2601.09719)",
    .options = {&norm_eps, &bhyt_lambda, &bhyt_kappa},
    .param = {[GAMMA] = {"weight", .start = 1},
              [LAMBDA] = {"lam", .scalar = true, .dimensions = 1, .role = NORM_OTHER,
                          .start_option = &bhyt_lambda}},
    .saved = SAVED,
    .forward = bhyt_forward,
    .backward = bhyt_backward,
    .saturated = bhyt_saturated,
};
