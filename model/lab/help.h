/* Output without training: --help, --list-norms and other lists, --version. */
#ifndef HELP_H
#define HELP_H

#include "model/lab/config.h"

/* Prints what the options ask for; false if they ask for none of these. If the reader of standard
   output closes it early, as `head` does, the program ends with status 0. */
bool help_answer(const struct config *config);

/* Writes a page of the manual. `topic` is the name of a heading or of an option, "" for the first
   page, "all" for all topics, "man" for the man page or "completion" for the script for bash. Dies
   with status 2 if it is none of these. */
void help_page(const char *topic, FILE *file);

/* Writes `text` in lines of at most 79 columns, of which the first `indent` are blank. The cursor
   is already at column `indent` of the first line. */
void help_wrapped(FILE *file, const char *text, size_t indent);

/* The symbols in the formulas of the kinds that the option `topic` chooses; "" if there are
   none. */
const char *help_symbols(const char *topic);

/* Adds to the formula of kind i, a norm or an optimizer, which options it uses. */
void help_uses(const struct option *option, int64_t i, char *text, size_t size);

#endif
