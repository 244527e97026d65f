/* How a row of the table of options is written. Its rows are in config_model.c (data, the model,
   its norms) and config.c (the rest). */
#pragma once

#include "model/options/options.h"

enum { CONFIG_ROWS_MAX = 200 }; // beside those of norms and optimizers

extern const struct option config_model_rows[]; // ended by OPTION_END

// clang-format off
#define CONDITION(name, ...) extern const struct condition needs_##name;
#include "model/options/conditions.h"
#undef CONDITION
// clang-format on

#define AT(member)       .offset = offsetof(struct config, member)
#define RANGE(low, high) .min = low, .max = high
#define COUNT_MAX        MAX_ITERS // of iterations, characters and other counts

/* The names of a CHOICE, an entry for each value of its enum in the enum's order. */
#define NAMES(...)                                                                                 \
    .names = (const char *const[]) {                                                               \
        __VA_ARGS__, NULL                                                                          \
    }
