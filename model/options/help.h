/* Output without training: --help, --list-norms and other lists, --version. */
#pragma once

#include "model/options/config.h"

/* Prints what the options ask for; false if they ask for none of these. If the reader of standard
   output closes it early, as `head` does, the program ends with status 0. */
bool help_answer(const struct config *config);

/* ---- inside ---- */

/* Whether "--name=" is typed. */
bool help_is_valued(const struct option *o);

/* The names of all topics, separated by blanks. */
void help_topics(char *text, size_t size);

/* Prints the script that bash reads. */
void help_put_completion(void);
