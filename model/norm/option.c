#include "model/norm/option.h"
#include "data/die.h"

void norm_check_groups(const char *name, int64_t groups, size_t C) {
    if (C % (size_t)groups)
        die(STATUS_USAGE,
            "%s: its %zu channels cannot be split into %lld equal groups (give another "
            "--norm-groups; the default is --n-head)",
            name, C, (long long)groups);
}

const struct kind_option norm_eps = {
    .name = "norm-eps",
    .start = "1e-5",
    .min = 1e-12,
    .max = 1,
    .help = "epsilon under the square root in norms; in scale and l2, the minimum of ||x||",
    .of_model = true,
    .rank = -1,
};

const struct kind_option norm_momentum = {
    .name = "bn-momentum",
    .start = "0.1",
    .min = 0,
    .max = 1,
    .help = "weight of the current batch in the running statistics",
};

const struct kind_option norm_groups = {
    .name = "norm-groups",
    .type = KIND_INTEGER,
    .start = "auto",
    .min = 1,
    .max = 1000000,
    .help = "number of groups of channels that gn and ts normalize separately; auto: --n-head. "
            "Norms inside a head (--qk-norm, --v-norm) have one group. With --qk-norm-over=width, "
            "queries have N groups; keys and values have proportionally fewer if --n-kv-head is "
            "below --n-head",
    .of_model = true,
    .auto_rule = KIND_AUTO_HEADS,
    .rank = -1,
};
