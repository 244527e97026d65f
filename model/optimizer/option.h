/* Options of optimizers. A kind defines its own options in its own file and lists them in its row
   (kind.h). Several kinds may list the same option. The command line (model/lab/config.c) gets a
   row of its table from each. */
#ifndef OPTIMIZER_OPTION_H
#define OPTIMIZER_OPTION_H

#include <stdint.h>

enum { OPTIMIZER_OPTIONS_MAX = 20 }; // of all kinds together

union optimizer_value {
    int64_t integer; // of a switch 0 or 1
    double real;
};

enum optimizer_option_type { OPTIMIZER_REAL, OPTIMIZER_INTEGER, OPTIMIZER_SWITCH };

struct optimizer_option {
    const char *name; // --name
    enum optimizer_option_type type;
    const char *start; // the default, as one would type it; "auto" is -1
    double min, max;   // range of a number
    const char *help;  // of --help
};

/* The settings of an optimizer. */
struct optimizer_options {
    int64_t kind;        // an index of optimizer_kinds
    double peak;         // learning rate after warm-up, to which a kind's own is relative
    double weight_decay; // of tensors that decay (tensor.h)
    double grad_clip;    // largest norm of the gradient; 0: no limit
    union optimizer_value value[OPTIMIZER_OPTIONS_MAX]; // in the order of optimizer_option_list()
};

#endif
