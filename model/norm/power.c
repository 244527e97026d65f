/* PowerNorm: each channel is divided by the root of its mean square over the tokens, and not
   centred. The two kinds differ in the mean square that divides and in the term for its gradient,
   whose symbols are explained below:

               forward divides by the root of       backward takes
     pn-v      m, of this batch                     Lambda, of this batch: the exact gradient
     pn        phi, running, before this batch      nu, running, instead of Lambda
     (in evaluation both divide by the root of phi)

   pn-v:
     m = sum_n x^2 / N,  rstd = 1 / sqrt(m + eps),  xhat = x rstd,  y = gamma xhat + beta
   for each channel, with n over the N valid tokens of the batch. Backward, as BatchNorm's without
   the term of the mean: with g = gamma dy and Lambda = sum_n g xhat / N,
     dx = rstd (g - xhat Lambda),  dgamma += sum_n dy xhat,  dbeta += sum_n dy
   The running mean square phi (the paper's psi^2) starts at 1:
     phi <- alpha_fwd phi + (1 - alpha_fwd) m

   pn divides by phi as it was before the batch, xhat = x / sqrt(phi(t-1) + eps), and how earlier
   batches changed phi cannot be differentiated any more. So nu, a running mean that starts at 0,
   replaces Lambda, with Gamma = sum_n xhat^2 / N:

     dx = (g - nu(t-1) xhat) / divisor
     nu(t) = nu(t-1) (1 - (1 - alpha_bkw) Gamma) + (1 - alpha_bkw) Lambda

   In evaluation dx = g / divisor. By design this backward is not the gradient of forward. The first
   --pn-warmup batches use pn-v's forward and backward, and only update phi and nu.

   --pn-group-scaling first divides each token's channels of a head by their root mean square:
   u = x r, r = 1 / sqrt(mean x^2 + eps), with its exact gradient dx = r (du - u mean(du u)).
   --pn-divisor is the root of phi(t-1) + eps, by which forward divided (psi), or of m + eps
   (batch).

   Shen et al. 2020 (arXiv:2003.07845). The authors' code (mask_powernorm.py) differs from the paper:
     - group scaling comes first,
     - the divisor is the batch's,
     - backward uses nu during warm-up too,
     - during warm-up phi is a plain mean, which is then updated by alpha_fwd once more,
     - its ema_gz, which is the state here, is nu / (1 - alpha_bkw).
   Its warm-up is 10000 batches, 4 % and more of long runs. Here it is 200 by default, when phi and
   nu, which average over about ten batches, have settled. The default divisor is the paper's. Group
   scaling is on, because without it gradients have been seen to overflow. */
#include "data/die.h"
#include "model/math/reduce.h"
#include "model/math/vecmath.h"
#include "model/norm/pool.h"

enum { GAMMA, BETA };
enum { RUNNING_PHI, EMA_GZ, ITERS };

static const struct option pn_alpha_fwd = {
    "pn-alpha-fwd", NUMBER(OPTION_REAL, "0.9", 0, 1),
    .help = "weight of earlier batches in the running mean square of pn-v and pn"};

static const struct option pn_alpha_bkw = {
    "pn-alpha-bkw", NUMBER(OPTION_REAL, "0.9", 0, 1),
    .help = "weight of earlier batches in pn's running average of the gradient's component "
            "along x"};

static const struct option pn_warmup = {
    "pn-warmup", NUMBER(OPTION_INT, "200", 0, 1000000000),
    .help = "number of batches at the start in which pn equals pn-v", .limit = "batches"};

static const struct option pn_group_scaling = {
    "pn-group-scaling", OPTION_SWITCH, .start = "on",
    .help = "divide each head's channels of a token by their root mean square before pn",
    .scope = OPTION_OF_MODEL};

enum { DIVISOR_PSI, DIVISOR_BATCH };

static const struct option pn_divisor = {
    "pn-divisor", OPTION_CHOICE, .start = "psi",
    .names = (const char *const[]){[DIVISOR_PSI] = "psi", [DIVISOR_BATCH] = "batch", NULL},
    .help = "what pn's backward pass divides by: the running root mean square, as the forward pass "
            "does (psi), or that of the batch (batch)"};

/* Whether a batch in training is normalized by its own mean square: always where a model is measured,
   and in pn-v, which counts no batches. `counted` is 1 once the batch is one of those counted. */
static bool warms_up(const struct norm *norm, const struct tokens *tokens, int64_t counted) {
    return tokens->source || !norm->batches ||
           *norm->batches - counted < norm_option(norm, &pn_warmup).integer;
}

static bool scales_groups(const struct norm *norm) {
    return norm_option(norm, &pn_group_scaling).integer;
}

/* The number of channels that group scaling normalizes together: those of a head. */
static size_t group_size(const struct norm *norm) {
    return norm->C / norm->heads;
}

static size_t saved_size(const struct norm *norm, size_t B, size_t T) {
    return scales_groups(norm) ? B * T * norm->C : 0;
}

/* u (B,T,C) from row n on. */
static real *scaled(const struct norm *norm, size_t n) {
    return norm->saved + n * norm->C;
}

static real group_rstd(const struct norm *norm, const real *x) {
    size_t size = group_size(norm);
    return 1 /
           sqrt_real(row_dot(size, x, x) / (real)size + (real)norm_option(norm, &norm_eps).real);
}

