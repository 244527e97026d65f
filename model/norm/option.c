#include "model/norm/option.h"
#include "data/die.h"

void norm_check_groups(const char *name, int64_t groups, size_t C) {
    if (C % (size_t)groups)
        die(STATUS_USAGE,
            "%s: its %zu channels cannot be split into %lld equal groups (give --norm-groups=N; "
            "without it there is one for each of the --n-head heads)",
            name, C, (long long)groups);
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
    .help =
        "groups of channels; auto: --n-head. Keys and values over the width have as many fewer as "
        "they have heads, and in a head there is one",
    .of_model = true,
    .auto_rule = NORM_AUTO_HEADS,
    .rank = -1,
};
