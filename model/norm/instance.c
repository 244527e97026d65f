/* InstanceNorm: each channel of a sequence is normalized over the sequence's own time steps.

     y = gamma (x - mean_t x) / sqrt(var_t x + eps) + beta       t over the sequence's valid tokens

   So in training a token sees later tokens: the norm is not causal. In evaluation mean and var are
   running statistics, the same for every sequence, and no token sees another. sets.h has the rest;
   a sequence is a set.

   Running statistics are those of PyTorch's InstanceNorm1d with track_running_stats. PyTorch has
   num_batches_tracked too, but leaves it at 0; here it counts.

   Ulyanov, Vedaldi and Lempitsky 2016 (arXiv:1607.08022). They use each instance's own statistics
   in evaluation too; in a text that grows, every new token would then change the earlier ones. */
#include "model/norm/sets.h"

const struct norm_kind norm_instance = {
    .name = "in",
    .full_name = "instancenorm",
    .formula = "y = gamma (x - mean_t x) / sqrt(var_t x + eps) + beta, t over a sequence's tokens; "
               "not causal in training, running statistics in evaluation",
    .source = "Ulyanov, Vedaldi and Lempitsky 2016 (arXiv:1607.08022)",
    .options = {[SETS_EPS] = &norm_eps, [SETS_MOMENTUM] = &norm_momentum},
    .param = {[SETS_GAMMA] = {"weight", .start = 1}, [SETS_BETA] = {"bias", .role = NORM_BETA}},
    .state = {[SETS_RUNNING_MEAN] = {"running_mean", .start = 0},
              [SETS_RUNNING_VAR] = {"running_var", .start = 1},
              [SETS_BATCHES] = {"num_batches_tracked", .counts = true}},
    .saved_size = sets_saved_size,
    .forward = sets_forward,
    .backward = sets_backward,
    .statistics = sets_statistics,
    .gradient_statistics = sets_gradient_statistics,
};