/* u (rows,C) of some rows. */
static void scale_groups(const struct norm *norm, struct range rows, real *u, const real *x) {
    size_t size = group_size(norm), end = (rows.end - rows.begin) * norm->C;
    for (size_t i = 0; i < end; i += size) {
        real rstd = group_rstd(norm, x + i);
#pragma omp simd
        for (size_t c = 0; c < size; c++) u[i + c] = x[i + c] * rstd;
    }
}

/* dx (rows,C) holds du and becomes the gradient of x. */
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
    struct pool pool = norm->pool;
    struct range channels = pool_channels(norm->C);
    struct range rows = team_part_rows((struct range){tokens->first, tokens->B * tokens->T});
    real *phi = norm->state[RUNNING_PHI];
    real eps = (real)norm_option(norm, &norm_eps).real;
    const real weight = pool_weight(tokens, 1 - norm_option(norm, &pn_alpha_fwd).real);
    bool scales = scales_groups(norm),
         by_batch = norm_option(norm, &pn_divisor).integer == DIVISOR_BATCH;
    bool warmup = tokens->training && warms_up(norm, tokens, 0);
    pool.about_zero = true;
    if (scales) scale_groups(norm, rows, scaled(norm, rows.begin), x + rows.begin * norm->C);
    if (tokens->training) pool_moments(&pool, tokens, scales ? scaled(norm, 0) : x);
    for (size_t c = channels.begin; c < channels.end; c++) {
        pool.rstd[c] = pool.factor[c] = 1 / sqrt_real((warmup ? pool.moment[c] : phi[c]) + eps);
        if (!tokens->training) continue;
        if (by_batch) pool.factor[c] = 1 / sqrt_real(pool.moment[c] + eps);
        phi[c] += weight * (pool.moment[c] - phi[c]);
    }
    if (norm->batches) pool_count_batch(norm, tokens);
}

static void powernorm_forward(const struct norm *norm, const struct tokens *tokens,
                              struct range rows, real *y, const real *x) {
    pool_forward(norm, tokens, rows, y, scales_groups(norm) ? scaled(norm, rows.begin) : x);
}

static void gradient_statistics(const struct norm *norm, const struct tokens *tokens,
                                const real *dy, const real *x) {
    const struct pool *pool = &norm->pool;
    struct range channels = pool_channels(norm->C);
    real *ema_gz = norm->state[EMA_GZ], weight = (real)(1 - norm_option(norm, &pn_alpha_bkw).real);
    const bool warmup = warms_up(norm, tokens, 1);
    pool_gradient_statistics(norm, tokens, dy, scales_groups(norm) ? scaled(norm, 0) : x);
    if (!tokens->training) return;
    for (size_t c = channels.begin; c < channels.end; c++) {
        real lambda = pool->along_xhat[c], nu = ema_gz ? weight * ema_gz[c] : 0;
        real square = pool->moment[c] * pool->rstd[c] * pool->rstd[c]; // Gamma
        pool->along_ones[c] = 0;
        if (!warmup) pool->along_xhat[c] = nu;
        if (ema_gz) ema_gz[c] += lambda - nu * square;
    }
}

static void powernorm_backward(const struct norm *norm, const struct tokens *tokens,
                               struct range rows, real *dx, const real *dy, const real *x,
                               real *const *sum) {
    bool scales = scales_groups(norm);
    const real *u = scales ? scaled(norm, rows.begin) : x;
    pool_backward(norm, tokens, rows, dx, dy, u, sum);
    if (scales) scale_groups_backward(norm, rows, dx, u, x);
}

static void check(const struct norm *norm) {
    if (scales_groups(norm) && norm->C % norm->heads)
        die(STATUS_USAGE, "pn: %zu channels cannot be split among %zu heads", norm->C, norm->heads);
}

const struct norm_kind norm_power_v = {
    .name = "pn-v",
    .full_name = "powernorm-v",
    .formula = "gamma * x / rms_n(x) + beta",
    .source = "Shen et al. 2020, PN-V (arXiv:2003.07845)",
    .options = {&norm_eps, &pn_alpha_fwd},
    .terms = NORM_TERMS_OF_CHANNELS,
    .by_parts = true,
    .param = {[GAMMA] = {"weight", .start = 1}, [BETA] = {"bias", .role = NORM_BETA}},
    .state = {[RUNNING_PHI] = {"running_phi", .start = 1}},
    .saved_size = saved_size,
    .forward = powernorm_forward,
    .backward = powernorm_backward,
    .statistics = statistics,
    .gradient_statistics = gradient_statistics,
};

const struct norm_kind norm_power = {
    .name = "pn",
    .full_name = "powernorm",
    .words = "y = gamma u / sqrt(running mean_n u^2 + eps) + beta, u = x / sqrt(mean x^2 + eps) "
             "over the channels of x's head",
    .source = "Shen et al. 2020, PowerNorm (arXiv:2003.07845)",
    .options = {&norm_eps, &pn_alpha_fwd, &pn_alpha_bkw, &pn_warmup, &pn_group_scaling,
                &pn_divisor},
    .terms = NORM_TERMS_OF_CHANNELS,
    .by_parts = true,
    .param = {[GAMMA] = {"weight", .start = 1}, [BETA] = {"bias", .role = NORM_BETA}},
    .state = {[RUNNING_PHI] = {"running_phi", .start = 1},
              [EMA_GZ] = {"ema_gz", .start = 0},
              [ITERS] = {"iters", .counts = true}},
    .saved_size = saved_size,
    .check = check,
    .forward = powernorm_forward,
    .backward = powernorm_backward,
    .statistics = statistics,
    .gradient_statistics = gradient_statistics,
};
