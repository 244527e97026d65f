/* PowerNorm: each channel is divided by the root of its mean square over the tokens, not centred.

   pn-v takes the mean square of the batch at hand:
     m = sum_n x^2 / N,  rstd = 1 / sqrt(m + eps),  xhat = x rstd,  y = gamma xhat + beta
   Backward, as BatchNorm's without the term of the mean: with t = sum_n dy xhat,
     dx = gamma rstd (dy - xhat t / N),  dgamma += t,  dbeta += sum_n dy
   In evaluation m is the running mean square
     phi <- alpha_fwd phi + (1 - alpha_fwd) m,  1 at first

   n are the N valid tokens of the batch, for each channel.

   Shen et al. 2020, section 4.1 (arXiv:2003.07845). */
#include "norm_pool.h"
#include "vecmath.h"

enum { RUNNING_PHI };

static struct pool pool_of(const struct norm *norm) {
    return pool_at(norm->saved, norm->C);
}

static size_t saved_v(const struct norm *norm, size_t B, size_t T) {
    return pool_size(B, T, norm->C);
}

static void statistics_v(const struct norm *norm, const struct tokens *tokens, const real *x) {
    struct pool pool = pool_of(norm);
    struct rows channels = pool_channels(norm->C);
    real *phi = norm->state[RUNNING_PHI];
    real eps = (real)norm->options.eps, moved = (real)(1 - norm->options.pn_alpha_fwd);
    if (tokens->training) pool_moments(&pool, tokens, x, false);
    for (size_t c = channels.begin; c < channels.end; c++) {
        pool.mean[c] = 0;
        pool.rstd[c] = pool.divide[c] =
            1 / sqrt_real((tokens->training ? pool.moment[c] : phi[c]) + eps);
        if (tokens->training) phi[c] += moved * (pool.moment[c] - phi[c]);
    }
}

static void forward_v(const struct norm *norm, const struct tokens *tokens, struct rows rows,
                      real *y, const real *x) {
    (void)tokens;
    struct pool pool = pool_of(norm);
    pool_forward(&pool, rows, &norm->param[0], &norm->param[1], y, x);
}

static void gradient_statistics_v(const struct norm *norm, const struct tokens *tokens,
                                  const real *dy, const real *x) {
    struct pool pool = pool_of(norm);
    struct rows channels = pool_channels(norm->C);
    pool_gradient_sums(&pool, tokens, dy, x);
    pool_parameter_gradients(&pool, &norm->param[0], &norm->param[1]);
    pool_exact_backward(&pool, tokens, norm->param[0].value);
    for (size_t c = channels.begin; c < channels.end; c++) pool.along_one[c] = 0;
}

static void backward_v(const struct norm *norm, const struct tokens *tokens, struct rows rows,
                       real *dx, const real *dy, const real *x, real *const *sum) {
    (void)sum;
    struct pool pool = pool_of(norm);
    pool_backward(&pool, tokens, rows, norm->param[0].value, dx, dy, x);
}

const struct norm_kind norm_power_v = {
    .name = "pn-v",
    .formula = "y = gamma x / sqrt(mean_n x^2 + eps) + beta, n over the batch's tokens",
    .source = "Shen et al. 2020, PN-V",
    .param = {{"weight", .start = 1}, {"bias", .role = NORM_BETA}},
    .state = {{"running_phi", .start = 1}},
    .saved = saved_v,
    .forward = forward_v,
    .backward = backward_v,
    .statistics = statistics_v,
    .gradient_statistics = gradient_statistics_v,
};
