/* See past.h. */
#include "model/norm/past.h"
#include "model/math/reduce.h"
#include "model/math/vecmath.h"
#include <math.h>
#include <string.h>

/* The saved values of each token, each (G). SHIFT and SLOPE hold mu and sigma^2 in forward; in
   backward first sum_c g and sum_c g xhat, then P and Q. */
enum { MEAN, VAR, RSTD, SHIFT, SLOPE, VECTORS };

/* A batch, token by token. A token has `rows` rows of C reals: its heads, or one. */
struct past {
    size_t C, G, K, B, T, rows;
    size_t first;               // token of the batch, from which on x is new
    const unsigned char *valid; // (B,T), or NULL
    real *saved;                // (B T,VECTORS,G)
    size_t prior;               // n_0
    const real *mean, *logv;    // (G) the prior's, if there is one
    real one;                   // gamma is one + weight
    const real *weight;         // (C)
};

static struct past past_of(const struct norm *norm, const struct tokens *tokens) {
    const struct norm_kind *kind = norm->kind;
    const bool groups = kind->options[PAST_GROUPS], prior = kind->param[PAST_PRIOR_MEAN].name;
    size_t rows = tokens->rows_per_token ? tokens->rows_per_token : 1;
    size_t G = groups ? (size_t)norm->option[PAST_GROUPS].integer : 1;
    return (struct past){.C = norm->C,
                         .G = G,
                         .K = norm->C / G,
                         .B = tokens->B,
                         .T = tokens->T / rows,
                         .rows = rows,
                         .first = tokens->first / rows,
                         .valid = tokens->valid,
                         .saved = norm->saved,
                         .prior = prior ? (size_t)norm->option[PAST_PRIOR_COUNT].integer : 0,
                         .mean = prior ? norm->param[PAST_PRIOR_MEAN].value : NULL,
                         .logv = prior ? norm->param[PAST_PRIOR_LOGV].value : NULL,
                         .one = kind->param[PAST_GAMMA].start == 0,
                         .weight = norm->param[PAST_GAMMA].value};
}

/* T counts rows, so norms of heads have more room than they need. */
size_t past_saved_size(const struct norm *norm, size_t B, size_t T) {
    const bool groups = norm->kind->options[PAST_GROUPS];
    return VECTORS * B * T * (groups ? (size_t)norm->option[PAST_GROUPS].integer : 1);
}

static real *saved_at(const struct past *past, size_t token, size_t vector) { // (G)
    return past->saved + (token * VECTORS + vector) * past->G;
}

static bool counts(const struct past *past, size_t token) {
    return !past->valid || past->valid[token];
}

/* The number of valid tokens from `begin` to before `end`. */
static size_t count(const struct past *past, size_t begin, size_t end) {
    size_t valid = 0;
    for (size_t n = begin; n < end; n++) valid += counts(past, n);
    return valid;
}

/* The thread's part of the new tokens. */
static struct range own_tokens(const struct past *past) {
    return team_part_rows((struct range){past->first, past->B * past->T});
}

/* mu in SHIFT and sigma^2 in SLOPE. */
static void token_moments(const struct past *past, size_t token, const real *x) {
    const size_t C = past->C, K = past->K;
    const real per_number = 1 / (real)(past->rows * K);
    for (size_t g = 0; g < past->G; g++) {
        const real *group = x + token * past->rows * C + g * K;
        real mean = 0, squares = 0;
        for (size_t r = 0; r < past->rows; r++) mean += row_sum(K, group + r * C);
        mean *= per_number;
        for (size_t r = 0; r < past->rows; r++)
            squares += row_squares_about(K, group + r * C, mean);
        saved_at(past, token, SHIFT)[g] = mean;
        saved_at(past, token, SLOPE)[g] = squares * per_number;
    }
}

/* The mean and variance that a sequence starts with, (G) each. */
static void start(const struct past *past, real *mean, real *var) {
    for (size_t g = 0; g < past->G; g++) {
        mean[g] = past->prior ? past->mean[g] : 0;
        var[g] = past->prior ? (real)exp((double)past->logv[g]) : 0;
    }
}

