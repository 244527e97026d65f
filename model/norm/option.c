#include "model/norm/option.h"

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
