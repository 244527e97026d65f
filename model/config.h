/* Everything that the command line can say. The table of options is in config.c. */
#ifndef CONFIG_H
#define CONFIG_H

#include "../data/options.h"
#include "adam.h"
#include "model.h"
#include "sample.h"
#include "schedule.h"

#define VERSION "0.1"

struct config {
    // data
    const char *corpus; // a file, "-", or NULL: the built-in grammar
    int64_t level, grammar_chars, grammar_seed;
    double val_fraction;
    // model
    struct model_config model;
    // training
    int64_t max_iters, batch_size, grad_accum, seed, threads;
    int64_t team; // threads of a pass, 0: as many as its work is worth
    struct schedule schedule;
    struct adam_options adam;
    // watching
    const char *out; // NULL: chosen by name
    int64_t force, log_interval, eval_interval, eval_iters, quiet, profile;
    // keeping and using
    const char *file;
    int64_t sample;
    struct sample_options sampling;
    int64_t help, version;
};

extern const struct option config_options[];

/* Fills the config from the command line, chooses what is left to "auto", and dies with status 2 if
   values contradict each other. */
void config_parse(struct config *config, int argc, char **argv);

#endif
