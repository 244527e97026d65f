/* Sums over the tokens of a set, for pool.c.

   The moment about the mean is exact to rounding for any offset of x: each block of tokens computes
   its mean and its sum of squares about that mean, and two runs of tokens are merged by the rule of
   Chan, Golub and LeVeque (1979). With N1 and N2 tokens, d = mean_2 - mean_1 and
   f = N2 / (N1 + N2),

     mean = mean_1 + f d,  squares = squares_1 + squares_2 + f N1 d^2

   A mean is kept as its difference from one token of its part, so that an offset of x costs no
   digits. The full batch has several parts; any other set is one. */
#include "model/math/ranks.h"
#include "model/norm/pool.h"
#include <string.h>

/* ---- sets ---- */

/* A set: its row k is token first + k step of the pass. */
struct set {
    const struct pool *pool;
    const struct tokens *tokens;
    size_t number, first, step;
    struct parts parts; // of its rows
};

/* Set i. Sequence b is in set floor(b sets / B), so sizes of sets differ by one sequence at most.
   The full batch has the parts of the pass, unless norms pool over this rank's tokens only. */
static struct set set_at(const struct pool *pool, const struct tokens *tokens, size_t i) {
    const size_t B = tokens->B, T = tokens->T, sets = pool->sets;
    if (pool->positions) return (struct set){pool, tokens, i, i, T, parts_one(B)};
    const size_t begin = (i * B + sets - 1) / sets, end = ((i + 1) * B + sets - 1) / sets;
    const bool one = sets > 1 || tokens->local || !tokens->parts.size;
    return (struct set){pool,      tokens, i,
                        begin * T, 1,      one ? parts_one((end - begin) * T) : tokens->parts};
}

static bool counts(const struct set *s, size_t row) {
    return token_counts(s->tokens, s->first + row * s->step);
}

static size_t count(const struct set *s, struct range rows) {
    size_t valid = 0;
    for (size_t row = rows.begin; row < rows.end; row++) valid += counts(s, row);
    return valid;
}

/* The number of valid tokens among these rows of the full batch. The pass may have only some of
   the rows: tokens->valid starts at its first one. */
static size_t count_batch(const struct set *s, struct range rows) {
    struct tokens batch = *s->tokens;
    struct set set = *s;
    if (!batch.valid) return rows.end - rows.begin;
    batch.valid -= s->parts.first / (batch.rows_per_token ? batch.rows_per_token : 1);
    set.tokens = &batch;
    return count(&set, rows);
}

size_t pool_count(const struct pool *pool, const struct tokens *tokens, size_t i) {
    const struct set set = set_at(pool, tokens, i);
    return count_batch(&set, (struct range){0, set.parts.total});
}

/* The row of x (B,T,C), or of its gradient. */
static const real *row_of(const struct set *s, const real *x, size_t row) {
    return x + (s->first + row * s->step) * s->pool->C;
}

/* The first valid row of x in the part that has this row, or the part's last row. */
static const real *origin_of(const struct set *s, const real *x, size_t row) {
    size_t first = row - (s->parts.first + row) % s->parts.size;
    size_t end = size_min(first + s->parts.size, s->parts.rows);
    while (first + 1 < end && !counts(s, first)) first++;
    return row_of(s, x, first);
}

/* ---- a block of rows: two sums (2,C) ---- */

size_t pool_blocks(const struct pool *pool, size_t B, size_t T) {
    return team_row_blocks(pool->positions ? B : (B + pool->sets - 1) / pool->sets * T);
}

static real *block_sums(const struct set *s, size_t row) {
    size_t block = s->number * pool_blocks(s->pool, s->tokens->B, s->tokens->T) + row / ROWS;
    return s->pool->blocks + 2 * block * s->pool->C;
}

typedef void block_function(const struct set *s, struct range rows, real *sums, const real *x,
                            const real *dy);

/* The mean of x and sum (x - mean)^2. The mean is relative to the part's origin, so that an offset
   of x costs no digits. About zero it is 0, and so is the origin. */
