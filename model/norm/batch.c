/* BatchNorm and InstanceNorm: each channel is normalized by itself, over several tokens. For the
   value X of a channel, those marked o; pads do not count. pool.h has what the variants share.

                 bn                 bn --bn-shards=2, in   bn --bn-axis=batch
                 sequence 1 2       sequence 1 2           sequence 1 2
       token 1            o o                o .                    . .
       token 2            X o                X .                    X o
       token 3            o o                o .                    . .

     mean = sum_n x / N,  var = sum_n (x - mean)^2 / N,  rstd = 1 / sqrt(var + eps)
     xhat = (x - mean) rstd,  y = gamma xhat + beta

   with n over the N marked tokens. In the first two columns X depends on a later token of its own
   sequence, in the last one it does not, so that one is causal in training too.

   In evaluation mean and var are the running statistics. Training updates them, with the unbiased
   variance N / (N-1) var, by
     running <- (1 - momentum) running + momentum batch

   Backward, as LayerNorm's over the other axis: with s = sum_n dy and t = sum_n dy xhat,
     dx = gamma rstd (dy - s / N - xhat t / N),  dgamma += t,  dbeta += s
   which pool.c computes, pads included. With --norm-detach-mean the term with s is missing, with
   --norm-detach-std the one with t.

   InstanceNorm (in) has statistics for each sequence. Its running statistics, of which evaluation
   needs one set for all sequences, are those of PyTorch's InstanceNorm1d with track_running_stats.
   PyTorch has num_batches_tracked too, but leaves it at 0; here it counts.

   --bn-axis=batch has running statistics (T,C), but gamma and beta (C): it is PyTorch's BatchNorm1d
   of (B, T C) with gamma and beta repeated.

   --bn-shards=k splits the batch's sequences into k shards: ghost batch norm, as in data-parallel
   training on k devices without synchronized statistics. Running statistics move by the mean over
   the shards of their means and of their unbiased variances. With fewer sequences than shards each
   sequence is a shard.

   Regularized BatchNorm (--rbn-mean l_mu, --rbn-var l_s) adds to the loss of a batch, at each norm,
     l_mu sum_c (mean - running mean)^2 + l_s sum_c (sigma - running sigma)^2
   with sigma = sqrt(var + eps). The running statistics are those after the batch's update, taken as
   constants. Only the gradient has this penalty; the logged loss has not. As d mean / dx = 1 / N
   and d sigma / dx = xhat / N, it adds to the dx of a valid token
     2 / N (l_mu (mean - running mean) + l_s (sigma - running sigma) xhat)
   times the weight of the batch's mean loss in the gradient.

   Ioffe and Szegedy 2015, algorithms 1 and 2 (arXiv:1502.03167); semantics of PyTorch's
   BatchNorm1d. Ulyanov, Vedaldi and Lempitsky 2016 (arXiv:1607.08022), who use each instance's own
   statistics in evaluation too; in a text that grows, every new token would then change the earlier
   ones. Hoffer, Hubara and Soudry 2017 (arXiv:1705.08741), ghost batch norm. Wang et al.
   2022 (arXiv:2210.05153), regularized BatchNorm; in the authors' code (mask_batchnorm3d.py,
   penalty `diff2`)
     - the penalty is added to the sum of the tokens' losses, so weights are N times those here,
     - the running variance is the biased one,
     - sigma lacks eps, and so has no gradient where all x are equal.
   Their experiments use another penalty, `diff`, with |var - running var| in the second term. */
#include "data/die.h"
#include "model/math/vecmath.h"
#include "model/norm/pool.h"
#include <math.h>

// in has the first two, the others are 0
enum { AXIS_BATCH_TIME, AXIS_BATCH };
enum { GAMMA, BETA };
enum { RUNNING_MEAN, RUNNING_VAR, BATCHES };

static const struct option bn_axis = {
    "bn-axis",
    OPTION_CHOICE,
    .start = "batch+time",
    .names = (const char *const[]){[AXIS_BATCH_TIME] = "batch+time", [AXIS_BATCH] = "batch", NULL},
    .help = "what bn averages over: all tokens of the batch (batch+time), or the tokens at each "
            "position (batch), which is causal. In norms of queries, keys and values by head, "
            "batch+time also averages over the heads, whereas batch keeps each head apart. Do not "
            "combine batch with --items: all items start with the same token, so its variance is 0",
    .scope = OPTION_OF_MODEL};

/* Positions are those of the full batch. */
static const struct option bn_shards = {
    "bn-shards", NUMBER(OPTION_INT, "1", 1, 1e9),
    .help = "cut the batch into N shards, each of which bn normalizes by itself (ghost batch "
            "normalization)",
    .limit = "sequences"};

static const struct option rbn_mean = {
    "rbn-mean", NUMBER(OPTION_REAL, "0", 0, 1e9),
    .help = "weight of a penalty in the training objective for (mean - running mean)^2 of each "
            "channel (regularized BatchNorm)"};

static const struct option rbn_var = {
    "rbn-var", NUMBER(OPTION_REAL, "0", 0, 1e9),
    .help = "weight of a penalty in the training objective for (standard deviation - running "
            "standard deviation)^2 of each channel (regularized BatchNorm)"};

static bool penalized(const struct norm *norm) {
    return norm_option(norm, &rbn_mean).real > 0 || norm_option(norm, &rbn_var).real > 0;
}

static bool by_axis(const struct norm *norm) {
    return norm_option(norm, &bn_axis).integer == AXIS_BATCH;
}

static bool by_position(const struct norm *norm, const struct tokens *tokens) {
    return by_axis(norm) || tokens->source == STATISTICS_POSITION;
}

