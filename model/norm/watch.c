/* The metrics, for a batch with mean_B and var_B and running averages m and v from before it:

     dist_mean = |mean_B - m| / C,  dist_var = |var_B - v| / C
     tid_mean  = |mean_B - m| / |sigma|,  tid_var = |sigma_B - sigma| / |sigma|
     g_mean, g_var = the lengths of the terms of watch.h

   with | | the length over the C channels, sigma = sqrt(v + eps) and sigma_B = sqrt(var_B +
   eps). */
#include "model/norm/watch.h"
#include "model/math/reduce.h"
#include "model/math/vecmath.h"
#include "model/norm/pool.h"
#include <math.h>

void norm_watch_attach(struct norm *norm, const struct norm_options *options,
                       const struct layout *layout) {
    struct norm_watch *w = &norm->watch;
    struct tensor_list *tracked = &layout->lists->tracked;
    const size_t C = norm->C, terms = size_max(layout->B * layout->T, C);
    w->momentum = norm_setting(options, &norm_momentum).real;
    w->eps = norm_setting(options, &norm_eps).real;
    w->tracked_mean = tensor_take(tracked, norm->name, "mean", C, 0, 0, 0).value;
    w->tracked_var = tensor_take(tracked, norm->name, "var", C, 0, 1, 0).value;
    pool_attach(&w->pool, C, 1, false, layout);
    w->expected_mean = arena_reals(layout->arena, C);
    w->expected_var = arena_reals(layout->arena, C);
    w->centre = arena_reals(layout->arena, C);
    w->g_mean = arena_reals(layout->arena, terms);
    w->g_var = arena_reals(layout->arena, terms);
    if (norm->kind->saturated) w->saturated = arena_reals(layout->arena, layout->B * layout->T);
}

static void saturation_of_tokens(const struct norm *norm, const struct tokens *tokens,
                                 const real *x) {
    struct range share = team_part(tokens->B * tokens->T, ROWS);
    size_t C = norm->C;
    for (size_t n = share.begin; n < share.end; n++)
        norm->watch.saturated[n] =
            token_counts(tokens, n) ? (real)norm->kind->saturated(norm, x + n * C) / (real)C : -1;
}

void norm_watch_forward(const struct norm *norm, const struct tokens *tokens, const real *x) {
    const struct norm_watch *w = &norm->watch;
    const struct pool *pool = &w->pool;
    struct range channels = pool_channels(norm->C);
    const real eps = (real)w->eps;
    for (size_t c = channels.begin; c < channels.end; c++) {
        w->expected_mean[c] = w->tracked_mean[c];
        w->expected_var[c] = w->tracked_var[c];
    }
    pool_statistics(pool, tokens, x, w->tracked_mean, w->tracked_var, (real)w->momentum, eps);
    for (size_t c = channels.begin; c < channels.end; c++) {
        const real mean = pool->mean[c];
        w->centre[c] = norm->kind->centred ? mean : 0;
        if (!norm->kind->centred)
            pool->rstd[c] = 1 / sqrt_real(pool->moment[c] + mean * mean + eps);
    }
    if (tokens->probe && w->saturated) saturation_of_tokens(norm, tokens, x);
}

static void terms_of_channels(const struct norm *norm, const struct tokens *tokens, const real *dy,
                              const real *x) {
    const struct norm_watch *w = &norm->watch;
    struct range channels = pool_channels(norm->C);
    struct pool pool = w->pool;
    const real *gamma = norm->gamma; // (C), or NULL: 1
    pool.mean = w->centre;
    pool_gradient_sums(&pool, tokens, dy, x);
    size_t valid = pool_count(&pool, tokens, 0);
    for (size_t c = channels.begin; c < channels.end; c++) {
        real factor = (gamma ? gamma[c] : 1) / (real)(valid ? valid : 1);
        w->g_mean[c] = factor * pool.along_ones[c];
        w->g_var[c] = factor * pool.along_xhat[c];
    }
}

