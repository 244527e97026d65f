/* See pool.h.

   The moment about the mean is exact to rounding for any offset of x: each block of tokens computes
   its mean and its sum of squares about that mean, and the blocks are merged in order by the rule
   of Chan, Golub and LeVeque (1979). */
#include "model/norm/pool.h"
#include "model/math/vecmath.h"
#include <string.h>

enum { VECTORS = 6 }; // mean to moment

size_t pool_size(size_t B, size_t T, size_t C) {
    return (VECTORS + 2 * team_row_blocks(B * T)) * C;
}

struct pool pool_at(real *reals, size_t C) {
    return (struct pool){C,
                         reals,
                         reals + C,
                         reals + 2 * C,
                         reals + 3 * C,
                         reals + 4 * C,
                         reals + 5 * C,
                         reals + VECTORS * C};
}

struct range pool_channels(size_t C) {
    return team_part(C, 64 / sizeof(real));
}

static real *block_sums(const struct pool *pool, size_t block) { // (2,C)
    return pool->blocks + 2 * block * pool->C;
}

static size_t count(const struct tokens *tokens, struct range rows) {
    size_t valid = 0;
    for (size_t n = rows.begin; n < rows.end; n++) valid += token_counts(tokens, n);
    return valid;
}

static struct range all_rows(const struct tokens *tokens) {
    return (struct range){0, tokens->B * tokens->T};
}

size_t pool_count(const struct tokens *tokens) {
    return count(tokens, all_rows(tokens));
}

/* mean (C) and squares (C) = sum (x - mean)^2 of a block's valid tokens. mean is relative to
   `origin` (C), so that an offset of x costs no digits. */
static void block_moments(const struct tokens *tokens, struct range rows, size_t C, const real *x,
                          const real *origin, real *mean, real *squares) {
    memset(mean, 0, C * sizeof(real));
    memset(squares, 0, C * sizeof(real));
    size_t valid = count(tokens, rows);
    if (!valid) return;
    for (size_t n = rows.begin; n < rows.end; n++)
        if (token_counts(tokens, n))
#pragma omp simd
            for (size_t c = 0; c < C; c++) mean[c] += x[n * C + c] - origin[c];
#pragma omp simd
    for (size_t c = 0; c < C; c++) mean[c] /= (real)valid;
    for (size_t n = rows.begin; n < rows.end; n++)
        if (token_counts(tokens, n))
#pragma omp simd
            for (size_t c = 0; c < C; c++) {
                real deviation = x[n * C + c] - origin[c] - mean[c];
                squares[c] = mul_add(deviation, deviation, squares[c]);
            }
}

/* squares (C) = sum x^2 of a block's valid tokens. */
static void block_squares(const struct tokens *tokens, struct range rows, size_t C, const real *x,
                          real *squares) {
    memset(squares, 0, C * sizeof(real));
    for (size_t n = rows.begin; n < rows.end; n++)
        if (token_counts(tokens, n))
#pragma omp simd
            for (size_t c = 0; c < C; c++)
                squares[c] = mul_add(x[n * C + c], x[n * C + c], squares[c]);
}

/* Merges the blocks' means and squares into those of all valid tokens, for the thread's own
   channels. */
static void merge_moments(const struct pool *pool, const struct tokens *tokens,
                          struct range channels, const real *origin) {
    struct range all = all_rows(tokens);
    real *mean = pool->mean, *squares = pool->moment;
    size_t total = 0, C = pool->C;
    for (size_t begin = 0; begin < all.end; begin += ROWS) {
        size_t valid = count(tokens, team_row_block(begin, all));
        if (!valid) continue;
        const real *m = block_sums(pool, begin / ROWS), *s = m + C;
        real fraction = (real)valid / (real)(total + valid);
#pragma omp simd
        for (size_t c = channels.begin; c < channels.end; c++) {
            real difference = m[c] - mean[c];
            mean[c] += difference * fraction;
            squares[c] += s[c] + difference * difference * (real)total * fraction;
        }
        total += valid;
    }
    for (size_t c = channels.begin; c < channels.end; c++) mean[c] += origin[c];
}

size_t pool_moments(const struct pool *pool, const struct tokens *tokens, const real *x,
                    bool centred) {
    size_t C = pool->C, first = 0, blocks = team_row_blocks(tokens->B * tokens->T);
    struct range all = all_rows(tokens), own = team_part(all.end, ROWS),
                 channels = pool_channels(C);
    while (first + 1 < all.end && !token_counts(tokens, first)) first++;
    const real *origin = x + first * C;
    for (size_t begin = own.begin; begin < own.end; begin += ROWS) {
        real *sums = block_sums(pool, begin / ROWS);
        struct range rows = team_row_block(begin, own);
        if (centred)
            block_moments(tokens, rows, C, x, origin, sums, sums + C);
        else
            block_squares(tokens, rows, C, x, sums + C);
    }
    profile_lap(PROFILE_NORM);
    team_barrier();
    for (size_t c = channels.begin; c < channels.end; c++) pool->mean[c] = pool->moment[c] = 0;
    if (centred)
        merge_moments(pool, tokens, channels, origin);
    else
        for (size_t block = 0; block < blocks; block++) {
            const real *squares = block_sums(pool, block) + C;
#pragma omp simd
            for (size_t c = channels.begin; c < channels.end; c++) pool->moment[c] += squares[c];
        }
    size_t valid = pool_count(tokens);
    real per_token = 1 / (real)(valid ? valid : 1);
    for (size_t c = channels.begin; c < channels.end; c++) pool->moment[c] *= per_token;
    return valid;
}