static void block_moments(const struct set *s, struct range rows, real *sums, const real *x,
                          const real *dy) {
    size_t C = s->pool->C, valid = count(s, rows);
    const bool about_zero = s->pool->about_zero;
    real *mean = sums, *squares = sums + C; // initially 0
    const real *origin = about_zero ? mean : origin_of(s, x, rows.begin);
    for (size_t n = rows.begin; n < rows.end && !about_zero; n++) {
        const real *row = row_of(s, x, n);
        if (counts(s, n))
#pragma omp simd
            for (size_t c = 0; c < C; c++) mean[c] += row[c] - origin[c];
    }
#pragma omp simd
    for (size_t c = 0; c < C; c++) mean[c] /= (real)(valid ? valid : 1);
    for (size_t n = rows.begin; n < rows.end; n++) {
        const real *row = row_of(s, x, n);
        if (counts(s, n))
#pragma omp simd
            for (size_t c = 0; c < C; c++) {
                real deviation = row[c] - origin[c] - mean[c];
                squares[c] = mul_add(deviation, deviation, squares[c]);
            }
    }
}

/* sum dy and sum dy xhat */
static void block_gradients(const struct set *s, struct range rows, real *sums, const real *x,
                            const real *dy) {
    size_t C = s->pool->C;
    const real *mean = s->pool->mean + s->number * C, *rstd = s->pool->rstd + s->number * C;
    real *along_xhat = sums + C;
    for (size_t n = rows.begin; n < rows.end; n++) {
        const real *row = row_of(s, x, n), *drow = row_of(s, dy, n);
        if (!s->tokens->training || counts(s, n))
#pragma omp simd
            for (size_t c = 0; c < C; c++) {
                real xhat = (row[c] - mean[c]) * rstd[c];
                sums[c] += drow[c];
                along_xhat[c] = mul_add(drow[c], xhat, along_xhat[c]);
            }
    }
}

/* The calling thread's blocks of all sets; then a barrier. */
static void sum_blocks(const struct pool *pool, const struct tokens *tokens, block_function *sum,
                       const real *x, const real *dy) {
    const size_t blocks = pool_blocks(pool, tokens->B, tokens->T);
    const struct range share = team_part(pool->sets * blocks, 1);
    for (size_t i = share.begin; i < share.end; i++) {
        const struct set set = set_at(pool, tokens, i / blocks);
        const struct range rows = {i % blocks * ROWS,
                                   size_min((i % blocks + 1) * ROWS, set.parts.rows)};
        if (rows.begin >= rows.end) continue; // the set has fewer blocks than the largest one
        real *sums = block_sums(&set, rows.begin);
        memset(sums, 0, 2 * pool->C * sizeof(real));
        sum(&set, rows, sums, x, dy);
    }
    profile_lap(PROFILE_NORM);
    team_barrier();
}

/* ---- from blocks to a set ---- */

