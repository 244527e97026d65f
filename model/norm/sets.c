/* See sets.h. */
#include "model/norm/sets.h"
#include "model/math/vecmath.h"
#include <string.h>

enum { CHANNELS = 32 }; // in a unit of work
enum { VECTORS = 4 };   // mean to t

/* The sets of a batch: positions, or sets of full sequences. */
struct sets {
    size_t C, count;
    bool positions;
    real *mean, *rstd, *s, *t;        // (count,C); s and t divided by n
    real *running_mean, *running_var; // (running,C)
    size_t running;                   // 1: all sets share them; or count
    const struct tokens *tokens;
};

static bool by_position(const struct norm *norm) {
    return norm->kind->state[SETS_RUNNING_MEAN].positions;
}

/* The number of sets of full sequences among B. */
static size_t sequence_sets(const struct norm *norm, size_t B) {
    if (!norm->kind->options[SETS_SHARDS]) return B;
    return size_min((size_t)norm->option[SETS_SHARDS].integer, B);
}

size_t sets_saved_size(const struct norm *norm, size_t B, size_t T) {
    return VECTORS * (by_position(norm) ? T : sequence_sets(norm, B)) * norm->C;
}

static struct sets sets_of(const struct norm *norm, const struct tokens *tokens) {
    const size_t C = norm->C;
    struct sets sets = {.C = C, .tokens = tokens, .positions = by_position(norm)};
    if (sets.positions) {
        sets.count = sets.running = tokens->T;
    } else { // in evaluation all sequences have the same statistics: one set
        sets.count = tokens->training ? sequence_sets(norm, tokens->B) : 1;
        sets.running = 1;
    }
    sets.mean = norm->saved;
    sets.rstd = sets.mean + sets.count * C;
    sets.s = sets.rstd + sets.count * C;
    sets.t = sets.s + sets.count * C;
    sets.running_mean = norm->state[SETS_RUNNING_MEAN];
    sets.running_var = norm->state[SETS_RUNNING_VAR];
    return sets;
}

/* The tokens of set i: from `begin` to before `end`, one in `step`. Sequence b is in set
   floor(b count / B), so sizes of sets differ by one sequence at most. */
struct set {
    size_t begin, end, step;
};

static struct set set_at(const struct sets *sets, size_t i) {
    size_t B = sets->tokens->B, T = sets->tokens->T, count = sets->count;
    if (sets->positions) return (struct set){i, B * T, T};
    return (struct set){(i * B + count - 1) / count * T, ((i + 1) * B + count - 1) / count * T, 1};
}

/* The offset of the statistics of token n's set in mean, rstd, s and t. */
static size_t offset_of(const struct sets *sets, size_t n) {
    size_t B = sets->tokens->B, T = sets->tokens->T;
    return (sets->positions ? n % T : n / T * sets->count / B) * sets->C;
}

/* The valid tokens of set i. */
static size_t count(const struct sets *sets, size_t i) {
    struct set set = set_at(sets, i);
    if (!sets->tokens->valid) return (set.end - set.begin + set.step - 1) / set.step;
    size_t valid = 0;
    for (size_t n = set.begin; n < set.end; n += set.step) valid += token_counts(sets->tokens, n);
    return valid;
}

/* A unit of work: some channels of a set, and its tokens. */
struct unit {
    size_t set, begin, width;
    struct set tokens;
};

static size_t units(const struct sets *sets) {
    return sets->count * ((sets->C + CHANNELS - 1) / CHANNELS);
}

static struct unit unit_at(const struct sets *sets, size_t u) {
    size_t blocks = (sets->C + CHANNELS - 1) / CHANNELS, begin = u % blocks * CHANNELS;
    return (struct unit){.set = u / blocks,
                         .begin = begin,
                         .width = size_min(CHANNELS, sets->C - begin),
                         .tokens = set_at(sets, u / blocks)};
}

/* The mean of a unit's channels, and in rstd for now the sum of (x - mean)^2. x is taken relative
   to the first valid token, so that an offset of x costs no digits. */
