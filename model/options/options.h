/* Command-line options from a table: each option is declared once, in a row, and the row serves
   parsing, ranges, --help (model/options/help.h), the run's config file and summaries. The table of
   ./train is in model/options/config.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum option_kind {
    OPTION_END,
    OPTION_HEADING, // the rows after it are the topic `name` of --help, with the title `help`
    OPTION_FLAG,    // int64_t, 1 if given
    OPTION_SWITCH,  // int64_t, --name=on|off; --name alone is on
    OPTION_INT,     // int64_t
    OPTION_REAL,    // double
    OPTION_CHOICE,  // int64_t, index of a name
    OPTION_TEXT,    // const char *, NULL if not given
    OPTION_ALIAS,   // short for `start`, which is "name=value" or another option's name
};

/* What else an option means on the command line. */
enum option_role {
    OPTION_PLAIN,
    OPTION_OPERAND, // a text, whose name may be left out
    OPTION_FILE,    // a file of options, which all other arguments override
    OPTION_STOP,    // a flag after which nothing more is read (--version)
    OPTION_HELP,    // the same with a topic, -h or --help=TOPIC: a text, "" if there is no topic
    OPTION_BARE,    // a choice whose name alone stands for its second value (--show-options)
};

/* The value of an INT or REAL option that the program chooses itself unless it is given. */
enum { OPTION_AUTO = -1 };

/* What an option determines. A resumed run or a stored model keeps the options that are part of it:
   see options_agree(). */
enum option_scope {
    OPTION_OF_TOPIC, // as the heading's, which gives it to its rows without one
    OPTION_OF_RUN,   // fixed for a run: may not change when it is resumed
    OPTION_OF_MODEL, // what the model is
    OPTION_FREE,     // how long, how often, what is shown: may change when a run is resumed
    OPTION_OF_CALL,  // one call of the program: not in config files
};

/* A value of a CHOICE. */
struct option_choice {
    const char *name;
    const char *full_name;        // another name, which is read but never written, or NULL
    const char *formula, *source; // of a kind, which --help and --list-... show; or NULL
    const char *sets;             // other options that it sets, "name=value ...", or NULL
};

struct option;

/* A value in the settings. */
union option_data {
    int64_t integer; // of a FLAG, SWITCH, INT or CHOICE
    double real;
    const char *text;
};

/* What an option needs to have an effect. */
struct condition {
    const char *text; // "only with --items", "not with --items"
    bool (*holds)(const void *settings, const struct option *option);
    bool usual; // it holds so often that --help does not mention it
};

enum { OPTION_NEEDS = 6 }; // maximum number of conditions of an option

struct option {
    const char *name;
    enum option_kind kind;
    size_t offset;            // of the value in the settings
    const char *start;        // the default, as it would be typed; "auto" is OPTION_AUTO
    const char *automatic[2]; // "auto" is the product of these options, if there are any
    double min, max;          // range of an INT or REAL
    const char *const *names; // of a CHOICE: its first values, ended by NULL; or NULL: none
    struct option_choice (*choice)(
        int64_t); // its other values: the i-th, no name after the last; or NULL
    const char *(*add)(const char *option, const char *value); // adds the value to the choices, if
                                                               // it can, and returns its name; or
                                                               // NULL
    const char *metavar; // the value's name in --help, if not N, X or the choices
    const char *help;    // the first page shows it up to the first ';'
    enum option_scope scope;
    // what must hold for it to have an effect, ended by NULL; a heading's is part of all its rows
    const struct condition *needs[OPTION_NEEDS + 1];
    const char
        *limit;    // of an INT: the number of the run that a larger value exceeds without further
                   // effect (config_exceeds()), or NULL
    bool watching; // it observes, stores or shows a run, and changes nothing that is learned; a
                   // heading's holds for all of its rows
    bool basic;    // on the first page of --help
    enum option_role role;
};

/* Norms, connections and optimizers come in kinds, each of which lists rows in its own file, without
   an offset: {"pn-warmup", NUMBER(OPTION_INT, "200", 0, 1e9), .help = ...}, 200 being the default. A
   row is known by its address, and several kinds may list the same. */
#define NUMBER(kind, value, low, high) kind, .start = value, .min = low, .max = high
enum { KIND_OPTIONS = 8 };      // maximum number of options of a kind
enum { KIND_OPTIONS_MAX = 40 }; // of all kinds of norms, of connections, or of optimizers

