/* TimestepNorm: GroupNorm (group.c) over a token and all earlier ones of its sequence.

     mean_t, var_t of the n K numbers of a group of K channels in the n valid tokens s <= t
     y = (1 + w) (x - mean_t) / sqrt(var_t + eps) + beta

   past.h has the rest. With --ts-prior-count=n_0 each sequence starts as if n_0 tokens came before
   it, of a mean and a log-variance that are learned for each group. As in the authors' code the
   count is 0 unless it is given: then these two have no effect and no gradient. With one group and
   without a prior the norm is cln (cumulative.c), with w = gamma - 1.

   A group of one channel without a prior has the variance 0 at a sequence's first token, where y is
   beta. The authors' code refuses that; it writes 0 at pads, where here y is beta too.

   Ma et al. 2024, Megalodon (arXiv:2404.08801), and the authors' code. */
#include "model/norm/past.h"

static void check(const struct norm *norm) {
    norm_check_groups(norm->name, norm->option[PAST_GROUPS].integer, norm->C);
}

static size_t groups(const struct norm *norm) {
    return (size_t)norm->option[PAST_GROUPS].integer;
}

static const struct kind_option ts_prior_count = {
    .name = "ts-prior-count",
    .type = KIND_INTEGER,
    .start = "0",
    .min = 0,
    .max = 1000000,
    .help = "number of virtual tokens before each sequence in the statistics of ts; their mean and "
            "variance are learned",
    .of_model = true,
};

const struct norm_kind norm_timestep = {
    .name = "ts",
    .full_name = "timestepnorm",
    .formula = "y = (1 + w) (x - mean) / sqrt(var + eps) + beta, w learned, mean and var over a "
               "group of channels of a token and of the earlier tokens of its sequence",
    .source = "Ma et al. 2024, Megalodon (arXiv:2404.08801)",
    .options = {[PAST_EPS] = &norm_eps,
                [PAST_GROUPS] = &norm_groups,
                [PAST_PRIOR_COUNT] = &ts_prior_count},
    .causal = true,
    .param = {[PAST_GAMMA] = {"weight", .start = 0},
              [PAST_BETA] = {"bias", .role = NORM_BETA},
              [PAST_PRIOR_MEAN] = {"prior_mean", .role = NORM_OTHER, .size_of = groups},
              [PAST_PRIOR_LOGV] = {"prior_logv", .role = NORM_OTHER, .size_of = groups}},
    .check = check,
    .saved_size = past_saved_size,
    .forward = past_forward,
    .backward = past_backward,
    .statistics = past_statistics,
    .gradient_statistics = past_gradient_statistics,
};
