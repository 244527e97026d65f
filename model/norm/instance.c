/* InstanceNorm: each channel of a sequence is normalized over the sequence's own time steps.

     y = gamma (x - mean_t x) / sqrt(var_t x + eps) + beta       t over the sequence's valid tokens

   So in training a token sees what follows it: not causal. In evaluation mean and var are running
   statistics, the same for every sequence, and every token is on its own. norm_sets.h has the rest,
   a sequence being a set.

   Running statistics are those of PyTorch's InstanceNorm1d with track_running_stats. It has
   num_batches_tracked too, but leaves it at 0; here it counts.

   Ulyanov, Vedaldi and Lempitsky 2016 (arXiv:1607.08022), who keep each instance's own statistics
   in evaluation too: a text that grows would change what it was. */
#include "model/norm/sets.h"

static size_t saved(const struct norm *norm, size_t B, size_t T) {
    (void)T;
    return sets_size(B, norm->C);
}

static void statistics(const struct norm *norm, const struct tokens *tokens, const real *x) {
    struct sets sets = sets_of_time(norm, tokens);
    sets_statistics(&sets, norm, x);
}

static void gradient_statistics(const struct norm *norm, const struct tokens *tokens,
                                const real *dy, const real *x) {
    struct sets sets = sets_of_time(norm, tokens);
    sets_gradient_statistics(&sets, dy, x);
}

static void forward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                    real *y, const real *x) {
    struct sets sets = sets_of_time(norm, tokens);
    sets_forward(&sets, norm, rows, y, x);
}

static void backward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                     real *dx, const real *dy, const real *x, real *const *sum) {
    struct sets sets = sets_of_time(norm, tokens);
    sets_backward(&sets, norm, rows, dx, dy, x, sum);
}

const struct norm_kind norm_instance = {
    .name = "in",
    .full_name = "instancenorm",
    .formula =
        "y = gamma (x - mean_t x) / sqrt(var_t x + eps) + beta, t over a sequence's time: not "
        "causal in training, running statistics in evaluation",
    .source = "Ulyanov, Vedaldi and Lempitsky 2016 (arXiv:1607.08022)",
    .options = "norm-eps bn-momentum pad-stats",
    .param = {{"weight", .start = 1}, {"bias", .role = NORM_BETA}},
    .state = {{"running_mean", .start = 0},
              {"running_var", .start = 1},
              {"num_batches_tracked", .counts = true}},
    .saved = saved,
    .forward = forward,
    .backward = backward,
    .statistics = statistics,
    .gradient_statistics = gradient_statistics,
};
