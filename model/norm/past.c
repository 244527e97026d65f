/* See past.h. */
#include "model/norm/past.h"
#include "model/math/reduce.h"
#include "model/math/vecmath.h"
#include <string.h>

/* What is saved of each token, each (G). */
enum { MEAN, VAR, RSTD, SHIFT, SLOPE, VECTORS };

/* A batch, token by token. A token has `rows` rows of C reals: its heads, or one. */
struct past {
    size_t C, G, K, B, T, rows;
    size_t first;               // token of the batch, from which on x is new
    const unsigned char *valid; // (B,T), or NULL
    real *saved;                // (B T,VECTORS,G)
};

static struct past past_of(const struct norm *norm, const struct tokens *tokens) {
    size_t rows = tokens->rows_per_token ? tokens->rows_per_token : 1, G = 1;
    return (struct past){.C = norm->C,
                         .G = G,
                         .K = norm->C / G,
                         .B = tokens->B,
                         .T = tokens->T / rows,
                         .rows = rows,
                         .first = tokens->first / rows,
                         .valid = tokens->valid,
                         .saved = norm->saved};
}

/* T counts rows, so norms of heads have more room than they need. */
size_t past_saved_size(const struct norm *norm, size_t B, size_t T) {
    (void)norm;
    return VECTORS * B * T;
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

/* mu in SHIFT and sigma in SLOPE, for now. */
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

/* From the statistics before the token, (G), to those that include it; n is the number of valid
   tokens among these. */
static void include(const struct past *past, size_t token, size_t n, const real *mean,
                    const real *var, real eps) {
    const real *mu = saved_at(past, token, SHIFT), *sigma = saved_at(past, token, SLOPE);
    real *new_mean = saved_at(past, token, MEAN), *new_var = saved_at(past, token, VAR);
    real *rstd = saved_at(past, token, RSTD), weight = 1 / (real)n;
    for (size_t g = 0; g < past->G; g++) {
        real d = mu[g] - mean[g];
        new_mean[g] = mean[g] + weight * d;
        new_var[g] = (1 - weight) * (var[g] + weight * d * d) + weight * sigma[g];
        rstd[g] = 1 / sqrt_real(new_var[g] + eps);
    }
}

/* The statistics of a sequence's new tokens, in order. */
static void scan(const struct past *past, size_t sequence, real eps) {
    size_t begin = sequence * past->T, end = begin + past->T, first = begin;
    if (past->first > first) first = past->first;
    size_t n = count(past, begin, first), bytes = past->G * sizeof(real);
    for (size_t token = first; token < end; token++) {
        real *mean = saved_at(past, token, MEAN), *var = saved_at(past, token, VAR);
        if (token > begin) {
            memcpy(mean, saved_at(past, token - 1, MEAN), bytes);
            memcpy(var, saved_at(past, token - 1, VAR), bytes);
        } else {
            memset(mean, 0, bytes);
            memset(var, 0, bytes);
        }
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

/* sum_c g in SHIFT and sum_c g xhat in SLOPE, for now. */
static void token_sums(const struct past *past, const real *gamma, size_t token, const real *dy,
                       const real *x) {
    const size_t C = past->C, K = past->K;
    for (size_t g = 0; g < past->G; g++) {
        real mean = saved_at(past, token, MEAN)[g], ones = 0, along = 0;
        for (size_t r = 0; r < past->rows; r++) {
            size_t at = (token * past->rows + r) * C + g * K;
            ones += row_dot(K, gamma + g * K, dy + at);
            along += row_dot_product_about(K, gamma + g * K, dy + at, x + at, mean);
        }
        saved_at(past, token, SHIFT)[g] = ones;
        saved_at(past, token, SLOPE)[g] = along * saved_at(past, token, RSTD)[g];
    }
}

/* P and Q of a sequence's tokens, in SHIFT and SLOPE, from its end to its start. */
static void scan_back(const struct past *past, size_t sequence) {
    size_t begin = sequence * past->T, end = begin + past->T, n = count(past, begin, end);
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
        if (counts(&past, token)) token_sums(&past, norm->param[PAST_GAMMA].value, token, dy, x);
    team_barrier();
    for (size_t b = sequences.begin; b < sequences.end; b++) scan_back(&past, b);
}

void past_forward(const struct norm *norm, const struct tokens *tokens, struct range rows, real *y,
                  const real *x) {
    const struct past past = past_of(norm, tokens);
    const size_t C = past.C, K = past.K;
    const real *gamma = norm->param[PAST_GAMMA].value, *beta = norm->param[PAST_BETA].value; // (C)
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
                y[c] = mul_add((x[c] - mean) * rstd, gamma[c], beta[c]);
        }
    }
}

void past_backward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                   real *dx, const real *dy, const real *x, real *const *sum) {
    const struct past past = past_of(norm, tokens);
    const size_t C = past.C, K = past.K;
    const real *gamma = norm->param[PAST_GAMMA].value;       // (C)
    real *dgamma = sum[PAST_GAMMA], *dbeta = sum[PAST_BETA]; // (C)
    for (size_t n = rows.begin; n < rows.end; n++, x += C, dy += C, dx += C) {
        size_t token = n / past.rows;
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
                dx[c] = rstd * gamma[c] * dy[c] - shift - slope * (x[c] - mean);
            }
        }
    }
}
