/* See norm_sets.h. */
#include "model/norm/sets.h"
#include "model/math/vecmath.h"
#include <string.h>

enum { GAMMA, BETA };
enum { RUNNING_MEAN, RUNNING_VAR };
enum { CHANNELS = 32 }; // in a unit of work
enum { VECTORS = 4 };   // mean .. t

size_t sets_size(size_t most, size_t C) {
    return VECTORS * most * C;
}

/* The rest of what `sets` says, count and rows being known. */
static struct sets attach(struct sets sets, const struct norm *norm, const struct tokens *tokens) {
    size_t C = norm->C, size = sets.count * C;
    sets.C = C;
    sets.mean = norm->saved;
    sets.rstd = norm->saved + size;
    sets.s = norm->saved + 2 * size;
    sets.t = norm->saved + 3 * size;
    sets.running_mean = norm->state[RUNNING_MEAN];
    sets.running_var = norm->state[RUNNING_VAR];
    sets.tokens = tokens;
    return sets;
}

struct sets sets_of_time(const struct norm *norm, const struct tokens *tokens) {
    struct sets sets = {.count = tokens->training ? tokens->B : 1,
                        .size = tokens->T,
                        .start = tokens->T,
                        .step = 1,
                        .rows = 1};
    return attach(sets, norm, tokens);
}

struct sets sets_of_batch(const struct norm *norm, const struct tokens *tokens) {
    struct sets sets = {
        .count = tokens->T, .size = tokens->B, .start = 1, .step = tokens->T, .rows = tokens->T};
    return attach(sets, norm, tokens);
}

/* Where the numbers of token n's set lie in mean, rstd, s and t. */
static size_t place_of(const struct sets *sets, size_t n) {
    return n / sets->start % sets->count * sets->C;
}

/* The valid tokens of set i. */
static size_t count(const struct sets *sets, size_t i) {
    if (!sets->tokens->valid) return sets->size;
    size_t valid = 0;
    for (size_t k = 0; k < sets->size; k++)
        valid += token_counts(sets->tokens, i * sets->start + k * sets->step);
    return valid;
}

/* A unit of work: some channels of a set, and its tokens. */
struct unit {
    size_t set, begin, width;
    size_t token, end, step; // its first token and what is behind its last
};

static size_t units(const struct sets *sets) {
    return sets->count * ((sets->C + CHANNELS - 1) / CHANNELS);
}

static struct unit unit_at(const struct sets *sets, size_t u) {
    size_t blocks = (sets->C + CHANNELS - 1) / CHANNELS, begin = u % blocks * CHANNELS;
    size_t end = begin + CHANNELS < sets->C ? begin + CHANNELS : sets->C;
    size_t set = u / blocks, token = set * sets->start;
    return (struct unit){set,       begin, end - begin, token, token + sets->size * sets->step,
                         sets->step};
}

/* The mean of a unit's channels, and in place of rstd the sum of (x - mean)^2. Counted from the
   first valid token, so that an offset takes no digits. */
static void moments(const struct sets *sets, struct unit unit, const real *x) {
    size_t C = sets->C, first = unit.token, begin = unit.begin, width = unit.width;
    real *mean = sets->mean + unit.set * C + begin, *squares = sets->rstd + unit.set * C + begin;
    memset(mean, 0, width * sizeof(real));
    memset(squares, 0, width * sizeof(real));
    while (first < unit.end && !token_counts(sets->tokens, first)) first += unit.step;
    if (first >= unit.end) return;
    const real *origin = x + first * C + begin;
    real share = 1 / (real)count(sets, unit.set);
    for (size_t n = first; n < unit.end; n += unit.step)
        if (token_counts(sets->tokens, n))
#pragma omp simd
            for (size_t c = 0; c < width; c++) mean[c] += x[n * C + begin + c] - origin[c];
#pragma omp simd
    for (size_t c = 0; c < width; c++) mean[c] = mean[c] * share + origin[c];
    for (size_t n = first; n < unit.end; n += unit.step)
        if (token_counts(sets->tokens, n))
#pragma omp simd
            for (size_t c = 0; c < width; c++) {
                real apart = x[n * C + begin + c] - mean[c];
                squares[c] += apart * apart;
            }
}

/* One row of running statistics from the moments of its sets, and rstd in place of their squares;
   of the thread's own channels. */
