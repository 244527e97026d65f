/* PRepBN: LayerNorm that turns into a re-parameterized BatchNorm while training goes on.

     y = lambda ln(x) + (1 - lambda) (bn(x) + eta x),   lambda = max(0, 1 - k / steps)

   at the batch after k others. In evaluation lambda is 0: what is left are running statistics, so
   that the norm can be merged into the next linear layer. ln and bn have gamma and beta of their
   own; eta is a learned number.

   Backward: with d1 = lambda dy and d2 = (1 - lambda) dy,
     dx = ln'(d1) + bn'(d2) + eta d2,  deta += sum d2 x
   ln' as in norm_layer.c, bn' as in norm_pool.c, pads and all.

   Guo et al. 2024 (SLAB), PRepBN and RepBN (arXiv:2405.11582), and the authors' code (prepbn.py),
   whose names the tensors have: there eta is RepBN's alpha, 1 at first for images and 0 for LLaMA,
   where norm1 is RMSNorm and bn's gamma too starts at 0, after `warm` batches of norm1 alone; here
   gamma starts at 1 and lambda falls from the first batch on. Their `iter` is steps -
   num_batches_tracked. */
#include "model/math/reduce.h"
#include "model/math/vecmath.h"
#include "model/norm/pool.h"

enum { LN_GAMMA, LN_BETA, ETA, BN_GAMMA, BN_BETA };
enum { RUNNING_MEAN, RUNNING_VAR };
enum { PAD = 64 / sizeof(real) }; // that lambda takes

/* What is kept: lambda, a row (C) for each block of tokens, the pool. */
static size_t saved(const struct norm *norm, size_t B, size_t T) {
    return PAD + team_row_blocks(B * T) * norm->C + pool_size(B, T, norm->C);
}

static struct pool pool_of(const struct norm *norm, const struct tokens *tokens) {
    return pool_at(norm->saved + PAD + team_row_blocks(tokens->B * tokens->T) * norm->C, norm->C);
}

static real lambda_of(const struct norm *norm, const struct tokens *tokens) {
    int64_t batches = *norm->batches, steps = norm->options.prepbn_steps;
    return tokens->training && batches < steps ? (real)(1 - (double)batches / (double)steps) : 0;
}

static void statistics(const struct norm *norm, const struct tokens *tokens, const real *x) {
    struct pool pool = pool_of(norm, tokens);
    struct range channels = pool_channels(norm->C);
    real eps = (real)norm->options.eps, lambda = lambda_of(norm, tokens);
    if (tokens->training)
        pool_track(&pool, tokens, x, norm->state[RUNNING_MEAN], norm->state[RUNNING_VAR],
                   (real)norm->options.bn_momentum, eps);
    else
        pool_recall(&pool, norm->state[RUNNING_MEAN], norm->state[RUNNING_VAR], eps);
    for (size_t c = channels.begin; c < channels.end; c++) pool.divide[c] *= 1 - lambda;
    if (channels.begin || !channels.end) return;
    norm->saved[0] = lambda;
    if (tokens->training) *norm->batches += 1;
}

static void forward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                    real *y, const real *x) {
    struct pool pool = pool_of(norm, tokens);
    size_t C = norm->C;
    const real *gamma = norm->param[LN_GAMMA].value, *beta = norm->param[LN_BETA].value; // (C)
    real lambda = norm->saved[0], eta = *norm->param[ETA].value, eps = (real)norm->options.eps;
    pool_forward(&pool, tokens, rows, &norm->param[BN_GAMMA], &norm->param[BN_BETA], y, x);
    for (size_t n = rows.begin; n < rows.end; n++, x += C, y += C) {
        if (lambda == 0) {
#pragma omp simd
            for (size_t c = 0; c < C; c++) y[c] += eta * x[c];
            continue;
        }
        real mean = row_sum(C, x) / (real)C;
        real rstd = 1 / sqrt_real(row_squares_about(C, x, mean) / (real)C + eps);
#pragma omp simd
        for (size_t c = 0; c < C; c++)
            y[c] = lambda * ((x[c] - mean) * rstd * gamma[c] + beta[c]) +
                   (1 - lambda) * (y[c] + eta * x[c]);
    }
}

static void gradient_statistics(const struct norm *norm, const struct tokens *tokens,
                                const real *dy, const real *x) {
    struct pool pool = pool_of(norm, tokens);
    struct range channels = pool_channels(norm->C);
    real rest = 1 - norm->saved[0];
    pool_gradient_sums(&pool, tokens, dy, x);
    for (size_t c = channels.begin; c < channels.end; c++) {
        norm->param[BN_GAMMA].grad[c] += rest * pool.along_x[c];
        norm->param[BN_BETA].grad[c] += rest * pool.along_one[c];
    }
    pool_exact_backward(&pool, tokens, norm->param[BN_GAMMA].value);
}

static void backward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                     real *dx, const real *dy, const real *x, real *const *sum) {
    struct pool pool = pool_of(norm, tokens);
    size_t C = norm->C;
    const real *gamma = norm->param[LN_GAMMA].value;     // (C)
    real *dgamma = sum[LN_GAMMA], *dbeta = sum[LN_BETA]; // (C)
    real *g = norm->saved + PAD + rows.begin / ROWS * C; // (C) lambda gamma dy
    real lambda = norm->saved[0], eps = (real)norm->options.eps;
    real rest = 1 - lambda, along_x = rest * *norm->param[ETA].value;
    pool_backward(&pool, tokens, rows, norm->param[BN_GAMMA].value, dx, dy, x);
    for (size_t n = rows.begin; n < rows.end; n++, x += C, dy += C, dx += C) {
        real mean = row_sum(C, x) / (real)C;
        real rstd = 1 / sqrt_real(row_squares_about(C, x, mean) / (real)C + eps);
        *sum[ETA] += rest * row_dot(C, dy, x);
#pragma omp simd
        for (size_t c = 0; c < C; c++) {
            dgamma[c] += lambda * dy[c] * ((x[c] - mean) * rstd);
            dbeta[c] += lambda * dy[c];
            g[c] = lambda * gamma[c] * dy[c];
        }
        real all = row_sum(C, g) / (real)C, along = row_dot_about(C, g, x, mean) * rstd / (real)C;
#pragma omp simd
        for (size_t c = 0; c < C; c++)
            dx[c] += along_x * dy[c] + rstd * (g[c] - all - (x[c] - mean) * rstd * along);
    }
}

static double start_of_eta(const struct norm_options *options, size_t C) {
    (void)C;
    return options->prepbn_eta;
}

const struct norm_kind norm_prep = {
    .name = "prepbn",
    .formula = "y = lambda ln(x) + (1 - lambda) (bn(x) + eta x), lambda from 1 to 0 in training",
    .source = "Guo et al. 2024, SLAB (arXiv:2405.11582)",
    .options = "norm-eps bn-momentum prepbn-steps prepbn-eta pad-stats",
    .param = {{"norm1.weight", .start = 1},
              {"norm1.bias", .role = NORM_BETA},
              {"norm2.alpha", .scalar = true, .dimensions = 1, .role = NORM_OTHER,
               .start_of = start_of_eta},
              {"norm2.bn.weight", .start = 1},
              {"norm2.bn.bias", .role = NORM_BETA}},
    .state = {{"norm2.bn.running_mean", .start = 0},
              {"norm2.bn.running_var", .start = 1},
              {"norm2.bn.num_batches_tracked", .counts = true}},
    .saved = saved,
    .forward = forward,
    .backward = backward,
    .statistics = statistics,
    .gradient_statistics = gradient_statistics,
};
