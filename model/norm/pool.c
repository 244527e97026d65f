/* See pool.h.

   The moment about the mean is exact to rounding for any offset of x: each block of tokens computes
   its mean and its sum of squares about that mean, and two runs of tokens are merged by the rule of
   Chan, Golub and LeVeque (1979). With N1 and N2 tokens, d = mean_2 - mean_1 and
   f = N2 / (N1 + N2),

     mean = mean_1 + f d,  squares = squares_1 + squares_2 + f N1 d^2

   A mean is kept as its difference from one token of its part, so that an offset of x costs no
   digits. */
#include "model/norm/pool.h"
#include "model/math/ranks.h"
#include "model/math/vecmath.h"
#include <string.h>

enum { VECTORS = 6 }; // mean to moment

size_t pool_size(size_t B, size_t T, size_t C) {
    return (VECTORS + 3 * PARTS_HEIGHT + 2 * team_row_blocks(B * T)) * C;
}

struct pool pool_at(real *reals, size_t C) {
    return (struct pool){C,
                         reals,
                         reals + C,
                         reals + 2 * C,
                         reals + 3 * C,
                         reals + 4 * C,
                         reals + 5 * C,
                         reals + VECTORS * C,
                         reals + (VECTORS + 3 * PARTS_HEIGHT) * C};
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

/* The number of valid tokens among these rows of the full batch. The pass may have only some of
   the rows: tokens->valid starts at its first one. */
static size_t count_batch(const struct tokens *tokens, const struct parts *parts,
                          struct range rows) {
    if (!tokens->valid) return rows.end - rows.begin;
    struct tokens all = *tokens;
    all.valid -= parts->first / (tokens->rows_per_token ? tokens->rows_per_token : 1);
    return count(&all, rows);
}

/* The parts of the batch (parts.h). It is a single part if the pass sets no parts, or if norms pool
   over this rank's tokens only. */
static struct parts parts_of(const struct tokens *tokens) {
    bool one = tokens->local || !tokens->parts.each;
    return one ? parts_one(tokens->B * tokens->T) : tokens->parts;
}

size_t pool_count(const struct tokens *tokens) {
    const struct parts parts = parts_of(tokens);
    return count_batch(tokens, &parts, (struct range){0, parts.all});
}

static real *stack_at(const struct pool *pool, size_t slot) { // (3,C)
    return pool->stack + 3 * slot * pool->C;
}

/* The first valid row of the part that has this row, or its last row. */
static size_t part_origin(const struct parts *parts, const struct tokens *tokens, size_t row) {
    size_t first = row - (parts->first + row) % parts->each;
    size_t end = size_min(first + parts->each, tokens->B * tokens->T);
    while (first + 1 < end && !token_counts(tokens, first)) first++;
    return first;
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

/* squares (2,C) = sum x^2 of a block's valid tokens, and zeros. */
static void block_squares(const struct tokens *tokens, struct range rows, size_t C, const real *x,
                          real *squares) {
    memset(squares, 0, 2 * C * sizeof(real));
    for (size_t n = rows.begin; n < rows.end; n++)
        if (token_counts(tokens, n))
#pragma omp simd
            for (size_t c = 0; c < C; c++)
                squares[c] = mul_add(x[n * C + c], x[n * C + c], squares[c]);
}

/* A run of tokens: how many are valid, and for each channel a token as the origin of `mean`. */
struct moments {
    size_t valid;
    real *origin, *mean, *squares; // (C)
};

static struct moments moments_at(const struct pool *pool, size_t slot, size_t valid) {
    real *origin = stack_at(pool, slot);
    return (struct moments){valid, origin, origin + pool->C, origin + 2 * pool->C};
}

/* Merges b into a, for these channels. Returns the number of valid tokens of both. */
static size_t merge_moments(struct moments a, struct moments b, struct range channels) {
    if (!b.valid) return a.valid;
    size_t total = a.valid + b.valid;
    real fraction = (real)b.valid / (real)total, before = (real)a.valid;
#pragma omp simd
    for (size_t c = channels.begin; c < channels.end; c++) {
        real difference = (b.origin[c] - a.origin[c]) + (b.mean[c] - a.mean[c]);
        a.mean[c] += difference * fraction;
        a.squares[c] += b.squares[c] + difference * difference * before * fraction;
    }
    return total;
}

/* The moments of a part from those of its blocks, in its slot of the stack. Returns the number of
   valid tokens. */
static size_t part_moments(const struct pool *pool, const struct tokens *tokens,
                           const struct parts_piece *piece, struct range channels,
                           const real *origin) {
    struct moments part = moments_at(pool, piece->slot, 0);
    for (size_t c = channels.begin; c < channels.end; c++) {
        part.origin[c] = origin[c];
        part.mean[c] = part.squares[c] = 0;
    }
    for (size_t begin = piece->rows.begin; begin < piece->rows.end; begin += ROWS) {
        real *sums = block_sums(pool, begin / ROWS);
        size_t valid = count(tokens, team_row_block(begin, piece->rows));
        const struct moments block = {valid, part.origin, sums, sums + pool->C};
        part.valid = merge_moments(part, block, channels);
    }
    return part.valid;
}

/* The sums of two arrays (C) over a part, from those of its blocks, in its slot. */
static void part_sums(const struct pool *pool, const struct parts_piece *piece,
                      struct range channels) {
    size_t C = pool->C;
    real *sum = stack_at(pool, piece->slot);
    for (size_t i = 0; i < 2 * C; i += C)
        for (size_t c = channels.begin; c < channels.end; c++) sum[i + c] = 0;
    for (size_t begin = piece->rows.begin; begin < piece->rows.end; begin += ROWS) {
        const real *block = block_sums(pool, begin / ROWS);
#pragma omp simd
        for (size_t c = channels.begin; c < channels.end; c++) {
            sum[c] += block[c];
            sum[C + c] += block[C + c];
        }
    }
}

/* Two entries of the stack become one, in the lower slot. */
static void merge_sums(const struct pool *pool, size_t slot, struct range channels) {
    size_t C = pool->C;
    real *to = stack_at(pool, slot), *from = stack_at(pool, slot + 1);
#pragma omp simd
    for (size_t c = channels.begin; c < channels.end; c++) {
        to[c] += from[c];
        to[C + c] += from[C + c];
    }
}

/* The state of adding up the blocks of a batch, part by part, into slot 0 of the stack, for the
   calling thread's channels. */
struct fold {
    const struct pool *pool;
    const struct tokens *tokens;
    struct parts parts;
    struct range channels;
    bool moments;               // else sums
    size_t valid[PARTS_HEIGHT]; // tokens of each entry
};

/* Merges the entry that was just written to its slot with those before it, as parts.h says. */
static void push(struct fold *f, struct parts_place place, size_t valid) {
    f->valid[place.slot] = valid;
    for (size_t at = place.slot, i = 0; i < place.merges; i++, at--) {
        if (f->moments)
            merge_moments(moments_at(f->pool, at - 1, f->valid[at - 1]),
                          moments_at(f->pool, at, f->valid[at]), f->channels);
        else
            merge_sums(f->pool, at - 1, f->channels);
        f->valid[at - 1] += f->valid[at];
    }
}

/* Adds up the stacks of all ranks in the order of the parts, if ranks share the batch. */
static void fold_ranks(struct fold *f) {
    const size_t C = f->pool->C, count = parts_count(&f->parts);
    const real *entry = ranks_stacks(&f->parts, f->pool->stack, 3 * C);
    for (size_t rank = 0; rank < ranks_count(); rank++) {
        struct range run = ranks_cut(count, rank), tree;
        for (tree.begin = run.begin; tree.begin < run.end; tree.begin = tree.end, entry += 3 * C) {
            tree.end = parts_subtree_end(tree.begin, run.end, count);
            const struct parts_place place = parts_place(0, tree, count);
            const struct range rows = {tree.begin * f->parts.each,
                                       size_min(tree.end * f->parts.each, f->parts.all)};
            for (size_t i = 0; i < 3 * C; i += C)
                memcpy(stack_at(f->pool, place.slot) + i + f->channels.begin,
                       entry + i + f->channels.begin,
                       (f->channels.end - f->channels.begin) * sizeof(real));
            push(f, place, count_batch(f->tokens, &f->parts, rows));
        }
    }
}

/* Adds up the blocks' moments or sums. x (B,T,C) gives each part's origin; sums do not need it. */
static void fold_blocks(const struct pool *pool, const struct tokens *tokens, bool moments,
                        const real *x) {
    struct fold f = {.pool = pool,
                     .tokens = tokens,
                     .parts = parts_of(tokens),
                     .channels = pool_channels(pool->C),
                     .moments = moments};
    struct parts_piece piece;
    for (size_t row = 0; row < f.parts.rows; row = piece.rows.end) {
        size_t valid = 0;
        piece = parts_piece(&f.parts, row, f.parts.rows);
        if (moments)
            valid = part_moments(pool, tokens, &piece, f.channels,
                                 x + part_origin(&f.parts, tokens, row) * pool->C);
        else
            part_sums(pool, &piece, f.channels);
        push(&f, (struct parts_place){piece.slot, piece.merges}, valid);
    }
    if (f.parts.shared) fold_ranks(&f);
}

size_t pool_moments(const struct pool *pool, const struct tokens *tokens, const real *x,
                    bool centred) {
    size_t C = pool->C, valid = pool_count(tokens);
    const struct parts parts = parts_of(tokens);
    struct range own = team_part(parts.rows, ROWS), channels = pool_channels(C);
    for (size_t begin = own.begin; begin < own.end; begin += ROWS) {
        real *sums = block_sums(pool, begin / ROWS);
        struct range rows = team_row_block(begin, own);
        if (centred)
            block_moments(tokens, rows, C, x, x + part_origin(&parts, tokens, begin) * C, sums,
                          sums + C);
        else
            block_squares(tokens, rows, C, x, sums);
    }
    profile_lap(PROFILE_NORM);
    team_barrier();
    fold_blocks(pool, tokens, centred, x);
    const struct moments all = moments_at(pool, 0, valid);
    real per_token = 1 / (real)(valid ? valid : 1);
    for (size_t c = channels.begin; c < channels.end; c++) {
        pool->mean[c] = centred ? all.origin[c] + all.mean[c] : 0;
        pool->moment[c] = (centred ? all.squares[c] : stack_at(pool, 0)[c]) * per_token;
    }
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
    struct range own = team_part(tokens->B * tokens->T, ROWS), channels = pool_channels(C);
    const real *mean = pool->mean, *rstd = pool->rstd;
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
    fold_blocks(pool, tokens, false, NULL);
    const real *sums = stack_at(pool, 0);
    for (size_t c = channels.begin; c < channels.end; c++) {
        pool->along_ones[c] = sums[c];
        pool->along_xhat[c] = sums[C + c];
    }
}

void pool_parameter_gradients(const struct pool *pool, const struct tokens *tokens,
                              const struct param *gamma, const struct param *beta) {
    struct range channels = pool_channels(pool->C);
    if (!pool_leads(tokens)) return;
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
