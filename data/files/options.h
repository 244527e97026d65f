/* Command-line options from a table: each option is declared once, in a row, and the row serves
   parsing, ranges, --help (options_help.h), the run's config file and summaries. The table of
   ./train is in model/lab/config.c. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum option_kind {
    OPTION_END,
    OPTION_HEADING, // the rows that follow are the topic `name` of --help, `help` is its title
    OPTION_FLAG,    // int64_t, 1 if given
    OPTION_STOP,    // a flag after which nothing more is read (--version)
    OPTION_HELP,    // the same with a topic, --help=TOPIC: const char *, "" if there is no topic
    OPTION_SWITCH,  // int64_t, --name=on|off; --name alone is on
    OPTION_INT,     // int64_t
    OPTION_REAL,    // double
    OPTION_CHOICE,  // int64_t, index of a name
    OPTION_TEXT,    // const char *, NULL if not given
    OPTION_OPERAND, // the same, given without a name too
    OPTION_FILE,    // the same, names a file of options that stand before all others
    OPTION_ALIAS,   // `start` is "name=value", for which it is short, or another option's name
};

/* The value of an INT or REAL option that the program chooses itself unless given. */
enum { OPTION_AUTO = -1 };

/* What an option says something about. A run that goes on, or a model that is used, keeps what it
   is bound to: see options_agree(). */
enum option_scope {
    OPTION_OF_RUN,   // what a run learns
    OPTION_OF_MODEL, // what the model is
    OPTION_FREE,     // how long, how often, what is shown: may change when a run goes on
    OPTION_OF_CALL,  // one call of the program: not in config files
};

struct option {
    const char *name;
    enum option_kind kind;
    size_t offset;                  // of the value in the settings
    const char *start;              // its default, as it would be typed; "auto" is OPTION_AUTO
    double least, most;             // range of an INT or REAL
    const char *const *names;       // of a CHOICE by value, ended by NULL; or
    const char *(*choice)(int64_t); // the name of value i, NULL after the last
    const char *metavar;            // what --help calls the value, if not N, X or the choices
    const char *help;               // up to the first ';' it makes a line on the first page
    enum option_scope scope;
    const char *(*synonym)(int64_t); // another name of choice i, or NULL; never written
    const char *needs;               // options_hold() says whether it has something to do
    bool basic;                      // on the first page of --help
    char letter;                     // -h
};

enum { OPTION_FORM = 256, OPTION_NOTE = 1024 }; // room for what is said of an option

/* Each sets options, over what was set before: every one to its default; to what a file says, lines
   of "name = value"; to what argv says, a file that it names by an OPTION_FILE first. Of an option
   that is given twice the last value counts, but an alias for a value may not contradict another
   value. Wrong usage dies with status 2 and says which option, its range or a likely name. A file
   that has a checksum and was changed gives a notice: a person may edit it. */
void options_start(const struct option *table, void *settings);
void options_read(const struct option *table, void *settings, const char *path);
void options_arguments(const struct option *table, void *settings, int argc, char **argv);

/* options_read() without its notice: false if the file was changed after the program wrote it. */
bool options_load(const struct option *table, void *settings, const char *path);

/* The row of this name, NULL if there is none; headings have none. */
const struct option *options_find(const struct option *table, const char *name);

/* Whether --help knows this topic: a heading's name, an option's, or "all". */
bool options_topic(const struct option *table, const char *name);

/* Whether argv, which has been read, names the option, itself or by an alias. */
bool options_given(const struct option *table, const struct option *option, int argc, char **argv);

/* Whether the settings meet a condition: "NAME=VALUE|VALUE" one of these values, "NAME" any value,
   "!..." not so. */
bool options_hold(const struct option *table, const void *settings, const char *condition);

/* One option as a file would set it; false if there is none of this name. `where` stands before the
   name in messages. */
bool options_set(const struct option *table, void *settings, const char *where, const char *name,
                 const char *value);

/* Dies with status 2, naming both values, if an option that a model, or with OPTION_OF_RUN a run,
   is bound to is not what it was in `stored`, which `where` names. */
void options_agree(const struct option *table, const void *stored, const void *settings,
                   enum option_scope scope, const char *where);

/* Writes "name = value" for every option of the run, as options_read() reads it, and as the last
   line a comment with the CRC-32 of the lines above. */
#define OPTIONS_SEAL "# crc32 of the lines above: "
void options_write(const struct option *table, const void *settings, FILE *file);

/* The same as members of a JSON object, without its braces. */
void options_write_json(const struct option *table, const void *settings, FILE *file);

/* The value as text in `text` (size bytes); NULL for a TEXT that is not given or a row without
 * value. */
const char *option_value(const struct option *option, const void *settings, char *text,
                         size_t size);

/* Where the value lies, and what can be said of a row. */
int64_t *option_int(const struct option *option, void *settings);
double *option_real(const struct option *option, void *settings);
const char **option_text(const struct option *option, void *settings);
bool option_is_text(const struct option *option);
bool option_takes_value(const struct option *option);
const char *option_choices(const struct option *option); // "on|off", in a buffer of the function
int64_t option_choice(const struct option *option, const char *name); // its index; -1: no such name
const char *option_choice_name(const struct option *option, int64_t i); // NULL after the last

#endif
