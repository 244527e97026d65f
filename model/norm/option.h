/* Options of norms. A kind of norm defines its own options in its own file and lists them in its
   row (kind.h). Several kinds may list the same option. The command line (model/lab/config.c) gets
   a row of its table from each. */
#ifndef NORM_OPTION_H
#define NORM_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NORM_OPTIONS_MAX = 40 }; // of all kinds together

/* Where norms that pool over tokens take their statistics from when a trained model is measured. */
enum statistics_source {
    STATISTICS_RUNNING,  // running statistics, as in evaluation
    STATISTICS_OWN,      // the batch that is measured, as in training
    STATISTICS_OTHER,    // another batch
    STATISTICS_SINGLE,   // the one sequence that is measured
    STATISTICS_POSITION, // the batch's tokens at the same position
    STATISTICS_SOURCES
};

union norm_value {
    int64_t integer; // of a switch 0 or 1, of a choice its index
    double real;
};

enum norm_option_type { NORM_REAL, NORM_INTEGER, NORM_SWITCH, NORM_CHOICE };

/* What an integer becomes that is left at "auto". */
enum norm_auto {
    NORM_AUTO_NONE,    // there is no "auto"
    NORM_AUTO_HEADS,   // the number of attention heads; see norm_options_of_heads()
    NORM_AUTO_BATCHES, // the number of batches in the run
};

/* A row: what --help, config files and the measuring of models need to know. Norms read the value
   from norm->option[] (kind.h). */
struct norm_option {
    const char *name; // --name
    enum norm_option_type type;
    const char *start;              // the default, as one would type it
    double min, max;                // range of a NORM_REAL or NORM_INTEGER
    const char *(*choice)(int64_t); // name of choice i, NULL after the last
    const char *help;               // of --help
    bool of_model;                  // a trained model keeps it: it changes what evaluation computes
    enum norm_auto auto_rule;
    int rank; // --help and config.ini list low ranks first, equal ones in the order of the kinds
    struct {
        bool replaced; // the model is measured with `value` instead of its own
        union norm_value value;
    } measured[STATISTICS_SOURCES];
};

/* What weight decay does to gamma. */
enum norm_decay { NORM_DECAY_OFF, NORM_DECAY_ZERO, NORM_DECAY_ONE };

/* The settings of all norms of a model. */
struct norm_options {
    int64_t affine;                           // gamma and beta are learned
    int64_t bias;                             // beta is learned
    int64_t decay_gamma;                      // enum norm_decay
    int64_t heads;                            // of attention
    int64_t attention;                        // norms of an attention sub-layer
    int64_t watch;                            // norms are watched (watch.h)
    union norm_value value[NORM_OPTIONS_MAX]; // in the order of norm_option_list() in kinds.h
};

/* Dies with status 2 unless the C channels of the norm at the site `name` can be split into this many
   equal groups. */
void norm_check_groups(const char *name, int64_t groups, size_t C);

/* Options of several kinds. */
extern const struct norm_option norm_eps;      // inside the square root
extern const struct norm_option norm_momentum; // weight of the batch in the running statistics
extern const struct norm_option norm_groups;   // groups of channels

#endif