void pool_batch_statistics(const struct pool *pool, const struct tokens *tokens, const real *x,
                           real *running_mean, real *running_var, real momentum, real eps) {
    struct range channels = pool_channels(pool->C);
    size_t valid = pool_moments(pool, tokens, x, true);
    real unbiased = (real)valid / (real)(valid > 1 ? valid - 1 : 1);
    for (size_t c = channels.begin; c < channels.end; c++) {
        pool->rstd[c] = pool->factor[c] = 1 / sqrt_real(pool->moment[c] + eps);
        running_mean[c] += momentum * (pool->mean[c] - running_mean[c]);
        running_var[c] += momentum * (pool->moment[c] * unbiased - running_var[c]);
    }
}

void pool_running_statistics(const struct pool *pool, const real *running_mean,
                             const real *running_var, real eps) {
    struct range channels = pool_channels(pool->C);
    for (size_t c = channels.begin; c < channels.end; c++) {
        pool->mean[c] = running_mean[c];
        pool->rstd[c] = pool->factor[c] = 1 / sqrt_real(running_var[c] + eps);
    }
}

void pool_gradient_sums(const struct pool *pool, const struct tokens *tokens, const real *dy,
                        const real *x) {
    size_t C = pool->C;
    struct range all = all_rows(tokens), own = team_part(all.end, ROWS),
                 channels = pool_channels(C);
    const real *mean = pool->mean, *rstd = pool->rstd;
    real *sum_dy = pool->along_ones, *sum_dy_xhat = pool->along_xhat;
    for (size_t begin = own.begin; begin < own.end; begin += ROWS) {
        struct range rows = team_row_block(begin, own);
        real *part_dy = block_sums(pool, begin / ROWS), *part_dy_xhat = part_dy + C;
        memset(part_dy, 0, 2 * C * sizeof(real));
        for (size_t n = rows.begin; n < rows.end; n++)
            if (!token_left_out(tokens, n))
#pragma omp simd
                for (size_t c = 0; c < C; c++) {
                    real xhat = (x[n * C + c] - mean[c]) * rstd[c];
                    part_dy[c] += dy[n * C + c];
                    part_dy_xhat[c] = mul_add(dy[n * C + c], xhat, part_dy_xhat[c]);
                }
    }
    profile_lap(PROFILE_NORM);
    team_barrier();
    for (size_t c = channels.begin; c < channels.end; c++) sum_dy[c] = sum_dy_xhat[c] = 0;
    for (size_t block = 0; block < team_row_blocks(all.end); block++) {
        const real *part_dy = block_sums(pool, block), *part_dy_xhat = part_dy + C;
#pragma omp simd
        for (size_t c = channels.begin; c < channels.end; c++) {
            sum_dy[c] += part_dy[c];
            sum_dy_xhat[c] += part_dy_xhat[c];
        }
    }
}

void pool_parameter_gradients(const struct pool *pool, const struct param *gamma,
                              const struct param *beta) {
    struct range channels = pool_channels(pool->C);
    for (size_t c = channels.begin; c < channels.end; c++) {
        gamma->grad[c] += pool->along_xhat[c];
        beta->grad[c] += pool->along_ones[c];
    }
}

void pool_exact_backward(const struct pool *pool, const struct tokens *tokens, const real *gamma) {
    struct range channels = pool_channels(pool->C);
    size_t valid = pool_count(tokens);
    real per_token = 1 / (real)(valid ? valid : 1);
    for (size_t c = channels.begin; c < channels.end; c++) {
        pool->along_ones[c] *= gamma[c] * per_token;
        pool->along_xhat[c] *= gamma[c] * per_token;
    }
}

void pool_forward(const struct pool *pool, const struct tokens *tokens, struct range rows,
                  const struct param *gamma, const struct param *beta, real *y, const real *x) {
    size_t C = pool->C;
    const real *weight = gamma->value, *bias = beta->value;
    const real *mean = pool->mean, *rstd = pool->rstd;
    for (size_t n = rows.begin; n < rows.end; n++, x += C, y += C) {
        if (token_left_out(tokens, n)) {
            memset(y, 0, C * sizeof(real));
            continue;
        }
#pragma omp simd
        for (size_t c = 0; c < C; c++)
            y[c] = mul_add((x[c] - mean[c]) * rstd[c], weight[c], bias[c]);
    }
}

void pool_backward(const struct pool *pool, const struct tokens *tokens, struct range rows,
                   const real *gamma, real *dx, const real *dy, const real *x) {
    size_t C = pool->C;
    const real *mean = pool->mean, *rstd = pool->rstd, *factor = pool->factor;
    const real *along_ones = pool->along_ones, *along_xhat = pool->along_xhat;
    for (size_t n = rows.begin; n < rows.end; n++, x += C, dy += C, dx += C) {
        if (token_left_out(tokens, n)) {
            memset(dx, 0, C * sizeof(real));
            continue;
        }
        real pooled = tokens->training ? 1 : 0; // in evaluation mean and rstd are constants
#pragma omp simd
        for (size_t c = 0; c < C; c++) {
            real xhat = (x[c] - mean[c]) * rstd[c];
            // through mean and variance
            real through = mul_add(xhat, along_xhat[c], along_ones[c]) * pooled;
            dx[c] = factor[c] * mul_add(gamma[c], dy[c], -through);
        }
    }
}
