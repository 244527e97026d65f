/* The table of options as a manual: the pages of --help, a man page, a bash completion. */
#ifndef OPTIONS_HELP_H
#define OPTIONS_HELP_H

#include "data/files/options.h"

/* What a manual says in addition to the table. */
struct manual {
    const struct option *table;
    const char *command;      // as typed: "train"
    const char *installed;    // as installed: "normlab-train"
    const char *version;      // "normlab 1.0"
    const char *purpose;      // a phrase for the man page's title
    const char *introduction; // one or more sentences
    /* Writes when an option has an effect, "with --norm=gn", or "" for always. */
    void (*needs)(const struct option *option, char *text, size_t size);
    /* If a topic has the name of an option whose values are kinds, it ends with a list of these.
       Adds to the formula of kind i which options it uses; says what the symbols mean. */
    void (*uses)(const struct option *option, int64_t i, char *text, size_t size);
    const char *(*symbols)(const char *topic);
    /* Ends of the man page: pairs of a title and a text, ended by NULL. */
    const char *const (*sections)[2];
};

/* Writes a part of the manual. `topic` is the name of a heading or of an option, "" for the first
   page, "all" for all topics, "man" for the man page or "completion" for the script for bash. Dies
   with status 2 if it is none of these. */
void options_help(const struct manual *manual, const char *topic, FILE *file);

/* Writes `text` in lines of at most 79 columns, of which the first `indent` are blank. The cursor
   is already at column `indent` of the first line. */
void options_help_wrapped(FILE *file, const char *text, size_t indent);

#endif
