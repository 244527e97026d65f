/* BatchNorm: each channel is normalized over the valid tokens of the batch.

     mean = sum_n x / N,  var = sum_n (x - mean)^2 / N,  rstd = 1 / sqrt(var + eps)
     xhat = (x - mean) rstd,  y = gamma xhat + beta       n over the N valid tokens, for each
   channel

   In evaluation mean and var are the running statistics, which training moves by
     running <- (1 - momentum) running + momentum batch,  with the unbiased variance N / (N-1) var.

   Backward, as LayerNorm's over the other axis: with s = sum_n dy and t = sum_n dy xhat,
     dx = gamma rstd (dy - s / N - xhat t / N),  dgamma += t,  dbeta += s
   A pad takes no part in the statistics, so for it, as for every token in evaluation, mean and rstd
   are constants: dx = gamma rstd dy.

   The variance is exact to rounding for any offset: each block of tokens gives its mean and its sum
   of squares about it, merged in order by the rule of Chan, Golub and LeVeque (1979).

   Ioffe and Szegedy 2015, algorithms 1 and 2 (arXiv:1502.03167); semantics of PyTorch's
   BatchNorm1d. */
#include "norm.h"
#include "vecmath.h"
#include <string.h>

enum { RUNNING_MEAN, RUNNING_VAR, BATCHES };

/* What is kept: two values for each channel, that forward reads as mean and rstd, two more that
   backward reads as s / N and t / N, and two sums (C) of each block of tokens. */
static size_t saved(const struct norm *norm, size_t B, size_t T) {
    return (4 + 2 * row_blocks(B * T)) * norm->C;
}

static real *block_sums(const struct norm *norm, size_t block) { // (2,C)
    return norm->saved + (4 + 2 * block) * norm->C;
}

static inline bool counted(const struct tokens *tokens, size_t n) {
    return !tokens->valid || tokens->valid[n];
}

static size_t count(const struct tokens *tokens, struct rows rows) {
    size_t valid = 0;
    for (size_t n = rows.begin; n < rows.end; n++) valid += counted(tokens, n);
    return valid;
}

static struct rows all_rows(const struct tokens *tokens) {
    return (struct rows){0, tokens->B * tokens->T};
}

/* mean (C) and squares (C) = sum (x - mean)^2 of a block's valid tokens, x from `origin` (C). */
static void block_moments(const struct tokens *tokens, struct rows rows, size_t C, const real *x,
                          const real *origin, real *mean, real *squares) {
    memset(mean, 0, C * sizeof(real));
    memset(squares, 0, C * sizeof(real));
    size_t valid = count(tokens, rows);
    if (!valid) return;
    for (size_t n = rows.begin; n < rows.end; n++)
        if (counted(tokens, n))
#pragma omp simd
            for (size_t c = 0; c < C; c++) mean[c] += x[n * C + c] - origin[c];
#pragma omp simd
    for (size_t c = 0; c < C; c++) mean[c] /= (real)valid;
    for (size_t n = rows.begin; n < rows.end; n++)
        if (counted(tokens, n))
#pragma omp simd
            for (size_t c = 0; c < C; c++) {
                real apart = x[n * C + c] - origin[c] - mean[c];
                squares[c] += apart * apart;
            }
}

/* mean and squares of all valid tokens in norm->saved, for the thread's own channels; returns the
   number of tokens. */
static size_t merge_moments(const struct norm *norm, const struct tokens *tokens,
                            struct rows channels, const real *origin) {
    struct rows all = all_rows(tokens);
    real *mean = norm->saved, *squares = mean + norm->C;
    size_t total = 0;
    for (size_t c = channels.begin; c < channels.end; c++) mean[c] = squares[c] = 0;
    for (size_t begin = 0; begin < all.end; begin += ROWS) {
        size_t valid = count(tokens, row_block(begin, all));
        if (!valid) continue;
        const real *m = block_sums(norm, begin / ROWS), *s = m + norm->C;
        real share = (real)valid / (real)(total + valid);
#pragma omp simd
        for (size_t c = channels.begin; c < channels.end; c++) {
            real apart = m[c] - mean[c];
            mean[c] += apart * share;
            squares[c] += s[c] + apart * apart * (real)total * share;
        }
        total += valid;
    }
    for (size_t c = channels.begin; c < channels.end; c++) mean[c] += origin[c];
    return total;
}

