#include "model/norm/option.h"
#include "data/die.h"

void norm_check_groups(int64_t groups, size_t C) {
    if (C % (size_t)groups)
        die(STATUS_USAGE,
            "--norm-groups=%lld: cannot split %zu channels evenly (the channels must be a "
            "multiple)",
            (long long)groups, C);
}

const struct norm_option norm_eps = {
    .name = "norm-eps",
    .type = NORM_REAL,
    .start = "1e-5",
    .min = 1e-12,
    .max = 1,
    .help = "epsilon inside the norms' square root; in scale, the minimum length",
    .of_model = true,
    .rank = -1,
};

const struct norm_option norm_momentum = {
    .name = "bn-momentum",
    .type = NORM_REAL,
    .start = "0.1",
    .min = 0,
    .max = 1,
    .help = "weight of the batch in the running statistics",
    .measured = {[STATISTICS_OTHER] = {true, {.real = 1}}}, // earlier batches are forgotten
};

const struct norm_option norm_groups = {
    .name = "norm-groups",
    .type = NORM_INTEGER,
    .start = "auto",
    .min = 1,
    .max = 1000000,
    .help = "groups of channels; auto: --n-head",
    .of_model = true,
    .auto_rule = NORM_AUTO_HEADS,
    .rank = -1,
};