static void terms_of_tokens(const struct norm *norm, const struct tokens *tokens, const real *dy,
                            const real *x) {
    const struct norm_watch *w = &norm->watch;
    struct range share = team_part(tokens->B * tokens->T, ROWS);
    size_t C = norm->C;
    const real *gamma = norm->gamma; // (C), or NULL: 1
    for (size_t n = share.begin; n < share.end; n++) {
        const real *row = x + n * C, *drow = dy + n * C;
        real mean = norm->kind->centred ? row_sum(C, row) / (real)C : 0, sum = 0, along = 0;
        real variance = row_squares_about(C, row, mean) / (real)C;
        real rstd = 1 / sqrt_real(variance + (real)w->eps);
        for (size_t c = 0; c < C; c++) {
            real g = (gamma ? gamma[c] : 1) * drow[c];
            sum += g;
            along += g * (row[c] - mean) * rstd;
        }
        w->g_mean[n] = sum / (real)C;
        w->g_var[n] = along / (real)C;
    }
}

void norm_watch_backward(const struct norm *norm, const struct tokens *tokens, const real *dy,
                         const real *x) {
    if (norm->terms == NORM_TERMS_OF_CHANNELS) terms_of_channels(norm, tokens, dy, x);
    if (norm->terms == NORM_TERMS_OF_TOKENS) terms_of_tokens(norm, tokens, dy, x);
}

/* The length of a - b, or of a if b is NULL. */
static double length(size_t count, const real *a, const real *b) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        double difference = (double)a[i] - (b ? (double)b[i] : 0);
        sum += difference * difference;
    }
    return sqrt(sum);
}

/* The mean of the fractions of N tokens, without pads. */
static double saturation(const struct norm_watch *w, size_t N) {
    size_t valid = 0;
    double sum = 0;
    for (size_t n = 0; n < N; n++) {
        if (w->saturated[n] < 0) continue;
        valid++;
        sum += (double)w->saturated[n];
    }
    return sum / (double)(valid ? valid : 1);
}

size_t norm_watch_metrics(const struct norm *norm, size_t N,
                          struct norm_metric metrics[NORM_METRICS]) {
    const struct norm_watch *w = &norm->watch;
    const struct pool *pool = &w->pool;
    size_t C = norm->C, count = 0;
    double tracked = 0, difference = 0; // sums of squares, of standard deviations
    for (size_t c = 0; c < C; c++) {
        double sigma = sqrt((double)w->expected_var[c] + w->eps);
        double batch = sqrt((double)pool->moment[c] + w->eps);
        tracked += sigma * sigma;
        difference += (batch - sigma) * (batch - sigma);
    }
    double of_mean = length(C, pool->mean, w->expected_mean);
    double of_var = length(C, pool->moment, w->expected_var);
    metrics[count++] = (struct norm_metric){"dist_mean", of_mean / (double)C};
    metrics[count++] = (struct norm_metric){"dist_var", of_var / (double)C};
    metrics[count++] = (struct norm_metric){"tid_mean", of_mean / sqrt(tracked)};
    metrics[count++] = (struct norm_metric){"tid_var", sqrt(difference / tracked)};
    double penalty = norm->kind->penalty ? norm->kind->penalty(norm) : 0;
    if (penalty > 0) metrics[count++] = (struct norm_metric){"penalty", penalty};
    if (w->saturated) metrics[count++] = (struct norm_metric){"saturation", saturation(w, N)};
    if (norm->terms == NORM_TERMS_NONE) return count;
    size_t terms = norm->terms == NORM_TERMS_OF_CHANNELS ? C : N;
    metrics[count++] = (struct norm_metric){"g_mean", length(terms, w->g_mean, NULL)};
    metrics[count++] = (struct norm_metric){"g_var", length(terms, w->g_var, NULL)};
    return count;
}