static void moments(const struct sets *sets, struct unit unit, const real *x) {
    size_t C = sets->C, first = unit.tokens.begin, begin = unit.begin, width = unit.width;
    real *mean = sets->mean + unit.set * C + begin, *squares = sets->rstd + unit.set * C + begin;
    memset(mean, 0, width * sizeof(real));
    memset(squares, 0, width * sizeof(real));
    while (first < unit.tokens.end && !token_counts(sets->tokens, first)) first += unit.tokens.step;
    if (first >= unit.tokens.end) return;
    const real *origin = x + first * C + begin;
    real per_token = 1 / (real)count(sets, unit.set);
    for (size_t n = first; n < unit.tokens.end; n += unit.tokens.step)
        if (token_counts(sets->tokens, n))
#pragma omp simd
            for (size_t c = 0; c < width; c++) mean[c] += x[n * C + begin + c] - origin[c];
#pragma omp simd
    for (size_t c = 0; c < width; c++) mean[c] = mean[c] * per_token + origin[c];
    for (size_t n = first; n < unit.tokens.end; n += unit.tokens.step)
        if (token_counts(sets->tokens, n))
#pragma omp simd
            for (size_t c = 0; c < width; c++) {
                real deviation = x[n * C + begin + c] - mean[c];
                squares[c] += deviation * deviation;
            }
}

/* After moments() of all units, for the thread's own channels: turns the sums of squares into rstd,
   and updates the running statistics r by the sets r, r + running, r + 2 running, ... */
static void settle(const struct sets *sets, size_t r, struct range channels, real momentum,
                   real eps) {
    size_t C = sets->C, with_mean = 0, with_var = 0;
    real *means = sets->s + r * C, *vars = sets->t + r * C; // (C), which backward needs later
    real *running_mean = sets->running_mean + r * C, *running_var = sets->running_var + r * C;
    for (size_t c = channels.begin; c < channels.end; c++) means[c] = vars[c] = 0;
    for (size_t i = r; i < sets->count; i += sets->running) {
        size_t valid = count(sets, i);
        const real *mean = sets->mean + i * C;
        real *rstd = sets->rstd + i * C;
        real biased = 1 / (real)(valid ? valid : 1);
        real unbiased = valid > 1 ? 1 / (real)(valid - 1) : 0;
        with_mean += valid > 0;
        with_var += valid > 1;
#pragma omp simd
        for (size_t c = channels.begin; c < channels.end; c++) {
            means[c] += mean[c]; // an empty set has mean 0
            vars[c] += rstd[c] * unbiased;
            rstd[c] = 1 / sqrt_real(rstd[c] * biased + eps);
        }
    }
    for (size_t c = channels.begin; with_mean && c < channels.end; c++)
        running_mean[c] += momentum * (means[c] / (real)with_mean - running_mean[c]);
    for (size_t c = channels.begin; with_var && c < channels.end; c++)
        running_var[c] += momentum * (vars[c] / (real)with_var - running_var[c]);
}

/* In evaluation each set has running statistics: count and running are equal. */
static void use_running(const struct sets *sets, struct range channels, real eps) {
    for (size_t i = 0; i < sets->count; i++)
        for (size_t c = channels.begin; c < channels.end; c++) {
            sets->mean[i * sets->C + c] = sets->running_mean[i * sets->C + c];
            sets->rstd[i * sets->C + c] = 1 / sqrt_real(sets->running_var[i * sets->C + c] + eps);
        }
}

void sets_statistics(const struct norm *norm, const struct tokens *tokens, const real *x) {
    const struct sets sets = sets_of(norm, tokens);
    struct range channels = team_part(norm->C, 64 / sizeof(real));
    real eps = (real)norm->option[SETS_EPS].real;
    real momentum = (real)norm->option[SETS_MOMENTUM].real;
    if (!tokens->training) {
        use_running(&sets, channels, eps);
        return;
    }
    struct range own = team_part(units(&sets), 1);
    for (size_t u = own.begin; u < own.end; u++) moments(&sets, unit_at(&sets, u), x);
    profile_lap(PROFILE_NORM);
    team_barrier();
    for (size_t r = 0; r < sets.running; r++) settle(&sets, r, channels, momentum, eps);
    if (channels.begin == 0 && channels.end > 0) *norm->batches += 1;
}

