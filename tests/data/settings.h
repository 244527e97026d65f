/* A table of options for tests, with one option of each kind. */
#ifndef SETTINGS_H
#define SETTINGS_H

#include "data/files/options.h"

struct settings {
    int64_t count, chosen, colour, lit, loud, stop;
    double rate, fraction;
    const char *file, *title, *config;
};

extern const struct option settings_table[];

/* The settings after the command line "program WORDS". The settings and their texts are valid until
   the next call. */
struct settings *settings_parse(const char *words);

/* The same for call(): `words` is the text. */
void settings_parse_child(void *words);

/* Fails unless these words are refused as wrong usage, with a message that holds `part`. */
void settings_expect_wrong(const char *words, const char *part);

#endif