/* Adds a kind's options to the list of those of all kinds, each once. Lists end with NULL. */
void options_add(const struct option **list, const struct option *const *options);

/* The place of an option in a list, or of its end. */
size_t options_place(const struct option *const *list, const struct option *option);

enum { OPTION_FORM = 256, OPTION_NOTE = 1024 }; // bytes of "--name=VALUE", and of its description

/* Three sources of values, each of which overrides earlier values. options_start() sets every
   option that has a default to it, in settings of zeros. options_read() reads a file with lines of
   "name = value"; if it has a checksum and was changed, it is used and a notice says so, since
   people may edit it; then the result is false.
   options_arguments() reads argv, after the file that argv names by an OPTION_FILE, and after what
   choices with `sets` set: words of the form "name=value". Those of later rows of the table
   override those of earlier rows. If argv gives an option twice, the last value counts; but an
   alias for a value may not contradict another value. Wrong usage dies with status 2 and a message
   with the option and its range, or a likely name. */
void options_start(const struct option *table, void *settings);
bool options_read(const struct option *table, void *settings, const char *path);
void options_arguments(const struct option *table, void *settings, int argc, char **argv);

/* The row of this name, or NULL. The names of headings do not count. */
const struct option *options_find(const struct option *table, const char *name);

/* Whether argv, which options_arguments() has accepted, gives the option, by its name or an
   alias. */
bool options_given(const struct option *table, const struct option *option, int argc, char **argv);

/* Sets one option, as a file would; false if a file cannot set an option of this name. Messages put
   `where` before the name. */
bool options_set(const struct option *table, void *settings, const char *where, const char *name,
                 const char *value);

/* Dies with status 2 and both values if an option of the model, or with `scope` OPTION_OF_RUN also
   of the run, is different in `stored`. Messages call that `where`, and end with the hint. */
void options_agree(const struct option *table, const void *stored, const void *settings,
                   enum option_scope scope, const char *where, const char *hint);

/* Whether all conditions of the option hold. option_lacks() writes those that do not, as "with --norm=gn
   and with --items". */
bool option_is_active(const struct option *option, const void *settings);
void option_lacks(const struct option *option, const void *settings, char *text, size_t size);

/* Whether the value is "auto". */
bool option_is_auto(const struct option *option, const void *settings);

/* Whether files have the option: options_read() accepts it. */
bool option_is_stored(const struct option *option);

/* Writes "name = value" for every option that is stored, the lines `notes`, which must be comments,
   and as the last line a comment with the CRC-32 of the lines above. */
#define OPTIONS_CHECKSUM "# crc32 of the lines above: "
void options_write(const struct option *table, const void *settings, const char *notes, FILE *file);

/* Writes the same values as members of a JSON object, without its braces. */
void options_write_json(const struct option *table, const void *settings, FILE *file);

/* Writes the value of an option as JSON. */
void option_write_json(const struct option *option, const void *settings, FILE *file);

/* The table as a JSON list, an object for each option: its name, topic, kind, default, range or
   values, condition, whether it only watches, and help. Members that a row does not have are left
   out. */
void options_table_json(const struct option *table, FILE *file);

/* The value as text, which may be in `text` (size bytes); NULL for a TEXT that is not given and for
   a row without a value. */
const char *option_value(const struct option *option, const void *settings, char *text,
                         size_t size);

/* The value in the settings. */
union option_data *option_data_of(const struct option *option, const void *settings);

bool option_takes_value(const struct option *option);
const char *option_choices(const struct option *option); // "on|off", in a buffer of the function

/* Value i of a CHOICE, without a name after the last; the value of this name, or -1. */
struct option_choice option_choice_of(const struct option *option, int64_t i);
int64_t option_index(const struct option *option, const char *name);

/* What a mistyped name may have meant: the likeliest of all names, by edit distance and as an
   abbreviation. Start with {0}. */
enum { SUGGESTIONS = 6 };

struct suggestions {
    const char *before, *name[SUGGESTIONS];
    int count, likely; // the number of names, and how likely each is
    char text[256];
};

/* Adds the name, with `before` ("--") in front of it, if it is as likely as those found so far, and
   starts again from it if it is more likely. */
void suggestions_consider(struct suggestions *found, const char *typed, const char *before,
                          const char *name);

/* "did you mean --a or --b?"; `otherwise` if there is no name, or more than SUGGESTIONS. */
const char *suggestions_text(struct suggestions *found, const char *otherwise);
