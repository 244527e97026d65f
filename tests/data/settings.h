/* A table of options of the tests' own, with an option of each kind. */
#ifndef SETTINGS_H
#define SETTINGS_H

#include "data/files/options.h"

struct settings {
    int64_t count, chosen, colour, lit, loud, stop;
    double rate, share;
    const char *file, *title, *config;
};

extern const struct option settings_table[];

/* The settings after "PROGRAM words", with texts that last until the next call. */
struct settings *settings_parse(const char *words);

/* The same for call(), which takes a function of a pointer: the words. */
void settings_parse_child(void *words);

/* Fails unless these words are refused as wrong usage, with a message that holds `part`. */
void settings_expect_wrong(const char *words, const char *part);

#endif
