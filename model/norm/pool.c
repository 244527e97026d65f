/* See pool.h; pool_sums.c computes the sums over tokens. */
#include "model/norm/pool.h"
#include "model/math/vecmath.h"
#include <string.h>

/* norm->pool with the sets of this batch. In evaluation all tokens, or all at a position, have the
   same statistics. */
static struct pool pool_of(const struct norm *norm, const struct tokens *tokens) {
    const struct norm_kind *kind = norm->kind;
    struct pool pool = norm->pool;
    pool.positions = kind->by_position && kind->by_position(norm, tokens);
    const bool of_batch = tokens->training || pool.positions;
    pool.sets = kind->sets && of_batch ? kind->sets(norm, tokens) : 1;
    return pool;
}

void pool_attach(struct norm *norm, const struct norm_options *options,
                 const struct layout *layout) {
    const size_t C = norm->C;
    struct arena *arena = layout->arena;
    struct tokens tokens = {.B = layout->B, .T = layout->T, .training = true};
    norm->pool.C = C;
    const struct pool own = pool_of(norm, &tokens);
    if (options->measures_positions) tokens.source = STATISTICS_POSITION;
    const struct pool measured = pool_of(norm, &tokens);
    const size_t sets = size_max(own.sets, measured.sets);
    const size_t blocks = size_max(own.sets * pool_blocks(&own, tokens.B, tokens.T),
                                   measured.sets * pool_blocks(&measured, tokens.B, tokens.T));
    struct pool *pool = &norm->pool;
    *pool = own;
    pool->mean = arena_reals(arena, sets * C);
    pool->rstd = arena_reals(arena, sets * C);
    pool->factor = arena_reals(arena, sets * C);
    pool->along_ones = arena_reals(arena, sets * C);
    pool->along_xhat = arena_reals(arena, sets * C);
    pool->moment = arena_reals(arena, sets * C);
    pool->stack = arena_reals(arena, PARTS_HEIGHT * 3 * C);
    pool->blocks = arena_reals(arena, blocks * 2 * C);
}

struct range pool_channels(size_t C) {
    return team_part(C, 64 / sizeof(real));
}

/* ---- statistics ---- */

/* Moves running statistics (C), which these sets share. An empty set takes no part in them, nor one
   of a single token in the variance. */
static void track(const struct pool *pool, const struct tokens *tokens, struct range sets,
                  real *running_mean, real *running_var, real momentum) {
    const struct range channels = pool_channels(pool->C);
    size_t with_mean = 0, with_var = 0;
    real *means = pool->along_ones, *vars = pool->along_xhat; // (C), which backward needs later
    for (size_t c = channels.begin; c < channels.end; c++) means[c] = vars[c] = 0;
    for (size_t i = sets.begin; i < sets.end; i++) {
        const size_t valid = pool_count(pool, tokens, i), offset = i * pool->C;
        const real unbiased = valid > 1 ? (real)valid / (real)(valid - 1) : 0;
        if (!valid) continue;
        with_mean++;
        with_var += valid > 1;
        for (size_t c = channels.begin; c < channels.end; c++) {
            means[c] += pool->mean[offset + c];
            vars[c] += pool->moment[offset + c] * unbiased;
        }
    }
    for (size_t c = channels.begin; with_mean && c < channels.end; c++)
        running_mean[c] += momentum * (means[c] / (real)with_mean - running_mean[c]);
    for (size_t c = channels.begin; with_var && c < channels.end; c++)
        running_var[c] += momentum * (vars[c] / (real)with_var - running_var[c]);
}

void pool_count_batch(const struct norm *norm, const struct tokens *tokens) {
    const struct range channels = pool_channels(norm->C);
    if (tokens->training && channels.begin == 0 && channels.end > 0)
        *norm->batches += *norm->batches < TENSOR_COUNT_MAX;
}

