/* Options of kinds: of norms and of optimizers. A kind defines its own options in its own file and
   lists them in its row. Several kinds may list the same option. The command line
   (model/lab/config.c) gets a row of its table from each. */
#ifndef KIND_OPTION_H
#define KIND_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KIND_OPTIONS = 8 };      // maximum number of options of a kind
enum { KIND_CHOICES = 3 };      // of the values of an option
enum { KIND_OPTIONS_MAX = 40 }; // of all kinds of norms, or of optimizers

union kind_value {
    int64_t integer; // of a switch 0 or 1, of a choice its index
    double real;
};

enum kind_option_type { KIND_REAL, KIND_INTEGER, KIND_SWITCH, KIND_CHOICE };

/* What an integer becomes that is left at "auto". */
enum kind_auto {
    KIND_AUTO_NONE,    // it has no such rule
    KIND_AUTO_HEADS,   // the number of attention heads; see norm_options_of_heads()
    KIND_AUTO_BATCHES, // the number of batches in the run
};

/* A row: what --help and config files need to know. A kind reads the value from its `option` array,
   in the order of the kind's list. */
struct kind_option {
    const char *name; // --name
    enum kind_option_type type;
    const char *start;                   // the default, as one would type it; "auto" is -1
    double min, max;                     // range of a number, from 0 unless min is given
    const char *names[KIND_CHOICES + 1]; // of a choice, by value; NULL ends the list
    const char *help;                    // of --help
    const char *limit; // of an integer: what a larger value exceeds (data/files/options.h), or NULL
    bool of_model;     // a trained model keeps it: it changes what evaluation computes
    enum kind_auto auto_rule;
    int rank; // --help and config.ini list low ranks first, equal ones in the order of the kinds
};

/* Adds a kind's options to the list of those of all kinds, which has room for KIND_OPTIONS_MAX:
   each once, by rank. Lists end with NULL. */
void kind_options_add(const struct kind_option **list, const struct kind_option *const *options);

/* The place of an option, which is known by the address of its row, in a list; dies with status 2 if
   the list lacks it. */
size_t kind_options_place(const struct kind_option *const *list, const struct kind_option *option);

#endif