static void settle(const struct sets *sets, size_t row, struct range channels, real momentum,
                   real eps) {
    size_t C = sets->C, with_mean = 0, with_var = 0;
    real *means = sets->s + row * C, *vars = sets->t + row * C; // (C), free as yet
    real *running_mean = sets->running_mean + row * C, *running_var = sets->running_var + row * C;
    for (size_t c = channels.begin; c < channels.end; c++) means[c] = vars[c] = 0;
    for (size_t i = row; i < sets->count; i += sets->rows) {
        size_t valid = count(sets, i);
        const real *mean = sets->mean + i * C;
        real *rstd = sets->rstd + i * C;
        real biased = 1 / (real)(valid ? valid : 1);
        real unbiased = valid > 1 ? 1 / (real)(valid - 1) : 0;
        with_mean += valid > 0;
        with_var += valid > 1;
#pragma omp simd
        for (size_t c = channels.begin; c < channels.end; c++) {
            means[c] += mean[c]; // 0 of an empty set
            vars[c] += rstd[c] * unbiased;
            rstd[c] = 1 / sqrt_real(rstd[c] * biased + eps);
        }
    }
    for (size_t c = channels.begin; with_mean && c < channels.end; c++)
        running_mean[c] += momentum * (means[c] / (real)with_mean - running_mean[c]);
    for (size_t c = channels.begin; with_var && c < channels.end; c++)
        running_var[c] += momentum * (vars[c] / (real)with_var - running_var[c]);
}

/* In evaluation: as many rows as sets. */
static void recall(const struct sets *sets, struct range channels, real eps) {
    for (size_t i = 0; i < sets->count; i++)
        for (size_t c = channels.begin; c < channels.end; c++) {
            sets->mean[i * sets->C + c] = sets->running_mean[i * sets->C + c];
            sets->rstd[i * sets->C + c] = 1 / sqrt_real(sets->running_var[i * sets->C + c] + eps);
        }
}

void sets_statistics(const struct sets *sets, const struct norm *norm, const real *x) {
    struct range channels = team_part(sets->C, 64 / sizeof(real));
    real eps = (real)norm->options.eps, momentum = (real)norm->options.bn_momentum;
    if (!sets->tokens->training) {
        recall(sets, channels, eps);
        return;
    }
    struct range own = team_part(units(sets), 1);
    for (size_t u = own.begin; u < own.end; u++) moments(sets, unit_at(sets, u), x);
    profile_lap(PROFILE_NORM);
    team_barrier();
    for (size_t row = 0; row < sets->rows; row++) settle(sets, row, channels, momentum, eps);
    if (channels.begin == 0 && channels.end > 0) *norm->batches += 1;
}

void sets_gradient_statistics(const struct sets *sets, const real *dy, const real *x) {
    if (!sets->tokens->training) return;
    size_t C = sets->C;
    struct range own = team_part(units(sets), 1);
    for (size_t u = own.begin; u < own.end; u++) {
        struct unit unit = unit_at(sets, u);
        size_t begin = unit.begin, width = unit.width, at = unit.set * C + begin;
        const real *mean = sets->mean + at, *rstd = sets->rstd + at;
        real *s = sets->s + at, *t = sets->t + at;
        size_t valid = count(sets, unit.set);
        real share = 1 / (real)(valid ? valid : 1);
        memset(s, 0, width * sizeof(real));
        memset(t, 0, width * sizeof(real));
        for (size_t n = unit.token; n < unit.end; n += unit.step)
            if (token_counts(sets->tokens, n))
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

void sets_forward(const struct sets *sets, const struct norm *norm, struct range rows, real *y,
                  const real *x) {
    size_t C = sets->C;
    const real *gamma = norm->param[GAMMA].value, *beta = norm->param[BETA].value; // (C)
    for (size_t n = rows.begin; n < rows.end; n++, x += C, y += C) {
        size_t at = place_of(sets, n);
        const real *mean = sets->mean + at, *rstd = sets->rstd + at; // (C)
        real part = sets->tokens->training && !token_counts(sets->tokens, n) ? 0 : 1;
#pragma omp simd
        for (size_t c = 0; c < C; c++)
            y[c] = (x[c] - mean[c]) * rstd[c] * part * gamma[c] + beta[c];
    }
}

void sets_backward(const struct sets *sets, const struct norm *norm, struct range rows, real *dx,
                   const real *dy, const real *x, real *const *sum) {
    size_t C = sets->C;
    const real *gamma = norm->param[GAMMA].value;  // (C)
    real *dgamma = sum[GAMMA], *dbeta = sum[BETA]; // (C)
    real pooled = sets->tokens->training ? 1 : 0;
    for (size_t n = rows.begin; n < rows.end; n++, x += C, dy += C, dx += C) {
        size_t at = place_of(sets, n);
        const real *mean = sets->mean + at, *rstd = sets->rstd + at; // (C)
        const real *s = sets->s + at, *t = sets->t + at;             // (C)
        real part = sets->tokens->training && !token_counts(sets->tokens, n) ? 0 : 1;
#pragma omp simd
        for (size_t c = 0; c < C; c++) {
            real xhat = (x[c] - mean[c]) * rstd[c];
            dgamma[c] += dy[c] * xhat * part;
            dbeta[c] += dy[c];
            dx[c] = gamma[c] * rstd[c] * part * (dy[c] - (s[c] + xhat * t[c]) * pooled);
        }
    }
}
