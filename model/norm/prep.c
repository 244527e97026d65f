/* PRepBN: LayerNorm that turns into a re-parameterized BatchNorm during training.

     y = lambda LN(x) + (1 - lambda) (BN(x) + eta x),   lambda = max(0, 1 - k / steps)

   at the batch after k others. LN is LayerNorm and BN is BatchNorm, each with its own gamma and
   beta; eta is a learned number. In evaluation lambda is 0 and BN uses running statistics, so the
   norm can be merged into the next linear layer.

   Backward: with d1 = lambda dy and d2 = (1 - lambda) dy,
     dx = LN'(d1) + BN'(d2) + eta d2,  deta += sum d2 x
   LN' as in layer.c, BN' as in pool.c, pads included.

   Guo et al. 2024 (SLAB), PRepBN and RepBN (arXiv:2405.11582), and the authors' code (prepbn.py),
   whose tensor names are used here. There eta is RepBN's alpha, initially 1 for images and 0 for
   LLaMA. For LLaMA norm1 is RMSNorm, BN's gamma starts at 0 too, and `warm` batches of norm1 alone
   come first. Here gamma starts at 1 and lambda falls from the first batch on. Their `iter` is
   steps - num_batches_tracked. */
#include "model/math/reduce.h"
#include "model/math/vecmath.h"
#include "model/norm/pool.h"

enum { LN_GAMMA, LN_BETA, ETA, BN_GAMMA, BN_BETA };
enum { RUNNING_MEAN, RUNNING_VAR, BATCHES };
enum { LAMBDA = 64 / sizeof(real) }; // room for lambda, so that what follows is aligned

static const struct option prepbn_steps = {
    "prepbn-steps", NUMBER(OPTION_INT, "auto", 0, 1e15),
    .help = "number of batches in which prepbn changes from ln to bn (auto: all of them, "
            "--max-iters times --grad-accum)",
    .automatic = {"max-iters", "grad-accum"}, .limit = "all-batches"};

static const struct option prepbn_eta = {
    "prepbn-eta", NUMBER(OPTION_REAL, "0", -1000, 1000),
    .help = "initial value of eta in prepbn, the learned factor of x"};

/* Saved are lambda, and a row (C) for each block of tokens. */
static size_t saved_size(const struct norm *norm, size_t B, size_t T) {
    return LAMBDA + team_row_blocks(B * T) * norm->C;
}

/* 0 where a model is measured: the norm then is bn alone. */
static real lambda_of(const struct norm *norm, const struct tokens *tokens) {
    int64_t batches = *norm->batches, steps = norm_option(norm, &prepbn_steps).integer;
    const bool turning = tokens->training && !tokens->source && batches < steps;
    return turning ? (real)(1 - (double)batches / (double)steps) : 0;
}

static void statistics(const struct norm *norm, const struct tokens *tokens, const real *x) {
    const struct pool *pool = &norm->pool;
    struct range channels = pool_channels(norm->C);
    const real lambda = lambda_of(norm, tokens);
    pool_norm_statistics(norm, tokens, x);
    for (size_t c = channels.begin; c < channels.end; c++) pool->factor[c] *= 1 - lambda;
    if (channels.begin == 0 && channels.end > 0) norm->saved[0] = lambda;
}

static void prepbn_forward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                           real *y, const real *x) {
    size_t C = norm->C;
    const real *gamma = norm->param[LN_GAMMA].value, *beta = norm->param[LN_BETA].value; // (C)
    real lambda = norm->saved[0], eta = *norm->param[ETA].value,
         eps = (real)norm_option(norm, &norm_eps).real;
    pool_forward(norm, tokens, rows, y, x);
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
    pool_gradients(norm, tokens, dy, x, 1 - norm->saved[0], NULL, NULL);
}

static void prepbn_backward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                            real *dx, const real *dy, const real *x, real *const *sum) {
    size_t C = norm->C;
    const real *gamma = norm->param[LN_GAMMA].value;        // (C)
    real *dgamma = sum[LN_GAMMA], *dbeta = sum[LN_BETA];    // (C)
    real *g = norm->saved + LAMBDA + rows.begin / ROWS * C; // (C) lambda gamma dy
    real lambda = norm->saved[0], eps = (real)norm_option(norm, &norm_eps).real;
    real rest = 1 - lambda, of_dy = rest * *norm->param[ETA].value;
    pool_backward(norm, tokens, rows, dx, dy, x, sum);
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
        real g_mean = row_sum(C, g) / (real)C;
        real g_along = row_dot_about(C, g, x, mean) * rstd / (real)C;
#pragma omp simd
        for (size_t c = 0; c < C; c++)
            dx[c] += of_dy * dy[c] + rstd * (g[c] - g_mean - (x[c] - mean) * rstd * g_along);
    }
}

const struct norm_kind norm_prep = {
    .name = "prepbn",
    .words = "y = lambda LN(x) + (1 - lambda) (BN(x) + eta x), lambda falls from 1 to 0 in "
             "training, eta is learned",
    .source = "Guo et al. 2024, SLAB (arXiv:2405.11582)",
    .by_parts = true,
    .options = {&norm_eps, &norm_momentum, &prepbn_steps, &prepbn_eta},
    .param = {[LN_GAMMA] = {"norm1.weight", .start = 1},
              [LN_BETA] = {"norm1.bias", .role = NORM_BETA},
              [ETA] = {"norm2.alpha", .scalar = true, .dimensions = 1, .role = NORM_OTHER,
                       .start_option = &prepbn_eta},
              [BN_GAMMA] = {"norm2.bn.weight", .start = 1},
              [BN_BETA] = {"norm2.bn.bias", .role = NORM_BETA}},
    .state = {[RUNNING_MEAN] = {"norm2.bn.running_mean", .start = 0},
              [RUNNING_VAR] = {"norm2.bn.running_var", .start = 1},
              [BATCHES] = {"norm2.bn.num_batches_tracked", .counts = true}},
    .saved_size = saved_size,
    .forward = prepbn_forward,
    .backward = prepbn_backward,
    .statistics = statistics,
    .gradient_statistics = gradient_statistics,
};
