/* PowerNorm: each channel is divided by the root of its mean square over the tokens, not centred.

   pn-v takes the mean square of the batch at hand:
     m = sum_n x^2 / N,  rstd = 1 / sqrt(m + eps),  xhat = x rstd,  y = gamma xhat + beta
   n are the N valid tokens of the batch, for each channel. Backward, as BatchNorm's without the
   term of the mean: with g = gamma dy and Lambda = sum_n g xhat / N,
     dx = rstd (g - xhat Lambda),  dgamma += sum_n dy xhat,  dbeta += sum_n dy
   In evaluation m is the running mean square phi (the paper's psi^2), 1 at first:
     phi <- alpha_fwd phi + (1 - alpha_fwd) m

   pn takes phi in training too, as it was before the batch: xhat = x / sqrt(phi(t-1) + eps). What
   former batches did to phi cannot be derived any more; instead nu, a running mean that starts at
   0, stands for Lambda, with Gamma = sum_n xhat^2 / N:

     dx = (g - nu(t-1) xhat) / divisor
     nu(t) = nu(t-1) (1 - (1 - alpha_bkw) Gamma) + (1 - alpha_bkw) Lambda

   In evaluation dx = g / divisor. This backward is no gradient of forward, by design. The first
   --pn-warmup batches are pn-v's, forward and backward, and only move phi and nu.

   --pn-group-scaling divides, before all that, each token's channels of a head by their root mean
   square: u = x r, r = 1 / sqrt(mean x^2 + eps), exactly derived: dx = r (du - u mean(du u)).
   --pn-divisor: psi, the root of phi(t-1) + eps, by which forward divided; or batch, of m + eps.

   Shen et al. 2020 (arXiv:2003.07845). The authors' code (mask_powernorm.py) departs from the
   paper: group scaling comes first; the divisor is the batch's; backward uses nu during warm-up
   too; phi is, during warm-up, a plain mean that is then moved by alpha_fwd once more. Its ema_gz,
   which is the state here, is nu / (1 - alpha_bkw): the same recurrence, only scaled. Its warm-up
   is 10000 batches, 4 % and more of long runs; the default here is 200, a tenth of 2000 updates and
   twice the rate's warm-up: phi and nu, which remember some ten batches, are settled then. The
   default divisor is the paper's: forward's own. Group scaling is on, as without it gradients have
   been seen to overflow. */
#include "data/die.h"
#include "model/math/reduce.h"
#include "model/math/vecmath.h"
#include "model/norm/pool.h"

enum { RUNNING_PHI, EMA_GZ };

static struct pool pool_of(const struct norm *norm) {
    return pool_at(norm->saved, norm->C);
}

static size_t saved_v(const struct norm *norm, size_t B, size_t T) {
    return pool_size(B, T, norm->C);
}