/* A rank without sequences has an empty set. */
static size_t sets(const struct norm *norm, const struct tokens *tokens) {
    if (norm->kind->by_position && by_position(norm, tokens)) return tokens->T;
    const size_t shards = (size_t)norm_option(norm, &bn_shards).integer; // 0 in `in`
    return size_max(1, shards ? size_min(shards, tokens->B) : tokens->B);
}

/* Nothing flows through a statistic whose term (sets,C) this is. */
static void detach(const struct norm *norm, real *term) {
    struct range channels = pool_channels(norm->C);
    for (size_t i = 0; i < norm->pool.sets; i++)
        for (size_t c = channels.begin; c < channels.end; c++) term[i * norm->C + c] = 0;
}

/* Adds the penalty's part of dx to what pool_backward() subtracts before it divides by sigma. */
static void add_penalty(const struct norm *norm, const struct tokens *tokens) {
    const struct pool *pool = &norm->pool;
    struct range channels = pool_channels(norm->C);
    const real *running_mean = norm->state[RUNNING_MEAN], *running_var = norm->state[RUNNING_VAR];
    size_t valid = pool_count(pool, tokens, 0);
    double per_token = 2 * tokens->scale / (double)(valid ? valid : 1);
    real of_mean = (real)(per_token * norm_option(norm, &rbn_mean).real);
    real of_sigma = (real)(per_token * norm_option(norm, &rbn_var).real);
    real eps = (real)norm_option(norm, &norm_eps).real;
    for (size_t c = channels.begin; c < channels.end; c++) {
        real sigma = 1 / pool->rstd[c], difference = sigma - sqrt_real(running_var[c] + eps);
        pool->along_ones[c] -= of_mean * (pool->mean[c] - running_mean[c]) * sigma;
        pool->along_xhat[c] -= of_sigma * difference * sigma;
    }
}

static double penalty(const struct norm *norm) {
    if (!penalized(norm)) return 0;
    const struct pool *pool = &norm->pool;
    double sum = 0, eps = norm_option(norm, &norm_eps).real;
    for (size_t c = 0; c < norm->C; c++) {
        double mean = (double)(pool->mean[c] - norm->state[RUNNING_MEAN][c]);
        double sigma = 1 / (double)pool->rstd[c] - sqrt((double)norm->state[RUNNING_VAR][c] + eps);
        sum += norm_option(norm, &rbn_mean).real * mean * mean +
               norm_option(norm, &rbn_var).real * sigma * sigma;
    }
    return sum;
}

static void gradient_statistics(const struct norm *norm, const struct tokens *tokens,
                                const real *dy, const real *x) {
    pool_gradient_statistics(norm, tokens, dy, x);
    if (norm_option(norm, &norm_detach_mean).integer) detach(norm, norm->pool.along_ones);
    if (norm_option(norm, &norm_detach_std).integer) detach(norm, norm->pool.along_xhat);
    if (penalized(norm) && !tokens->source) add_penalty(norm, tokens);
}

const struct norm_kind norm_instance = {
    .name = "in",
    .full_name = "instancenorm",
    .words = "y = gamma (x - mean_t x) / sqrt(var_t x + eps) + beta, t over a sequence's tokens",
    .source = "Ulyanov, Vedaldi and Lempitsky 2016 (arXiv:1607.08022)",
    .options = {&norm_eps, &norm_momentum},
    .param = {[GAMMA] = {"weight", .start = 1}, [BETA] = {"bias", .role = NORM_BETA}},
    .state = {[RUNNING_MEAN] = {"running_mean", .start = 0},
              [RUNNING_VAR] = {"running_var", .start = 1},
              [BATCHES] = {"num_batches_tracked", .counts = true}},
    .sets = sets,
    .forward = pool_forward,
    .backward = pool_backward,
    .statistics = pool_norm_statistics,
    .gradient_statistics = pool_gradient_statistics,
};

static bool partial(const struct norm *norm) {
    return by_axis(norm) || norm_option(norm, &bn_shards).integer > 1;
}

static void check(const struct norm *norm) {
    const bool positions = by_axis(norm), shards = norm_option(norm, &bn_shards).integer > 1;
    if (penalized(norm) && positions)
        die(STATUS_USAGE, "--rbn-mean, --rbn-var: cannot be combined with --bn-axis=batch");
    if (penalized(norm) && shards)
        die(STATUS_USAGE, "--rbn-mean, --rbn-var: cannot be combined with --bn-shards");
    if (positions && shards)
        die(STATUS_USAGE, "--bn-shards: cannot be combined with --bn-axis=batch");
}

const struct norm_kind norm_batch = {
    .name = "bn",
    .full_name = "batchnorm",
    .formula = "gamma * (x - mean_n(x)) / sqrt(var_n(x) + eps) + beta",
    .source = "Ioffe and Szegedy 2015",
    .options = {&norm_eps, &norm_momentum, &bn_axis, &bn_shards, &rbn_mean, &rbn_var,
                &norm_detach_mean, &norm_detach_std},
    .terms = NORM_TERMS_OF_CHANNELS,
    .by_parts = true,
    .centred = true,
    .param = {[GAMMA] = {"weight", .start = 1}, [BETA] = {"bias", .role = NORM_BETA}},
    .state = {[RUNNING_MEAN] = {"running_mean", .start = 0},
              [RUNNING_VAR] = {"running_var", .start = 1},
              [BATCHES] = {"num_batches_tracked", .counts = true}},
    .check = check,
    .partial = partial,
    .by_position = by_position,
    .sets = sets,
    .forward = pool_forward,
    .backward = pool_backward,
    .statistics = pool_norm_statistics,
    .gradient_statistics = gradient_statistics,
    .penalty = penalty,
};
