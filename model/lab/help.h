/* What the program answers without training: --help, --list-norms, --list-placements, --version. */
#ifndef HELP_H
#define HELP_H

#include "data/files/options_help.h"
#include "model/lab/config.h"

extern const struct manual help_manual;

/* Prints what was asked for; false if nothing was. A reader that stops early, as `head` does, ends
   the program with status 0. */
bool help_answer(const struct config *config);

#endif