void pool_norm_statistics(const struct norm *norm, const struct tokens *tokens, const real *x) {
    const struct pool pool = pool_of(norm, tokens);
    const struct range channels = pool_channels(pool.C);
    const size_t C = pool.C, shared = pool.positions ? 1 : pool.sets;
    const bool training = tokens->training;
    const bool tracks = training && tokens->source != STATISTICS_POSITION;
    const real momentum = pool_weight(tokens, norm_option(norm, &norm_momentum).real);
    const real eps = (real)norm_option(norm, &norm_eps).real;
    real *running_mean = norm->state[0], *running_var = norm->state[1];
    if (training) pool_moments(&pool, tokens, x);
    for (size_t offset = 0; offset < pool.sets * C; offset += C)
        for (size_t c = offset + channels.begin; c < offset + channels.end; c++) {
            if (!training) pool.mean[c] = running_mean[c];
            pool.rstd[c] = pool.factor[c] =
                1 / sqrt_real((training ? pool.moment[c] : running_var[c]) + eps);
        }
    for (size_t i = 0; tracks && i < pool.sets; i += shared, running_mean += C, running_var += C)
        track(&pool, tokens, (struct range){i, i + shared}, running_mean, running_var, momentum);
    pool_count_batch(norm, tokens);
}

void pool_gradients(const struct norm *norm, const struct tokens *tokens, const real *dy,
                    const real *x, real w, const real *r, const real *d) {
    const struct pool pool = pool_of(norm, tokens);
    const struct range channels = pool_channels(pool.C);
    const bool leads = tokens->parts.run.begin == 0 || tokens->local; // of those that pool together
    pool_gradient_sums(&pool, tokens, dy, x);
    for (size_t i = 0, offset = 0; i < pool.sets; i++, offset += pool.C) {
        const size_t valid = pool_count(&pool, tokens, i);
        const real per_token = 1 / (real)(valid ? valid : 1);
        for (size_t c = channels.begin; c < channels.end; c++) {
            real *ones = &pool.along_ones[offset + c], *xhat = &pool.along_xhat[offset + c];
            if (leads) norm->dgamma[c] += w * (r ? r[c] * *xhat + d[c] * *ones : *xhat);
            if (leads) norm->dbeta[c] += w * *ones;
            *ones *= norm->gamma[c] * per_token;
            *xhat *= norm->gamma[c] * per_token;
        }
    }
}

void pool_gradient_statistics(const struct norm *norm, const struct tokens *tokens, const real *dy,
                              const real *x) {
    pool_gradients(norm, tokens, dy, x, 1, NULL, NULL);
}

/* ---- a block of rows ---- */

/* The offset of token n's set in arrays (sets,C). */
static size_t offset_of(const struct pool *pool, const struct tokens *tokens, size_t n) {
    if (pool->sets == 1) return 0;
    return (pool->positions ? n % tokens->T : n / tokens->T * pool->sets / tokens->B) * pool->C;
}

void pool_forward(const struct norm *norm, const struct tokens *tokens, struct range rows, real *y,
                  const real *x) {
    const struct pool pool = pool_of(norm, tokens);
    const size_t C = pool.C;
    const real *gamma = norm->gamma, *beta = norm->beta; // (C)
    for (size_t n = rows.begin; n < rows.end; n++, x += C, y += C) {
        const size_t offset = offset_of(&pool, tokens, n);
        const real *mean = pool.mean + offset, *rstd = pool.rstd + offset;
        if (token_left_out(tokens, n)) {
            memset(y, 0, C * sizeof(real));
            continue;
        }
#pragma omp simd
        for (size_t c = 0; c < C; c++)
            y[c] = mul_add((x[c] - mean[c]) * rstd[c], gamma[c], beta[c]);
    }
}

void pool_backward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                   real *dx, const real *dy, const real *x, real *const *sum) {
    const struct pool pool = pool_of(norm, tokens);
    const size_t C = pool.C;
    const real *gamma = norm->gamma;              // (C)
    const real pooled = tokens->training ? 1 : 0; // in evaluation mean and rstd are constants
    for (size_t n = rows.begin; n < rows.end; n++, x += C, dy += C, dx += C) {
        const size_t offset = offset_of(&pool, tokens, n);
        const real *mean = pool.mean + offset, *rstd = pool.rstd + offset,
                   *factor = pool.factor + offset;
        const real *along_ones = pool.along_ones + offset, *along_xhat = pool.along_xhat + offset;
        if (token_left_out(tokens, n)) {
            memset(dx, 0, C * sizeof(real));
            continue;
        }
#pragma omp simd
        for (size_t c = 0; c < C; c++) {
            real xhat = (x[c] - mean[c]) * rstd[c];
            // through mean and variance
            real through = mul_add(xhat, along_xhat[c], along_ones[c]) * pooled;
            dx[c] = factor[c] * mul_add(gamma[c], dy[c], -through);
        }
    }
}
