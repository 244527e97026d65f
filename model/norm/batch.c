/* BatchNorm: each channel is normalized over the valid tokens of the batch.

     mean = sum_n x / N,  var = sum_n (x - mean)^2 / N,  rstd = 1 / sqrt(var + eps)
     xhat = (x - mean) rstd,  y = gamma xhat + beta       n over the N valid tokens, for each
   channel

   In evaluation mean and var are the running statistics, which training moves by
     running <- (1 - momentum) running + momentum batch,  with the unbiased variance N / (N-1) var.

   Backward, as LayerNorm's over the other axis: with s = sum_n dy and t = sum_n dy xhat,
     dx = gamma rstd (dy - s / N - xhat t / N),  dgamma += t,  dbeta += s
   which norm_pool.c computes, pads and all.

   Regularized BatchNorm (--rbn-mean l_mu, --rbn-var l_s) adds to the loss of a batch, at each norm,
     l_mu sum_c (mean - running mean)^2 + l_s sum_c (sigma - running sigma)^2
   with sigma = sqrt(var + eps) and the running statistics, which have moved already, as constants.
   Only the gradient holds it, not the loss that is logged. As d mean / dx = 1 / N and
   d sigma / dx = xhat / N, the dx of a valid token gets
     2 / N (l_mu (mean - running mean) + l_s (sigma - running sigma) xhat)
   more, times the share that the batch's mean loss has in the gradient.

   Ioffe and Szegedy 2015, algorithms 1 and 2 (arXiv:1502.03167); semantics of PyTorch's
   BatchNorm1d. Wang et al. 2022 (arXiv:2210.05153), as the penalty `diff2` of the authors' code
   (mask_batchnorm3d.py), but for three things: it adds the penalty to the sum of the tokens'
   losses, so that its weights are N times those here; its running variance is the biased one; its
   sigma lacks eps, and so has no slope where all x are equal. Their runs take the penalty `diff`,
   with |var - running var| in the second term. --bn-axis=batch is norm_position.c's. */
#include "model/math/vecmath.h"
#include "model/norm/pool.h"
#include <math.h>

extern const struct norm_kind norm_position;

enum { RUNNING_MEAN, RUNNING_VAR };

static struct pool pool_of(const struct norm *norm) {
    return pool_at(norm->saved, norm->C);
}

static size_t saved(const struct norm *norm, size_t B, size_t T) {
    return pool_size(B, T, norm->C);
}

static void statistics(const struct norm *norm, const struct tokens *tokens, const real *x) {
    struct pool pool = pool_of(norm);
    struct range channels = pool_channels(norm->C);
    real *mean = norm->state[RUNNING_MEAN], *var = norm->state[RUNNING_VAR]; // (C)
    real eps = (real)norm->options.eps, momentum = (real)norm->options.bn_momentum;
    if (!tokens->training) {
        pool_recall(&pool, mean, var, eps);
        return;
    }
    pool_track(&pool, tokens, x, mean, var, momentum, eps);
    if (channels.begin == 0 && channels.end > 0) *norm->batches += 1;
}

static void forward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                    real *y, const real *x) {
    struct pool pool = pool_of(norm);
    pool_forward(&pool, tokens, rows, &norm->param[0], &norm->param[1], y, x);
}

/* The penalty's part of dx, in what backward subtracts before it divides by sigma. */
static void add_penalty(const struct norm *norm, const struct pool *pool,
                        const struct tokens *tokens) {
    struct range channels = pool_channels(norm->C);
    const real *running_mean = norm->state[RUNNING_MEAN], *running_var = norm->state[RUNNING_VAR];
    size_t valid = pool_count(tokens);
    double share = 2 * tokens->scale / (double)(valid ? valid : 1);
    real of_mean = (real)(share * norm->options.rbn_mean);
    real of_sigma = (real)(share * norm->options.rbn_var), eps = (real)norm->options.eps;
    for (size_t c = channels.begin; c < channels.end; c++) {
        real sigma = 1 / pool->rstd[c], apart = sigma - sqrt_real(running_var[c] + eps);
        pool->along_one[c] -= of_mean * (pool->mean[c] - running_mean[c]) * sigma;
        pool->along_x[c] -= of_sigma * apart * sigma;
    }
}

static double penalty(const struct norm *norm) {
    struct pool pool = pool_of(norm);
    double sum = 0, eps = norm->options.eps;
    for (size_t c = 0; c < norm->C; c++) {
        double mean = (double)(pool.mean[c] - norm->state[RUNNING_MEAN][c]);
        double sigma = 1 / (double)pool.rstd[c] - sqrt((double)norm->state[RUNNING_VAR][c] + eps);
        sum += norm->options.rbn_mean * mean * mean + norm->options.rbn_var * sigma * sigma;
    }
    return sum;
}

static void gradient_statistics(const struct norm *norm, const struct tokens *tokens,
                                const real *dy, const real *x) {
    struct pool pool = pool_of(norm);
    pool_gradient_sums(&pool, tokens, dy, x);
    pool_parameter_gradients(&pool, &norm->param[0], &norm->param[1]);
    pool_exact_backward(&pool, tokens, norm->param[0].value);
    if (norm->options.rbn_mean > 0 || norm->options.rbn_var > 0) add_penalty(norm, &pool, tokens);
}

static void backward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                     real *dx, const real *dy, const real *x, real *const *sum) {
    (void)sum;
    struct pool pool = pool_of(norm);
    pool_backward(&pool, tokens, rows, norm->param[0].value, dx, dy, x);
}

const struct norm_kind norm_batch = {
    .name = "bn",
    .full_name = "batchnorm",
    .formula = "y = gamma (x - mean_n x) / sqrt(var_n x + eps) + beta, n over the batch's tokens",
    .source = "Ioffe and Szegedy 2015",
    .options = "norm-eps bn-momentum bn-axis rbn-mean rbn-var pad-stats",
    .over = NORM_OVER_TOKENS,
    .centred = true,
    .param = {{"weight", .start = 1}, {"bias", .role = NORM_BETA}},
    .state = {{"running_mean", .start = 0},
              {"running_var", .start = 1},
              {"num_batches_tracked", .counts = true}},
    .by_position = &norm_position,
    .saved = saved,
    .forward = forward,
    .backward = backward,
    .statistics = statistics,
    .gradient_statistics = gradient_statistics,
    .penalty = penalty,
};
