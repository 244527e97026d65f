/* The table of options as a manual: the pages of --help, a man page, a bash completion. */
#ifndef OPTIONS_HELP_H
#define OPTIONS_HELP_H

#include "data/files/options.h"

/* What a manual says beside the table. */
struct manual {
    const struct option *table;
    const char *command;      // as typed: "train"
    const char *installed;    // as installed: "normlab-train"
    const char *version;      // "normlab 1.0"
    const char *purpose;      // a phrase for the man page's title
    const char *introduction; // one or more sentences
    /* Writes when an option has something to do, "with --norm=gn", or "" for always. */
    void (*needs)(const struct option *option, char *text, size_t size);
    /* The name of entry i of the list that closes a topic, its explanation in `text`; NULL after
       the last. */
    const char *(*entry)(const char *topic, int64_t i, char *text, size_t size);
    /* Ends of the man page: pairs of a title and a text, ended by NULL. */
    const char *const (*sections)[2];
};

/* The first page, a topic, an option, or "all" of it; `topic` is "" for the first page. Dies with
   status 2 if there is no such topic. "man" is the man page, "completion" the script for bash. */
void options_help(const struct manual *manual, const char *topic, FILE *file);

void options_man(const struct manual *manual, FILE *file);
void options_completion(const struct manual *manual, FILE *file);

/* What stands over the list that closes the topic: "NORM is one of:", in `text` (OPTION_FORM). */
void options_list_title(const struct option *table, const char *topic, char *text);

/* How a row is typed, "--name=N", in `form` (OPTION_FORM); all that is said of it in `text`
   (OPTION_NOTE). */
void option_form(const struct option *option, char *form);
void option_describe(const struct manual *manual, const struct option *option, char *text);

#endif
