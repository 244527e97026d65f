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

   The variance is exact to rounding for any offset: each chunk of tokens gives its mean and its sum
   of squares about it, merged in order by the rule of Chan, Golub and LeVeque (1979).

   Ioffe and Szegedy 2015, algorithms 1 and 2 (arXiv:1502.03167); semantics of PyTorch's
   BatchNorm1d. */
#include "norm.h"
#include "vecmath.h"
#include <string.h>

enum { RUNNING_MEAN, RUNNING_VAR, BATCHES };

static size_t saved(size_t tokens, size_t C) {
    (void)tokens;
    return 2 * C; // mean (C), rstd (C)
}

static size_t scratch_size(size_t tokens, size_t C) {
    (void)tokens;
    return (TOKEN_CHUNKS + 1) * 2 * C; // two sums (C) of each chunk, and of the batch
}

static inline bool counted(const struct tokens *tokens, size_t n) {
    return !tokens->valid || tokens->valid[n];
}

static size_t count(const struct tokens *tokens, size_t begin, size_t end) {
    size_t valid = 0;
    for (size_t n = begin; n < end; n++) valid += counted(tokens, n);
    return valid;
}

/* mean (C) and squares (C) = sum (x - mean)^2 of the valid tokens begin .. end, x from `origin`
 * (C). */
static void chunk_moments(const struct tokens *tokens, size_t begin, size_t end, size_t C,
                          const real *x, const real *origin, real *mean, real *squares) {
    memset(mean, 0, C * sizeof(real));
    memset(squares, 0, C * sizeof(real));
    size_t valid = count(tokens, begin, end);
    if (!valid) return;
    for (size_t n = begin; n < end; n++)
        if (counted(tokens, n))
#pragma omp simd
            for (size_t c = 0; c < C; c++) mean[c] += x[n * C + c] - origin[c];
#pragma omp simd
    for (size_t c = 0; c < C; c++) mean[c] /= (real)valid;
    for (size_t n = begin; n < end; n++)
        if (counted(tokens, n))
#pragma omp simd
            for (size_t c = 0; c < C; c++) {
                real apart = x[n * C + c] - origin[c] - mean[c];
                squares[c] += apart * apart;
            }
}

/* mean (C) and squares (C) of all valid tokens; returns their number. */
static size_t batch_moments(const struct tokens *tokens, size_t C, const real *x, real *mean,
                            real *squares, real *scratch) {
    size_t N = tokens->B * tokens->T, total = 0, first = 0;
    while (first + 1 < N && !counted(tokens, first)) first++;
    const real *origin = x + first * C;
#pragma omp parallel for schedule(static)
    for (size_t chunk = 0; chunk < TOKEN_CHUNKS; chunk++) {
        real *m = scratch + chunk * 2 * C;
        chunk_moments(tokens, chunk_begin(chunk, N), chunk_begin(chunk + 1, N), C, x, origin, m,
                      m + C);
    }
    memset(mean, 0, C * sizeof(real));
    memset(squares, 0, C * sizeof(real));
    for (size_t chunk = 0; chunk < TOKEN_CHUNKS; chunk++) {
        size_t valid = count(tokens, chunk_begin(chunk, N), chunk_begin(chunk + 1, N));
        if (!valid) continue;
        const real *m = scratch + chunk * 2 * C, *s = m + C;
        real share = (real)valid / (real)(total + valid);
#pragma omp simd
        for (size_t c = 0; c < C; c++) {
            real apart = m[c] - mean[c];
            mean[c] += apart * share;
            squares[c] += s[c] + apart * apart * (real)total * share;
        }
        total += valid;
    }
#pragma omp simd
    for (size_t c = 0; c < C; c++) mean[c] += origin[c];
    return total;
}

