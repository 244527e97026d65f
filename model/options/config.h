/* The configuration: the values of all options, as they were given and as they are used.

   config.c and config_model.c have the table of options. config_input.c reads and checks them, and
   config_plan.c says what follows from them. config_conditions.c finds options that have no effect, and
   config_output.c shows both. */
#pragma once

#include "model/instruments/measure.h"
#include "model/instruments/sample.h"
#include "model/model.h"
#include "model/optimizer/optimizer.h"
#include "model/optimizer/schedule.h"
#include "model/options/options.h"

#define VERSION "0.2-dev" // CHANGELOG.md says what is in it

enum { MAX_ITERS = 1000000000 }; // the largest --max-iters
enum { MAX_THREADS = 1024 };     // the largest --threads

enum { SHOW_OFF, SHOW_TABLE, SHOW_JSON, SHOW_LAYER };
enum { PLOT_AUTO, PLOT_ON, PLOT_OFF };
enum { PLOT_LOG, PLOT_LINEAR };

enum { PAD_TO_LONGEST, PAD_TO_BLOCK };

/* What was given, on the command line and in files: "auto" stays "auto". */
struct config {
    // data
    const char *corpus; // a file, "-", or NULL: the built-in grammar
    int64_t level, grammar_chars, grammar_seed, random_chars, items, pad_to, bucket;
    double val_fraction, hold_out;
    // model
    int64_t recipe, preset; // what they set is in the other options
    struct model_config model;
    // training
    const char *start; // a file or folder with the initial weights, or NULL: random ones
    int64_t max_iters, max_tokens, batch_size, grad_accum, seed, threads;
    double max_seconds, stop_at; // 0: no limit
    struct schedule schedule;
    struct optimizer_options optimizer;
    // watching
    const char *out; // NULL: runs/NORM-PLACEMENT[-CONNECTION]-sSEED
    int64_t force, log_interval, eval_interval, eval_iters, eval_train, probe_interval,
        sample_interval, quiet, profile, plot, plot_scale;
    const char *plot_beside; // folders of runs, separated by commas, or NULL
    // keeping and using
    const char *file; // of --config
    int64_t checkpoint_interval, keep_best;
    const char *resume, *generate, *evaluate; // at most one of them
    bool named;                               // for these, the command line names a corpus
    const char *prompt, *stop, *vocabulary, *dump;
    int64_t stats,
        leak; // of --evaluate; stats: an enum statistics_source, or STATISTICS_SOURCES for all
    int64_t sample, num_chars, num_items, num_samples;
    struct sample_options sampling;
    const char *help;  // a topic, "": the first page
    int64_t show;      // --show-options
    int64_t show_norm; // INNER_NORM_OFF, INNER_NORM_ON: that of --norm, then norm_kinds
    int64_t show_as;   // 0: step by step, 1: as a module of PyTorch
    int64_t version;
};

/* What follows from a configuration. Files keep what was given, and everything else uses the plan. */
struct plan {
    struct config given;
    struct config config; // the same with the value that stands for "auto", unless it is decided
                          // later: with --max-tokens the number of updates needs the corpus
    size_t team;          // threads that share a pass; 0: chosen by the amount of work
};

struct plan plan_of(const struct config *given);

/* Converts --max-tokens into --max-iters: the smallest number of updates that trains on at least that
   many targets. Dies with status 2 if --max-iters is given and differs. */
void config_settle_count(struct plan *plan, const struct corpus *corpus);

/* This name stands for random characters, not for a file: see corpus_make_random(). */
#define RANDOM_CORPUS "random"

/* The options of the program, complete before main(). Read only. */
extern struct option config_options[];

/* The names of an option that takes a norm or none: INNER_NORM_OFF, INNER_NORM_ON, then norm_kinds. */
struct option_choice config_inner_norm(int64_t i);

/* Sets every option to its default. */
void config_start(struct config *config);

/* Reads the command line, and dies with status 2 if values contradict each other. If config_stored()
   is not NULL, it only reads, and config_continue() does the rest. */
void config_parse(struct config *config, int argc, char **argv);

/* The folder or file that --resume, --generate or --evaluate names, or NULL. */
const char *config_stored(const struct config *config);

/* Where stored options come from. */
struct config_source {
    const char *path, *hint; // the file, and what to do if an option contradicts it, for messages
    int64_t steps;           // updates that its run has done
};

/* The configuration of a run that continues (OPTION_OF_RUN) or of a model that is used
   (OPTION_OF_MODEL): the stored options, then those of the command line. Dies with status 2 if the
   command line changes an option that this run or model cannot change. */
void config_continue(struct config *config, const struct config *stored, enum option_scope scope,
                     const struct config_source *where, int argc, char **argv);

/* Compares `config` with what is stored, as options_agree() does with what follows from both. Where
   "auto" would now become something else, and argv does not give it, `config` gets what it was. A run
   whose learning rate is still constant may get another end: the rates of the updates it has done
   stay the same. */
void config_agree(const struct config *stored, struct config *config, enum option_scope scope,
                  const struct config_source *where, int argc, char **argv);

/* Adds the conditions of the heading, and of the kinds that use the option, to those of a row. */
void config_add_needs(struct option *option, const struct option *heading);

/* Whether kind number `value` of an option that chooses kinds (--norm, --connection, --optimizer) uses
   the option. */
bool config_uses(const struct option *choosing, int64_t value, const struct option *option);

/* Whether the option's value is larger than the run has use for; then `text` says what it does, as
   "does not end in the run's 50 updates". */
bool config_exceeds(const struct config *config, const struct option *option, char *text,
                    size_t size);

/* Whether the program only shows what was asked for. */
bool config_shows(const struct config *config);

/* --show-options: prints every option with its value, whether it has an effect, and whether "auto"
   gives the value. With --items and --max-tokens the number of updates stays "auto", since the corpus
   is not read. --show-norm: prints a norm (formula.h). */
void config_show(struct plan *plan);

/* --show-layer: prints the operations of the layers. */
void config_show_layer(const struct config *config);

/* config_write_auto() writes the stored options at "auto", as a JSON object with the values that it stands
   for. config_write_outcome() writes what became of the stored options, as two members of such an object:
   "inactive", a list of those without an effect, and "auto". */
void config_write_auto(const struct plan *plan, FILE *file);
void config_write_outcome(const struct plan *plan, FILE *file);

/* The options that argv gives and that have no effect in this configuration, as "--norm-groups
   (only with --norm=gn), ..." in `text`; false if there are none. */
bool config_unused(const struct config *config, int argc, char **argv, char *text, size_t size);