/* From the statistics before the token, (G), to those that include it, of n tokens. */
static void include(const struct past *past, size_t token, size_t n, const real *mean,
                    const real *var, real eps) {
    const real *mu = saved_at(past, token, SHIFT), *sigma2 = saved_at(past, token, SLOPE);
    real *new_mean = saved_at(past, token, MEAN), *new_var = saved_at(past, token, VAR);
    real *rstd = saved_at(past, token, RSTD), weight = 1 / (real)n;
    for (size_t g = 0; g < past->G; g++) {
        real d = mu[g] - mean[g];
        new_mean[g] = mean[g] + weight * d;
        new_var[g] = (1 - weight) * (var[g] + weight * d * d) + weight * sigma2[g];
        rstd[g] = 1 / sqrt_real(new_var[g] + eps);
    }
}

/* The statistics of a sequence's new tokens, in order. */
static void scan(const struct past *past, size_t sequence, real eps) {
    size_t begin = sequence * past->T, end = begin + past->T, first = begin;
    if (past->first > first) first = past->first;
    size_t n = past->prior + count(past, begin, first), bytes = past->G * sizeof(real);
    for (size_t token = first; token < end; token++) {
        real *mean = saved_at(past, token, MEAN), *var = saved_at(past, token, VAR);
        if (token > begin) {
            memcpy(mean, saved_at(past, token - 1, MEAN), bytes);
            memcpy(var, saved_at(past, token - 1, VAR), bytes);
        } else
            start(past, mean, var);
        if (counts(past, token)) include(past, token, ++n, mean, var, eps);
    }
}

void past_statistics(const struct norm *norm, const struct tokens *tokens, const real *x) {
    const struct past past = past_of(norm, tokens);
    struct range own = own_tokens(&past), sequences = team_part(past.B, 1);
    for (size_t token = own.begin; token < own.end; token++)
        if (counts(&past, token)) token_moments(&past, token, x);
    team_barrier();
    for (size_t b = sequences.begin; b < sequences.end; b++)
        scan(&past, b, (real)norm->option[PAST_EPS].real);
}

/* sum_c g in SHIFT and sum_c g xhat in SLOPE. */
static void token_sums(const struct past *past, size_t token, const real *dy, const real *x) {
    const size_t C = past->C, K = past->K;
    for (size_t g = 0; g < past->G; g++) {
        real mean = saved_at(past, token, MEAN)[g], ones = 0, along = 0;
        for (size_t r = 0; r < past->rows; r++) {
            size_t at = (token * past->rows + r) * C + g * K;
            ones += row_dot(K, past->weight + g * K, dy + at);
            along += row_dot_product_about(K, past->weight + g * K, dy + at, x + at, mean);
            if (past->one == 0) continue;
            ones += row_sum(K, dy + at);
            along += row_dot_about(K, dy + at, x + at, mean);
        }
        saved_at(past, token, SHIFT)[g] = ones;
        saved_at(past, token, SLOPE)[g] = along * saved_at(past, token, RSTD)[g];
    }
}

/* P and Q of a sequence's tokens, in SHIFT and SLOPE, from its end to its start. */
static void scan_back(const struct past *past, size_t sequence) {
    size_t begin = sequence * past->T, end = begin + past->T,
           n = past->prior + count(past, begin, end);
    for (size_t token = end; token-- > begin;) {
        real *shift = saved_at(past, token, SHIFT), *slope = saved_at(past, token, SLOPE);
        const real *mean = saved_at(past, token, MEAN), *rstd = saved_at(past, token, RSTD);
        const real *later = saved_at(past, token + 1, 0);
        bool valid = counts(past, token), last = token + 1 == end;
        real weight = valid ? 1 / (real)(n * past->rows * past->K) : 0;
        for (size_t g = 0; g < past->G; g++) {
            real p = valid ? rstd[g] * shift[g] * weight : 0;
            real q = valid ? rstd[g] * rstd[g] * slope[g] * weight : 0;
            real Q = last ? 0 : later[SLOPE * past->G + g];
            real P =
                last ? 0 : later[SHIFT * past->G + g] + (mean[g] - later[MEAN * past->G + g]) * Q;
            shift[g] = P + p;
            slope[g] = Q + q;
        }
        n -= valid;
    }
}