static void statistics(const struct norm *norm, const struct tokens *tokens, const real *x) {
    size_t C = norm->C, first = 0;
    struct rows all = all_rows(tokens), own = own_rows(all.end);
    struct rows channels = team_share(C, 64 / sizeof(real));
    real *running_mean = norm->state[RUNNING_MEAN], *running_var = norm->state[RUNNING_VAR];
    real *mean = norm->saved, *rstd = mean + C; // (C)
    real eps = (real)norm->options.eps, momentum = (real)norm->options.bn_momentum;
    if (!tokens->training) {
        for (size_t c = channels.begin; c < channels.end; c++) {
            mean[c] = running_mean[c];
            rstd[c] = 1 / sqrt_real(running_var[c] + eps);
        }
        return;
    }
    while (first + 1 < all.end && !counted(tokens, first)) first++;
    const real *origin = x + first * C;
    for (size_t begin = own.begin; begin < own.end; begin += ROWS) {
        real *sums = block_sums(norm, begin / ROWS);
        block_moments(tokens, row_block(begin, own), C, x, origin, sums, sums + C);
    }
    profile_lap(PROFILE_NORM);
    team_barrier();
    size_t valid = merge_moments(norm, tokens, channels, origin);
    real biased = 1 / (real)(valid ? valid : 1), unbiased = 1 / (real)(valid > 1 ? valid - 1 : 1);
    for (size_t c = channels.begin; c < channels.end; c++) {
        real squares = rstd[c];
        rstd[c] = 1 / sqrt_real(squares * biased + eps);
        running_mean[c] += momentum * (mean[c] - running_mean[c]);
        running_var[c] += momentum * (squares * unbiased - running_var[c]);
    }
    if (channels.begin == 0 && channels.end > 0) norm->state[BATCHES][0] += 1;
}

static void forward(const struct norm *norm, const struct tokens *tokens, struct rows rows, real *y,
                    const real *x) {
    (void)tokens;
    size_t C = norm->C;
    const real *gamma = norm->param[0].value, *beta = norm->param[1].value; // (C)
    const real *mean = norm->saved, *rstd = mean + C;                       // (C)
    for (size_t n = 0; n < rows.end - rows.begin; n++, x += C, y += C)
#pragma omp simd
        for (size_t c = 0; c < C; c++) y[c] = (x[c] - mean[c]) * rstd[c] * gamma[c] + beta[c];
}

/* s / N and t / N, and with them the parameters' gradients. */
static void gradient_statistics(const struct norm *norm, const struct tokens *tokens,
                                const real *dy, const real *x) {
    size_t C = norm->C;
    struct rows all = all_rows(tokens), own = own_rows(all.end);
    struct rows channels = team_share(C, 64 / sizeof(real));
    const real *mean = norm->saved, *rstd = mean + C;        // (C)
    real *s = norm->saved + 2 * C, *t = norm->saved + 3 * C; // (C)
    for (size_t begin = own.begin; begin < own.end; begin += ROWS) {
        struct rows rows = row_block(begin, own);
        real *part_s = block_sums(norm, begin / ROWS), *part_t = part_s + C;
        memset(part_s, 0, 2 * C * sizeof(real));
        for (size_t n = rows.begin; n < rows.end; n++)
#pragma omp simd
            for (size_t c = 0; c < C; c++) {
                part_s[c] += dy[n * C + c];
                part_t[c] += dy[n * C + c] * (x[n * C + c] - mean[c]) * rstd[c];
            }
    }
    profile_lap(PROFILE_NORM);
    team_barrier();
    for (size_t c = channels.begin; c < channels.end; c++) s[c] = t[c] = 0;
    for (size_t block = 0; block < row_blocks(all.end); block++) {
        const real *part_s = block_sums(norm, block), *part_t = part_s + C;
#pragma omp simd
        for (size_t c = channels.begin; c < channels.end; c++) {
            s[c] += part_s[c];
            t[c] += part_t[c];
        }
    }
    size_t valid = count(tokens, all);
    for (size_t c = channels.begin; c < channels.end; c++) {
        norm->param[0].grad[c] += t[c];
        norm->param[1].grad[c] += s[c];
        s[c] /= (real)(valid ? valid : 1);
        t[c] /= (real)(valid ? valid : 1);
    }
}

static void backward(const struct norm *norm, const struct tokens *tokens, struct rows rows,
                     real *dx, const real *dy, const real *x, real *const *sum) {
    (void)sum;
    size_t C = norm->C;
    const real *gamma = norm->param[0].value;                      // (C)
    const real *mean = norm->saved, *rstd = mean + C;              // (C)
    const real *s = norm->saved + 2 * C, *t = norm->saved + 3 * C; // (C)
    for (size_t n = rows.begin; n < rows.end; n++, x += C, dy += C, dx += C) {
        real pooled = tokens->training && counted(tokens, n) ? 1 : 0;
#pragma omp simd
        for (size_t c = 0; c < C; c++) {
            real xhat = (x[c] - mean[c]) * rstd[c];
            dx[c] = gamma[c] * rstd[c] * (dy[c] - (s[c] + xhat * t[c]) * pooled);
        }
    }
}

const struct norm_kind norm_batch = {
    .name = "bn",
    .formula = "y = gamma (x - mean_n x) / sqrt(var_n x + eps) + beta, n over the batch's tokens",
    .source = "Ioffe and Szegedy 2015",
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
