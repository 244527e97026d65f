/* Command-line options from a table: each option is declared once, in a row, and the row serves
   parsing, ranges, --help, the run's config file and summaries. The table of ./train is in
   model/config.c. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum option_kind {
    OPTION_END,
    OPTION_HEADING, // `help` is a title in --help
    OPTION_FLAG,    // int64_t, 1 if given
    OPTION_STOP,    // a flag after which nothing more is read (--help)
    OPTION_SWITCH,  // int64_t, --name=on|off
    OPTION_INT,     // int64_t
    OPTION_REAL,    // double
    OPTION_CHOICE,  // int64_t, index of a name
    OPTION_TEXT,    // const char *, NULL if not given
    OPTION_OPERAND, // the same, given without a name too
    OPTION_FILE,    // the same, names a file of options that stand before all others
    OPTION_ALIAS,   // short for `start`, "name=value"
};

/* The value of an INT or REAL option that the program chooses itself unless given. */
enum { OPTION_AUTO = -1 };

struct option {
    const char *name;
    enum option_kind kind;
    size_t offset;                  // of the value in the settings
    const char *start;              // its default, as it would be typed; "auto" is OPTION_AUTO
    double least, most;             // range of an INT or REAL
    const char *(*choice)(int64_t); // names of a CHOICE by index; NULL behind the last
    const char *metavar;            // what --help calls the value, if not N, X, NAME or TEXT
    const char *help;
    int of_call; // belongs to the call, not to the run: not in config files
};

/* Sets every option to its default, then to what a file named by an OPTION_FILE says, then to what
   argv says. Wrong usage dies with status 2 and says which option, its range or a likely name. */
void options_parse(const struct option *table, void *settings, int argc, char **argv);

/* Writes "name = value" for every option of the run, as options_parse() reads it from a file. */
void options_write(const struct option *table, const void *settings, FILE *file);

/* The same as members of a JSON object, without its braces. */
void options_write_json(const struct option *table, const void *settings, FILE *file);

/* The value as text in `text` (size bytes); NULL for a TEXT that is not given or a row without
 * value. */
const char *option_value(const struct option *option, const void *settings, char *text,
                         size_t size);

/* Every option with its default and range. */
void options_help(const struct option *table, FILE *file);

#endif