static void statistics_v(const struct norm *norm, const struct tokens *tokens, const real *x) {
    struct pool pool = pool_of(norm);
    struct range channels = pool_channels(norm->C);
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

static void forward_v(const struct norm *norm, const struct tokens *tokens, struct range rows,
                      real *y, const real *x) {
    struct pool pool = pool_of(norm);
    pool_forward(&pool, tokens, rows, &norm->param[0], &norm->param[1], y, x);
}

static void gradient_statistics_v(const struct norm *norm, const struct tokens *tokens,
                                  const real *dy, const real *x) {
    struct pool pool = pool_of(norm);
    struct range channels = pool_channels(norm->C);
    pool_gradient_sums(&pool, tokens, dy, x);
    pool_parameter_gradients(&pool, &norm->param[0], &norm->param[1]);
    pool_exact_backward(&pool, tokens, norm->param[0].value);
    for (size_t c = channels.begin; c < channels.end; c++) pool.along_one[c] = 0;
}

static void backward_v(const struct norm *norm, const struct tokens *tokens, struct range rows,
                       real *dx, const real *dy, const real *x, real *const *sum) {
    (void)sum;
    struct pool pool = pool_of(norm);
    pool_backward(&pool, tokens, rows, norm->param[0].value, dx, dy, x);
}

const struct norm_kind norm_power_v = {
    .name = "pn-v",
    .full_name = "powernorm-v",
    .formula = "y = gamma x / sqrt(mean_n x^2 + eps) + beta, n over the batch's tokens",
    .source = "Shen et al. 2020, PN-V (arXiv:2003.07845)",
    .options = "norm-eps pn-alpha-fwd pad-stats",
    .over = NORM_OVER_TOKENS,
    .param = {{"weight", .start = 1}, {"bias", .role = NORM_BETA}},
    .state = {{"running_phi", .start = 1}},
    .saved = saved_v,
    .forward = forward_v,
    .backward = backward_v,
    .statistics = statistics_v,
    .gradient_statistics = gradient_statistics_v,
};

/* The channels of a head, of a norm with group scaling. */
static size_t group_size(const struct norm *norm) {
    return norm->C / (size_t)norm->options.heads;
}

static size_t saved(const struct norm *norm, size_t B, size_t T) {
    return pool_size(B, T, norm->C) + (norm->options.pn_group_scaling ? B * T * norm->C : 0);
}

/* What pools, from row n on: u (B,T,C), which lies behind the pool, or x. */
static real *scaled(const struct norm *norm, const struct tokens *tokens, size_t n) {
    return norm->saved + pool_size(tokens->B, tokens->T, norm->C) + n * norm->C;
}

static real group_rstd(const struct norm *norm, const real *x) {
    size_t size = group_size(norm);
    return 1 / sqrt_real(row_dot(size, x, x) / (real)size + (real)norm->options.eps);
}

/* u (rows,C) of a block of rows. */
static void scale_groups(const struct norm *norm, struct range rows, real *u, const real *x) {
    size_t size = group_size(norm), end = (rows.end - rows.begin) * norm->C;
    for (size_t i = 0; i < end; i += size) {
        real rstd = group_rstd(norm, x + i);
#pragma omp simd
        for (size_t c = 0; c < size; c++) u[i + c] = x[i + c] * rstd;
    }
}

/* dx (rows,C) = du turned into the gradient of x. */
static void scale_groups_backward(const struct norm *norm, struct range rows, real *dx,
                                  const real *u, const real *x) {
    size_t size = group_size(norm), end = (rows.end - rows.begin) * norm->C;
    for (size_t i = 0; i < end; i += size) {
        real rstd = group_rstd(norm, x + i), along = row_dot(size, dx + i, u + i) / (real)size;
#pragma omp simd
        for (size_t c = 0; c < size; c++) dx[i + c] = rstd * (dx[i + c] - u[i + c] * along);
    }
}

static void statistics(const struct norm *norm, const struct tokens *tokens, const real *x) {
    const struct norm_options *o = &norm->options;
    struct pool pool = pool_of(norm);
    struct range channels = pool_channels(norm->C), own = team_part(tokens->B * tokens->T, ROWS);
    real *phi = norm->state[RUNNING_PHI];
    real eps = (real)o->eps, moved = (real)(1 - o->pn_alpha_fwd);
    bool warm = tokens->training && *norm->batches < o->pn_warmup;
    if (tokens->training) {
        for (size_t n = own.begin; o->pn_group_scaling && n < own.end; n += ROWS)
            scale_groups(norm, team_row_block(n, own), scaled(norm, tokens, n), x + n * norm->C);
        pool_moments(&pool, tokens, o->pn_group_scaling ? scaled(norm, tokens, 0) : x, false);
    }
    for (size_t c = channels.begin; c < channels.end; c++) {
        pool.mean[c] = 0;
        pool.rstd[c] = pool.divide[c] = 1 / sqrt_real((warm ? pool.moment[c] : phi[c]) + eps);
        if (!tokens->training) continue;
        if (o->pn_divisor == PN_DIVISOR_BATCH) pool.divide[c] = 1 / sqrt_real(pool.moment[c] + eps);
        phi[c] += moved * (pool.moment[c] - phi[c]);
    }
    if (tokens->training && channels.begin == 0 && channels.end > 0) *norm->batches += 1;
}

static void forward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                    real *y, const real *x) {
    struct pool pool = pool_of(norm);
    real *u = scaled(norm, tokens, rows.begin);
    if (norm->options.pn_group_scaling && !tokens->training) scale_groups(norm, rows, u, x);
    pool_forward(&pool, tokens, rows, &norm->param[0], &norm->param[1], y,
                 norm->options.pn_group_scaling ? u : x);
}

static void gradient_statistics(const struct norm *norm, const struct tokens *tokens,
                                const real *dy, const real *x) {
    const struct norm_options *o = &norm->options;
    struct pool pool = pool_of(norm);
    struct range channels = pool_channels(norm->C);
    real *ema_gz = norm->state[EMA_GZ], moved = (real)(1 - o->pn_alpha_bkw);
    bool warm = *norm->batches <= o->pn_warmup; // this batch is counted
    pool_gradient_sums(&pool, tokens, dy, o->pn_group_scaling ? scaled(norm, tokens, 0) : x);
    pool_parameter_gradients(&pool, &norm->param[0], &norm->param[1]);
    if (!tokens->training) return;
    pool_exact_backward(&pool, tokens, norm->param[0].value);
    for (size_t c = channels.begin; c < channels.end; c++) {
        real lambda = pool.along_x[c], nu = moved * ema_gz[c];
        real square = pool.moment[c] * pool.rstd[c] * pool.rstd[c]; // Gamma
        pool.along_one[c] = 0;
        if (!warm) pool.along_x[c] = nu;
        ema_gz[c] += lambda - nu * square;
    }
}

static void backward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                     real *dx, const real *dy, const real *x, real *const *sum) {
    (void)sum;
    struct pool pool = pool_of(norm);
    bool groups = norm->options.pn_group_scaling;
    const real *u = groups ? scaled(norm, tokens, rows.begin) : x;
    pool_backward(&pool, tokens, rows, norm->param[0].value, dx, dy, u);
    if (groups) scale_groups_backward(norm, rows, dx, u, x);
}

static void check(const struct norm_options *options, size_t C) {
    if (options->pn_group_scaling && C % (size_t)options->heads)
        die(STATUS_USAGE, "pn: %zu channels cannot be split among %lld heads", C,
            (long long)options->heads);
}

const struct norm_kind norm_power = {
    .name = "pn",
    .full_name = "powernorm",
    .formula = "y = gamma u / sqrt(running mean_n u^2 + eps) + beta, u = x / rms of x in its head",
    .source = "Shen et al. 2020, PowerNorm (arXiv:2003.07845)",
    .options = "norm-eps pn-alpha-fwd pn-alpha-bkw pn-warmup pn-group-scaling pn-divisor "
               "pad-stats",
    .over = NORM_OVER_TOKENS,
    .param = {{"weight", .start = 1}, {"bias", .role = NORM_BETA}},
    .state = {{"running_phi", .start = 1}, {"ema_gz", .start = 0}, {"iters", .counts = true}},
    .saved = saved,
    .check = check,
    .forward = forward,
    .backward = backward,
    .statistics = statistics,
    .gradient_statistics = gradient_statistics,
};
