/* Output without training: --help, --list-norms and other lists, --version. */
#ifndef HELP_H
#define HELP_H

#include "model/lab/config.h"

/* Prints what the options ask for; false if they ask for none of these. If the reader of standard
   output closes it early, as `head` does, the program ends with status 0. */
bool help_answer(const struct config *config);

#endif