void past_gradient_statistics(const struct norm *norm, const struct tokens *tokens, const real *dy,
                              const real *x) {
    const struct past past = past_of(norm, tokens);
    struct range own = own_tokens(&past), sequences = team_part(past.B, 1);
    for (size_t token = own.begin; token < own.end; token++)
        if (counts(&past, token)) token_sums(&past, token, dy, x);
    team_barrier();
    for (size_t b = sequences.begin; b < sequences.end; b++) scan_back(&past, b);
}

void past_forward(const struct norm *norm, const struct tokens *tokens, struct range rows, real *y,
                  const real *x) {
    const struct past past = past_of(norm, tokens);
    const size_t C = past.C, K = past.K;
    const real *weight = past.weight, *beta = norm->param[PAST_BETA].value; // (C)
    for (size_t n = rows.begin; n < rows.end; n++, x += C, y += C) {
        size_t token = n / past.rows;
        if (!counts(&past, token)) {
            memcpy(y, beta, C * sizeof(real));
            continue;
        }
        for (size_t g = 0, first = 0; g < past.G; g++, first += K) {
            real mean = saved_at(&past, token, MEAN)[g], rstd = saved_at(&past, token, RSTD)[g];
#pragma omp simd
            for (size_t c = first; c < first + K; c++)
                y[c] = mul_add((x[c] - mean) * rstd, past.one + weight[c], beta[c]);
        }
    }
}

/* From P and Q of a sequence's first token. */
static void prior_gradient(const struct past *past, size_t token, real *const *sum) {
    const real *shift = saved_at(past, token, SHIFT), *slope = saved_at(past, token, SLOPE);
    const real *mean = saved_at(past, token, MEAN);
    const real numbers = (real)(past->prior * past->rows * past->K);
    for (size_t g = 0; g < past->G; g++) {
        real var = (real)exp((double)past->logv[g]);
        sum[PAST_PRIOR_MEAN][g] -= numbers * (shift[g] + slope[g] * (past->mean[g] - mean[g]));
        sum[PAST_PRIOR_LOGV][g] -= numbers * slope[g] * var / 2;
    }
}

void past_backward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                   real *dx, const real *dy, const real *x, real *const *sum) {
    const struct past past = past_of(norm, tokens);
    const size_t C = past.C, K = past.K;
    real *dgamma = sum[PAST_GAMMA], *dbeta = sum[PAST_BETA]; // (C)
    for (size_t n = rows.begin; n < rows.end; n++, x += C, dy += C, dx += C) {
        size_t token = n / past.rows;
        if (past.prior && n % (past.T * past.rows) == 0) prior_gradient(&past, token, sum);
        if (!counts(&past, token)) {
            for (size_t c = 0; c < C; c++) dbeta[c] += dy[c];
            memset(dx, 0, C * sizeof(real));
            continue;
        }
        for (size_t g = 0, first = 0; g < past.G; g++, first += K) {
            real mean = saved_at(&past, token, MEAN)[g], rstd = saved_at(&past, token, RSTD)[g];
            real shift = saved_at(&past, token, SHIFT)[g], slope = saved_at(&past, token, SLOPE)[g];
#pragma omp simd
            for (size_t c = first; c < first + K; c++) {
                dgamma[c] = mul_add(dy[c], (x[c] - mean) * rstd, dgamma[c]);
                dbeta[c] += dy[c];
                dx[c] = rstd * (past.one + past.weight[c]) * dy[c] - shift - slope * (x[c] - mean);
            }
        }
    }
}
