/* Everything that the command line can say. The table of options is in config.c, what follows from
   it in config_parse.c. */
#ifndef CONFIG_H
#define CONFIG_H

#include "data/files/options.h"
#include "model/lab/adam.h"
#include "model/lab/measure.h"
#include "model/lab/sample.h"
#include "model/lab/schedule.h"
#include "model/model.h"

#define VERSION "0.1"

enum { MAX_ITERS = 1000000000 };

enum { PAD_TO_LONGEST, PAD_TO_BLOCK };

struct config {
    // data
    const char *corpus; // a file, "-", or NULL: the built-in grammar
    int64_t level, grammar_chars, grammar_seed, random_chars, items, pad_to, bucket;
    double val_fraction;
    // model
    struct model_config model;
    // training
    int64_t max_iters, max_tokens, batch_size, grad_accum, seed, threads;
    int64_t team; // threads of a pass, 0: as many as its work is worth
    struct schedule schedule;
    struct adam_options adam;
    // watching
    const char *out; // NULL: chosen by name
    int64_t force, log_interval, eval_interval, eval_iters, eval_train, probe_interval, quiet,
        profile;
    // keeping and using
    const char *file;
    int64_t checkpoint_interval, keep_best;
    const char *resume, *generate, *evaluate; // at most one of them
    const char *prompt, *vocabulary;
    int64_t stats, leak; // of --evaluate: a row of statistics_name, or all of them
    int64_t sample, num_chars, num_items;
    struct sample_options sampling;
    const char *help; // a topic, "": the first page
    int64_t version, list_norms, list_placements;
};

/* A corpus of this name is none: see corpus_random(). */
#define RANDOM_CORPUS "random"

extern const struct option config_options[];

/* Every option at its default, "auto" not yet chosen. */
void config_start(struct config *config);

/* Fills the config from the command line, and dies with status 2 if values contradict each other.
   Where it asks for something stored, config_continue() has the last word. */
void config_parse(struct config *config, int argc, char **argv);

/* Sets the number of updates, and with it what is left to auto: the end of the learning rate's
   decay and --prepbn-steps. config_parse() and config_continue() do so themselves unless
   --max-tokens is given: then the caller counts the updates, for which it needs the corpus. */
void config_set_updates(struct config *config, int64_t updates);

/* The folder or file that --resume, --generate or --evaluate names, or NULL. */
const char *config_stored(const struct config *config);

/* The config of a run that goes on (OPTION_OF_RUN) or of a model that is used (OPTION_OF_MODEL):
   what is stored, then the command line, which dies where it contradicts what such a run or model
   is bound to. `where` names what is stored. */
void config_continue(struct config *config, const struct config *stored, enum option_scope scope,
                     const char *where, int argc, char **argv);

/* When the option has something to do, as "with --norm=gn|bn" or "without --corpus"; "" for always.
   The norms and placements that use it say so in their rows, other conditions are in its own. */
void config_needs(const struct option *option, char *text, size_t size);

/* The options that argv gives and this configuration does not use, as "--norm-groups (only with
   --norm=gn), ..." in `text`; false if there are none. */
bool config_unused(const struct config *config, int argc, char **argv, char *text, size_t size);

#endif