static void forward(const struct norm *norm, const struct tokens *tokens, real *y, const real *x,
                    real *scratch) {
    size_t N = tokens->B * tokens->T, C = norm->C;
    const real *gamma = norm->param[0].value, *beta = norm->param[1].value; // (C)
    real *running_mean = norm->state[RUNNING_MEAN], *running_var = norm->state[RUNNING_VAR];
    real *mean = norm->saved, *rstd = mean + C; // (C)
    real eps = (real)norm->options.eps, momentum = (real)norm->options.bn_momentum;
    if (tokens->training) {
        real *squares = scratch + TOKEN_CHUNKS * 2 * C; // (C)
        size_t valid = batch_moments(tokens, C, x, mean, squares, scratch);
        real biased = 1 / (real)(valid ? valid : 1),
             unbiased = 1 / (real)(valid > 1 ? valid - 1 : 1);
        for (size_t c = 0; c < C; c++) {
            rstd[c] = 1 / sqrt_real(squares[c] * biased + eps);
            running_mean[c] += momentum * (mean[c] - running_mean[c]);
            running_var[c] += momentum * (squares[c] * unbiased - running_var[c]);
        }
        norm->state[BATCHES][0] += 1;
    } else {
        for (size_t c = 0; c < C; c++) {
            mean[c] = running_mean[c];
            rstd[c] = 1 / sqrt_real(running_var[c] + eps);
        }
    }
#pragma omp parallel for
    for (size_t n = 0; n < N; n++)
#pragma omp simd
        for (size_t c = 0; c < C; c++)
            y[n * C + c] = (x[n * C + c] - mean[c]) * rstd[c] * gamma[c] + beta[c];
}

static void backward(const struct norm *norm, const struct tokens *tokens, real *dx, const real *dy,
                     const real *x, real *scratch) {
    size_t N = tokens->B * tokens->T, C = norm->C;
    const real *gamma = norm->param[0].value;         // (C)
    const real *mean = norm->saved, *rstd = mean + C; // (C)
    real *t = scratch + TOKEN_CHUNKS * 2 * C, *s = t + C;
#pragma omp parallel for schedule(static)
    for (size_t chunk = 0; chunk < TOKEN_CHUNKS; chunk++) {
        real *part_t = scratch + chunk * 2 * C, *part_s = part_t + C;
        memset(part_t, 0, 2 * C * sizeof(real));
        for (size_t n = chunk_begin(chunk, N); n < chunk_begin(chunk + 1, N); n++)
#pragma omp simd
            for (size_t c = 0; c < C; c++) {
                part_t[c] += dy[n * C + c] * (x[n * C + c] - mean[c]) * rstd[c];
                part_s[c] += dy[n * C + c];
            }
    }
    memset(t, 0, 2 * C * sizeof(real));
    norm_add_chunks(t, scratch, 2 * C, C);
    norm_add_chunks(s, scratch + C, 2 * C, C);
    for (size_t c = 0; c < C; c++) {
        norm->param[0].grad[c] += t[c];
        norm->param[1].grad[c] += s[c];
    }
    size_t valid = count(tokens, 0, N);
#pragma omp parallel for
    for (size_t n = 0; n < N; n++) {
        real pooled = tokens->training && counted(tokens, n) ? 1 / (real)valid : 0;
#pragma omp simd
        for (size_t c = 0; c < C; c++) {
            real xhat = (x[n * C + c] - mean[c]) * rstd[c];
            dx[n * C + c] = gamma[c] * rstd[c] * (dy[n * C + c] - (s[c] + xhat * t[c]) * pooled);
        }
    }
}

const struct norm_kind norm_batch = {
    .name = "bn",
    .formula = "y = gamma (x - mean_n x) / sqrt(var_n x + eps) + beta, n over the batch's tokens",
    .param = {{"weight", false, 1}, {"bias", false, 0}},
    .state = {{"running_mean", false, 0},
              {"running_var", false, 1},
              {"num_batches_tracked", true, 0}},
    .saved = saved,
    .scratch = scratch_size,
    .forward = forward,
    .backward = backward,
};