static real *stack_at(const struct pool *pool, size_t slot) { // (3,C)
    return pool->stack + 3 * slot * pool->C;
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

/* The state of adding up the blocks of a set, part by part, into slot 0 of the stack, for the
   calling thread's channels. */
struct fold {
    const struct set *set;
    struct range channels;
    const real *x;              // (B,T,C), of moments; NULL: sums
    size_t valid[PARTS_HEIGHT]; // tokens of each entry
};

/* Merges b into a: moments by the rule above, or two sums, which take the place of mean and
   squares. */
static void merge(const struct fold *f, struct moments *a, struct moments b) {
    const size_t total = a->valid + b.valid;
    const real fraction = total ? (real)b.valid / (real)total : 0, before = (real)a->valid;
    real *mean = a->mean, *squares = a->squares;
    if (!f->x) {
#pragma omp simd
        for (size_t c = f->channels.begin; c < f->channels.end; c++) {
            mean[c] += b.mean[c];
            squares[c] += b.squares[c];
        }
    } else if (b.valid) {
#pragma omp simd
        for (size_t c = f->channels.begin; c < f->channels.end; c++) {
            real difference = (b.origin[c] - a->origin[c]) + (b.mean[c] - mean[c]);
            mean[c] += difference * fraction;
            squares[c] += b.squares[c] + difference * difference * before * fraction;
        }
    }
    a->valid = total;
}

/* The moments or sums of a part from those of its blocks, in its slot of the stack. Returns the
   number of valid tokens of moments. */
static size_t fold_part(const struct fold *f, const struct parts_piece *piece) {
    const struct set *s = f->set;
    struct moments part = moments_at(s->pool, piece->slot, 0);
    const real *origin =
        f->x && !s->pool->about_zero ? origin_of(s, f->x, piece->rows.begin) : NULL;
    for (size_t c = f->channels.begin; c < f->channels.end; c++) {
        part.origin[c] = origin ? origin[c] : 0;
        part.mean[c] = part.squares[c] = 0;
    }
    for (size_t begin = piece->rows.begin; begin < piece->rows.end; begin += ROWS) {
        real *sums = block_sums(s, begin);
        const size_t valid = f->x ? count(s, team_row_block(begin, piece->rows)) : 0;
        merge(f, &part, (struct moments){valid, part.origin, sums, sums + s->pool->C});
    }
    return part.valid;
}

/* Merges the entry that was just written to its slot with those before it, as parts.h says. */
static void push(struct fold *f, struct parts_place place, size_t valid) {
    f->valid[place.slot] = valid;
    for (size_t slot = place.slot, i = 0; i < place.merges; i++, slot--) {
        struct moments below = moments_at(f->set->pool, slot - 1, f->valid[slot - 1]);
        merge(f, &below, moments_at(f->set->pool, slot, f->valid[slot]));
        f->valid[slot - 1] = below.valid;
    }
}

/* Adds up the sums of all ranks, if ranks share the batch. */
static void fold_ranks(struct fold *f) {
    const struct parts *parts = &f->set->parts;
    const struct pool *pool = f->set->pool;
    const size_t C = pool->C, count = parts_count(parts), busy = ranks_busy(count);
    const real *entry = ranks_gather(count, pool->stack, 3 * C);
    for (size_t rank = 0; rank < busy; rank++, entry += 3 * C) {
        const struct range run = ranks_parts(count, rank);
        const struct range rows = {run.begin * parts->size,
                                   size_min(run.end * parts->size, parts->total)};
        const struct parts_place place = parts_place_of(rank, rank + 1 == busy);
        for (size_t i = 0; i < 3 * C; i += C)
            memcpy(stack_at(pool, place.slot) + i + f->channels.begin,
                   entry + i + f->channels.begin,
                   (f->channels.end - f->channels.begin) * sizeof(real));
        push(f, place, count_batch(f->set, rows));
    }
}

/* Adds up the blocks' moments of x, or their sums if x is NULL, in slot 0. */
static void fold_set(const struct set *s, const real *x) {
    struct fold f = {.set = s, .channels = pool_channels(s->pool->C), .x = x};
    struct parts_piece piece;
    for (size_t row = 0; row < s->parts.rows; row = piece.rows.end) {
        piece = parts_piece_at(&s->parts, row, s->parts.rows);
        push(&f, (struct parts_place){piece.slot, piece.merges}, fold_part(&f, &piece));
    }
    if (s->parts.shared) fold_ranks(&f);
}

/* ---- all sets ---- */

void pool_moments(const struct pool *pool, const struct tokens *tokens, const real *x) {
    const struct range channels = pool_channels(pool->C);
    sum_blocks(pool, tokens, block_moments, x, NULL);
    for (size_t i = 0, offset = 0; i < pool->sets; i++, offset += pool->C) {
        const struct set set = set_at(pool, tokens, i);
        const struct moments moments = moments_at(pool, 0, pool_count(pool, tokens, i));
        const real per_token = 1 / (real)(moments.valid ? moments.valid : 1);
        fold_set(&set, x);
        for (size_t c = channels.begin; c < channels.end; c++) {
            pool->mean[offset + c] = moments.origin[c] + moments.mean[c];
            pool->moment[offset + c] = moments.squares[c] * per_token;
        }
    }
}

void pool_gradient_sums(const struct pool *pool, const struct tokens *tokens, const real *dy,
                        const real *x) {
    const struct range channels = pool_channels(pool->C);
    const struct moments sums = moments_at(pool, 0, 0);
    sum_blocks(pool, tokens, block_gradients, x, dy);
    for (size_t i = 0, offset = 0; i < pool->sets; i++, offset += pool->C) {
        const struct set set = set_at(pool, tokens, i);
        fold_set(&set, NULL);
        for (size_t c = channels.begin; c < channels.end; c++) {
            pool->along_ones[offset + c] = sums.mean[c];
            pool->along_xhat[offset + c] = sums.squares[c];
        }
    }
}
