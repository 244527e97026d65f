/* BatchNorm over the batch alone (--bn-axis=batch): each channel is normalized at each position.

     y = gamma (x - mean_b x) / sqrt(var_b x + eps) + beta     b over the valid tokens at a position

   No token sees another of its own sequence, so that, other than bn, it is causal in training too.
   Running statistics are (T,C); in evaluation a token meets those of its position. gamma and beta
   are (C). norm_sets.h has the rest, a position being a set.

   Ioffe and Szegedy 2015, algorithms 1 and 2 (arXiv:1502.03167), each position's channel taken for
   a feature of its own: PyTorch's BatchNorm1d of (B, T C) with gamma and beta repeated. */
#include "data/die.h"
#include "model/norm/sets.h"

static size_t saved(const struct norm *norm, size_t B, size_t T) {
    (void)B;
    return sets_size(T, norm->C);
}

static void statistics(const struct norm *norm, const struct tokens *tokens, const real *x) {
    struct sets sets = sets_of_batch(norm, tokens);
    sets_statistics(&sets, norm, x);
}

static void gradient_statistics(const struct norm *norm, const struct tokens *tokens,
                                const real *dy, const real *x) {
    struct sets sets = sets_of_batch(norm, tokens);
    sets_gradient_statistics(&sets, dy, x);
}

static void forward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                    real *y, const real *x) {
    struct sets sets = sets_of_batch(norm, tokens);
    sets_forward(&sets, norm, rows, y, x);
}

static void backward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                     real *dx, const real *dy, const real *x, real *const *sum) {
    struct sets sets = sets_of_batch(norm, tokens);
    sets_backward(&sets, norm, rows, dx, dy, x, sum);
}

static void check(const struct norm_options *options, size_t C) {
    (void)C;
    if (options->rbn_mean > 0 || options->rbn_var > 0)
        die(STATUS_USAGE, "--rbn-mean, --rbn-var: not with --bn-axis=batch");
}

const struct norm_kind norm_position = {
    .name = "bn",
    .formula =
        "y = gamma (x - mean_b x) / sqrt(var_b x + eps) + beta, b over the batch's sequences",
    .source = "Ioffe and Szegedy 2015",
    .param = {{"weight", .start = 1}, {"bias", .role = NORM_BETA}},
    .state = {{"running_mean", .positions = true, .start = 0},
              {"running_var", .positions = true, .start = 1},
              {"num_batches_tracked", .counts = true}},
    .saved = saved,
    .check = check,
    .forward = forward,
    .backward = backward,
    .statistics = statistics,
    .gradient_statistics = gradient_statistics,
};
