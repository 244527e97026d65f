/* InstanceNorm: each channel of a sequence is normalized over the sequence's own time steps.

     mean = sum_t x / n,  var = sum_t (x - mean)^2 / n,  rstd = 1 / sqrt(var + eps)
     xhat = (x - mean) rstd,  y = gamma xhat + beta       t over the sequence's n valid tokens

   So in training a token sees what follows it: not causal. In evaluation mean and var are running
   statistics, and every token is on its own. Training moves them by
     running <- (1 - momentum) running + momentum (mean over the batch's sequences),
   of the means and of the unbiased variances n / (n - 1) var, as PyTorch's InstanceNorm1d does with
   track_running_stats. It has num_batches_tracked too, but leaves it at 0; here it counts.

   Backward, as BatchNorm's within each sequence: with s = sum_t dy and t = sum_t dy xhat,
     dx = gamma rstd (dy - s / n - xhat t / n)
     dgamma += sum over tokens of dy xhat,  dbeta += sum over tokens of dy

   In training a pad gets y = beta, dx = 0: against the statistics of the few tokens that a short
   sequence has it could be far out, further at every layer. A sequence of one token, which PyTorch
   refuses, gets y = beta too, and has no part in the running variance.

   Threads share out sequences, each in blocks of CHANNELS, so that few long sequences are work for
   many.

   Ulyanov, Vedaldi and Lempitsky 2016 (arXiv:1607.08022), who keep each instance's own statistics
   in evaluation too: a text that grows would change what it was. */
#include "norm.h"
#include "vecmath.h"
#include <string.h>

enum { RUNNING_MEAN, RUNNING_VAR, BATCHES };
enum { CHANNELS = 32 }; // in a unit of work
enum { MEAN, RSTD, S, T, KEPT };

/* (KEPT,B,C): mean, rstd, s / n, t / n. In evaluation the first sequence's serve all. */
static size_t saved(const struct norm *norm, size_t B, size_t length) {
    (void)length;
    return KEPT * B * norm->C;
}

/* (C) of sequence b. */
static real *kept(const struct norm *norm, const struct tokens *tokens, int what, size_t b) {
    return norm->saved + ((size_t)what * tokens->B + (tokens->training ? b : 0)) * norm->C;
}

/* The valid tokens of sequence b. */
static size_t count(const struct tokens *tokens, size_t b) {
    if (!tokens->valid) return tokens->T;
    size_t valid = 0;
    for (size_t n = b * tokens->T; n < (b + 1) * tokens->T; n++) valid += token_counts(tokens, n);
    return valid;
}

/* A unit of work: some channels of a sequence. */
struct unit {
    size_t b;
    struct rows channels;
};

static size_t units(const struct norm *norm, const struct tokens *tokens) {
    return tokens->B * ((norm->C + CHANNELS - 1) / CHANNELS);
}

static struct unit unit_at(const struct norm *norm, size_t i) {
    size_t blocks = (norm->C + CHANNELS - 1) / CHANNELS, begin = i % blocks * CHANNELS;
    size_t end = begin + CHANNELS < norm->C ? begin + CHANNELS : norm->C;
    return (struct unit){i / blocks, {begin, end}};
}

/* The mean of a unit's channels in mean (C), and in squares (C) the sum of (x - mean)^2. Counted
   from the first valid token, so that an offset takes no digits. */
static void moments(const struct norm *norm, const struct tokens *tokens, struct unit unit,
                    const real *x) {
    size_t C = norm->C, first = unit.b * tokens->T, end = first + tokens->T;
    size_t begin = unit.channels.begin, width = unit.channels.end - begin;
    real *mean = kept(norm, tokens, MEAN, unit.b) + begin;
    real *squares = kept(norm, tokens, RSTD, unit.b) + begin;
    memset(mean, 0, width * sizeof(real));
    memset(squares, 0, width * sizeof(real));
    while (first < end && !token_counts(tokens, first)) first++;
    if (first == end) return;
    const real *origin = x + first * C + begin;
    real share = 1 / (real)count(tokens, unit.b);
    for (size_t n = first; n < end; n++)
        if (token_counts(tokens, n))
#pragma omp simd
            for (size_t c = 0; c < width; c++) mean[c] += x[n * C + begin + c] - origin[c];
#pragma omp simd
    for (size_t c = 0; c < width; c++) mean[c] = mean[c] * share + origin[c];
    for (size_t n = first; n < end; n++)
        if (token_counts(tokens, n))
#pragma omp simd
            for (size_t c = 0; c < width; c++) {
                real apart = x[n * C + begin + c] - mean[c];
                squares[c] += apart * apart;
            }
}

/* From every sequence's moments: the running statistics, and rstd in place of the squares; of the
   thread's own channels. */
static void settle(const struct norm *norm, const struct tokens *tokens, struct rows channels) {
    real *running_mean = norm->state[RUNNING_MEAN], *running_var = norm->state[RUNNING_VAR];
    real *means = kept(norm, tokens, S, 0), *vars = kept(norm, tokens, T, 0); // (C), free as yet
    real eps = (real)norm->options.eps, momentum = (real)norm->options.bn_momentum;
    size_t with_mean = 0, with_var = 0;
    for (size_t c = channels.begin; c < channels.end; c++) means[c] = vars[c] = 0;
    for (size_t b = 0; b < tokens->B; b++) {
        size_t valid = count(tokens, b);
        const real *mean = kept(norm, tokens, MEAN, b);
        real *rstd = kept(norm, tokens, RSTD, b);
        real biased = 1 / (real)(valid ? valid : 1);
        real unbiased = valid > 1 ? 1 / (real)(valid - 1) : 0;
        with_mean += valid > 0;
        with_var += valid > 1;
#pragma omp simd
        for (size_t c = channels.begin; c < channels.end; c++) {
            means[c] += mean[c]; // 0 of a sequence of pads
            vars[c] += rstd[c] * unbiased;
            rstd[c] = 1 / sqrt_real(rstd[c] * biased + eps);
        }
    }
    for (size_t c = channels.begin; with_mean && c < channels.end; c++)
        running_mean[c] += momentum * (means[c] / (real)with_mean - running_mean[c]);
    for (size_t c = channels.begin; with_var && c < channels.end; c++)
        running_var[c] += momentum * (vars[c] / (real)with_var - running_var[c]);
    if (channels.begin == 0 && channels.end > 0) norm->state[BATCHES][0] += 1;
}

