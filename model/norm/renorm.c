/* Batch Renormalization: BatchNorm, corrected in training towards its running statistics.

     xhat = (x - mean) / sigma,  sigma = sqrt(var + eps)     mean, var of the batch, as in batch.c
     u = xhat r + d,  y = gamma u + beta
     r = clip(sigma / run_sigma, 1 / r_max, r_max)
     d = clip((mean - run_mean) / run_sigma, -d_max, d_max)

   for each channel, with run_sigma = sqrt(run_var + eps) and the running statistics as they were
   before the batch. Where nothing is clipped, u = (x - run_mean) / run_sigma: training computes
   what evaluation computes. The running statistics are then updated as in bn; evaluation is bn's.

   The first --brn-warmup batches have r_max = 1, d_max = 0 and so are bn. Then, at the batch after
   k others, the limits grow linearly to --brn-r-max and --brn-d-max:
     r_max(k) = 1 + min(1, a) (r_max - 1),  d_max(k) = min(1, a 7/4) d_max
     a = (k - warmup + 1) / relax

   Backward: r and d are constants, so y is bn with gamma r for gamma and gamma d + beta for beta.
   With s = sum_n dy and t = sum_n dy xhat over the N valid tokens,
     dx = gamma r / sigma (dy - s / N - xhat t / N),  dgamma += r t + d s,  dbeta += s

   Ioffe 2017 (arXiv:1702.03275), algorithm 1. The paper averages sigma, here var is averaged,
   without bias, so that the state is bn's. The paper's schedule is r_max = 1, d_max = 0 for 5000
   updates, then r_max = 3 at 40000 and d_max = 5 at 25000, so d_max grows in 4/7 of the time. The
   defaults are this schedule times 0.016, which makes 2000 updates of 125000. */
#include "model/math/vecmath.h"
#include "model/norm/pool.h"

enum { GAMMA, BETA };
enum { RUNNING_MEAN, RUNNING_VAR, BATCHES };

static const struct option brn_r_max = {
    "brn-r-max", NUMBER(OPTION_REAL, "3", 1, 1e9),
    .help = "brn keeps r, the batch's standard deviation divided by the running one, between 1 / X "
            "and X"};

static const struct option brn_d_max = {
    "brn-d-max", NUMBER(OPTION_REAL, "5", 0, 1e9),
    .help = "brn keeps d, the batch's mean minus the running mean, divided by the running standard "
            "deviation, between -X and X"};

static const struct option brn_warmup = {
    "brn-warmup", NUMBER(OPTION_INT, "80", 0, 1000000000),
    .help = "number of batches at the start in which brn equals bn", .limit = "batches"};

static const struct option brn_relax = {
    "brn-relax", NUMBER(OPTION_INT, "560", 0, 1000000000),
    .help = "number of batches after --brn-warmup in which the limit of r rises from 1 to "
            "--brn-r-max; the limit of d rises from 0 to --brn-d-max in the first 4/7 of them"};

/* Saved are, (C) each, r, d and what takes the place of gamma and beta: gamma r, gamma d + beta. */
enum { R, D, SCALE, SHIFT, VECTORS };

static size_t saved_size(const struct norm *norm, size_t B, size_t T) {
    return VECTORS * norm->C;
}

static real *saved_at(const struct norm *norm, size_t i) {
    return norm->saved + i * norm->C;
}

static real clip(real value, real low, real high) {
    return value < low ? low : value > high ? high : value;
}

struct limits {
    real r, d;
};

/* Of the current batch; read before the barrier in pool_norm_statistics(), after which the count
   grows. Where a model is measured they are those of warm-up. */
static struct limits limits_of(const struct norm *norm, const struct tokens *tokens) {
    int64_t batches = *norm->batches, warmup = norm_option(norm, &brn_warmup).integer;
    if (tokens->source || batches < warmup) return (struct limits){1, 0};
    double a = (double)(batches - warmup + 1) /
               (double)norm_option(norm, &brn_relax).integer; // relax may be 0
    double of_r = a < 1 ? a : 1, of_d = a * 7 / 4 < 1 ? a * 7 / 4 : 1;
    return (struct limits){(real)(1 + of_r * (norm_option(norm, &brn_r_max).real - 1)),
                           (real)(of_d * norm_option(norm, &brn_d_max).real)};
}

static void statistics(const struct norm *norm, const struct tokens *tokens, const real *x) {
    const struct limits limits = limits_of(norm, tokens);
    const struct pool *pool = &norm->pool;
    struct range channels = pool_channels(norm->C);
    const real *mean = norm->state[RUNNING_MEAN], *var = norm->state[RUNNING_VAR]; // (C)
    real *r = saved_at(norm, R), *d = saved_at(norm, D),
         eps = (real)norm_option(norm, &norm_eps).real;
    real *scale = saved_at(norm, SCALE), *shift = saved_at(norm, SHIFT);
    for (size_t c = channels.begin; c < channels.end; c++) { // for now of the running statistics
        r[c] = sqrt_real(var[c] + eps);
        d[c] = mean[c];
    }
    pool_norm_statistics(norm, tokens, x);
    for (size_t c = channels.begin; c < channels.end; c++) {
        const bool corrected = tokens->training;
        const real run_sigma = r[c];
        r[c] = corrected ? clip(1 / (pool->rstd[c] * run_sigma), 1 / limits.r, limits.r) : 1;
        d[c] = corrected ? clip((pool->mean[c] - d[c]) / run_sigma, -limits.d, limits.d) : 0;
        pool->factor[c] *= r[c]; // r / sigma
        scale[c] = norm->gamma[c] * r[c];
        shift[c] = mul_add(norm->gamma[c], d[c], norm->beta[c]);
    }
}

static void renorm_forward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                           real *y, const real *x) {
    struct norm scaled = *norm;
    scaled.gamma = saved_at(norm, SCALE);
    scaled.beta = saved_at(norm, SHIFT);
    pool_forward(&scaled, tokens, rows, y, x);
}

static void gradient_statistics(const struct norm *norm, const struct tokens *tokens,
                                const real *dy, const real *x) {
    pool_gradients(norm, tokens, dy, x, 1, saved_at(norm, R), saved_at(norm, D));
}

const struct norm_kind norm_renorm = {
    .name = "brn",
    .full_name = "batchrenorm",
    .words = "y = gamma ((x - mean_n x) / sqrt(var_n x + eps) r + d) + beta, r = batch std / "
             "running std, d = (batch mean - running mean) / running std, both clipped",
    .source = "Ioffe 2017, Batch Renormalization (arXiv:1702.03275)",
    .options = {&norm_eps, &norm_momentum, &brn_r_max, &brn_d_max, &brn_warmup, &brn_relax},
    .terms = NORM_TERMS_OF_CHANNELS,
    .by_parts = true,
    .centred = true,
    .param = {[GAMMA] = {"weight", .start = 1}, [BETA] = {"bias", .role = NORM_BETA}},
    .state = {[RUNNING_MEAN] = {"running_mean", .start = 0},
              [RUNNING_VAR] = {"running_var", .start = 1},
              [BATCHES] = {"num_batches_tracked", .counts = true}},
    .saved_size = saved_size,
    .forward = renorm_forward,
    .backward = pool_backward,
    .statistics = statistics,
    .gradient_statistics = gradient_statistics,
};