/* s and t of a unit's channels, divided by n. */
static void gradient_sums(const struct sets *sets, struct unit unit, const real *dy,
                          const real *x) {
    size_t C = sets->C, begin = unit.begin, width = unit.width, at = unit.set * C + begin;
    const real *mean = sets->mean + at, *rstd = sets->rstd + at;
    real *s = sets->s + at, *t = sets->t + at;
    size_t valid = count(sets, unit.set);
    real per_token = 1 / (real)(valid ? valid : 1);
    memset(s, 0, width * sizeof(real));
    memset(t, 0, width * sizeof(real));
    for (size_t n = unit.tokens.begin; n < unit.tokens.end; n += unit.tokens.step)
        if (token_counts(sets->tokens, n))
#pragma omp simd
            for (size_t c = 0; c < width; c++) {
                real d = dy[n * C + begin + c];
                s[c] += d;
                t[c] += d * (x[n * C + begin + c] - mean[c]);
            }
#pragma omp simd
    for (size_t c = 0; c < width; c++) {
        s[c] *= per_token;
        t[c] *= rstd[c] * per_token;
    }
}

void sets_gradient_statistics(const struct norm *norm, const struct tokens *tokens, const real *dy,
                              const real *x) {
    if (!tokens->training) return;
    const struct sets sets = sets_of(norm, tokens);
    struct range own = team_part(units(&sets), 1);
    for (size_t u = own.begin; u < own.end; u++) gradient_sums(&sets, unit_at(&sets, u), dy, x);
}

void sets_forward(const struct norm *norm, const struct tokens *tokens, struct range rows, real *y,
                  const real *x) {
    const struct sets sets = sets_of(norm, tokens);
    size_t C = norm->C;
    const real *gamma = norm->param[SETS_GAMMA].value, *beta = norm->param[SETS_BETA].value; // (C)
    for (size_t n = rows.begin; n < rows.end; n++, x += C, y += C) {
        size_t at = offset_of(&sets, n);
        const real *mean = sets.mean + at, *rstd = sets.rstd + at; // (C)
        real used = tokens->training && !token_counts(tokens, n) ? 0 : 1;
#pragma omp simd
        for (size_t c = 0; c < C; c++)
            y[c] = (x[c] - mean[c]) * rstd[c] * used * gamma[c] + beta[c];
    }
}

void sets_backward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                   real *dx, const real *dy, const real *x, real *const *sum) {
    const struct sets sets = sets_of(norm, tokens);
    size_t C = norm->C;
    const real *gamma = norm->param[SETS_GAMMA].value;       // (C)
    real *dgamma = sum[SETS_GAMMA], *dbeta = sum[SETS_BETA]; // (C)
    real pooled = tokens->training ? 1 : 0; // in evaluation mean and rstd are constants
    for (size_t n = rows.begin; n < rows.end; n++, x += C, dy += C, dx += C) {
        size_t at = offset_of(&sets, n);
        const real *mean = sets.mean + at, *rstd = sets.rstd + at; // (C)
        const real *s = sets.s + at, *t = sets.t + at;             // (C)
        real used = tokens->training && !token_counts(tokens, n) ? 0 : 1;
#pragma omp simd
        for (size_t c = 0; c < C; c++) {
            real xhat = (x[c] - mean[c]) * rstd[c];
            dgamma[c] += dy[c] * xhat * used;
            dbeta[c] += dy[c];
            dx[c] = gamma[c] * rstd[c] * used * (dy[c] - (s[c] + xhat * t[c]) * pooled);
        }
    }
}