static void statistics(const struct norm *norm, const struct tokens *tokens, const real *x) {
    struct rows channels = team_share(norm->C, 64 / sizeof(real));
    if (!tokens->training) {
        real *mean = kept(norm, tokens, MEAN, 0), *rstd = kept(norm, tokens, RSTD, 0);
        for (size_t c = channels.begin; c < channels.end; c++) {
            mean[c] = norm->state[RUNNING_MEAN][c];
            rstd[c] = 1 / sqrt_real(norm->state[RUNNING_VAR][c] + (real)norm->options.eps);
        }
        return;
    }
    struct rows own = team_share(units(norm, tokens), 1);
    for (size_t i = own.begin; i < own.end; i++) moments(norm, tokens, unit_at(norm, i), x);
    profile_lap(PROFILE_NORM);
    team_barrier();
    settle(norm, tokens, channels);
}

static void forward(const struct norm *norm, const struct tokens *tokens, struct rows rows, real *y,
                    const real *x) {
    size_t C = norm->C;
    const real *gamma = norm->param[0].value, *beta = norm->param[1].value; // (C)
    for (size_t n = rows.begin; n < rows.end; n++, x += C, y += C) {
        const real *mean = kept(norm, tokens, MEAN, n / tokens->T); // (C)
        const real *rstd = kept(norm, tokens, RSTD, n / tokens->T); // (C)
        real part = tokens->training && !token_counts(tokens, n) ? 0 : 1;
#pragma omp simd
        for (size_t c = 0; c < C; c++)
            y[c] = (x[c] - mean[c]) * rstd[c] * part * gamma[c] + beta[c];
    }
}

/* s / n and t / n of every sequence. */
static void gradient_statistics(const struct norm *norm, const struct tokens *tokens,
                                const real *dy, const real *x) {
    if (!tokens->training) return;
    size_t C = norm->C;
    struct rows own = team_share(units(norm, tokens), 1);
    for (size_t i = own.begin; i < own.end; i++) {
        struct unit unit = unit_at(norm, i);
        size_t begin = unit.channels.begin, width = unit.channels.end - begin;
        const real *mean = kept(norm, tokens, MEAN, unit.b) + begin;
        const real *rstd = kept(norm, tokens, RSTD, unit.b) + begin;
        real *s = kept(norm, tokens, S, unit.b) + begin, *t = kept(norm, tokens, T, unit.b) + begin;
        size_t valid = count(tokens, unit.b);
        real share = 1 / (real)(valid ? valid : 1);
        memset(s, 0, width * sizeof(real));
        memset(t, 0, width * sizeof(real));
        for (size_t n = unit.b * tokens->T; n < (unit.b + 1) * tokens->T; n++)
            if (token_counts(tokens, n))
#pragma omp simd
                for (size_t c = 0; c < width; c++) {
                    real d = dy[n * C + begin + c];
                    s[c] += d;
                    t[c] += d * (x[n * C + begin + c] - mean[c]);
                }
#pragma omp simd
        for (size_t c = 0; c < width; c++) {
            s[c] *= share;
            t[c] *= rstd[c] * share;
        }
    }
}

static void backward(const struct norm *norm, const struct tokens *tokens, struct rows rows,
                     real *dx, const real *dy, const real *x, real *const *sum) {
    size_t C = norm->C;
    const real *gamma = norm->param[0].value; // (C)
    real *dgamma = sum[0], *dbeta = sum[1];   // (C)
    for (size_t n = rows.begin; n < rows.end; n++, x += C, dy += C, dx += C) {
        size_t b = n / tokens->T;
        const real *mean = kept(norm, tokens, MEAN, b), *rstd = kept(norm, tokens, RSTD, b);
        const real *s = kept(norm, tokens, S, b), *t = kept(norm, tokens, T, b); // (C)
        real part = tokens->training && !token_counts(tokens, n) ? 0 : 1;
        real pooled = tokens->training ? 1 : 0;
#pragma omp simd
        for (size_t c = 0; c < C; c++) {
            real xhat = (x[c] - mean[c]) * rstd[c];
            dgamma[c] += dy[c] * xhat * part;
            dbeta[c] += dy[c];
            dx[c] = gamma[c] * rstd[c] * part * (dy[c] - (s[c] + xhat * t[c]) * pooled);
        }
    }
}

const struct norm_kind norm_instance = {
    .name = "in",
    .formula =
        "y = gamma (x - mean_t x) / sqrt(var_t x + eps) + beta, t over a sequence's time: not "
        "causal in training, running statistics in evaluation",
    .source = "Ulyanov, Vedaldi and Lempitsky 2016 (arXiv:1607.08022)",
    .param = {{"weight", .start = 1}, {"bias", .role = NORM_BETA}},
    .state = {{"running_mean", .start = 0},
              {"running_var", .start = 1},
              {"num_batches_tracked", .scalar = true}},
    .saved = saved,
    .forward = forward,
    .backward = backward,
    .statistics = statistics,
    .gradient_statistics = gradient_statistics,
};
