/* Runs ./train on a terminal, and says what the terminal shows. */
#ifndef TERMINAL_H
#define TERMINAL_H

#include <stddef.h>

/* What a program is started with on a terminal of `columns` x 24; 0: it does not tell its size. */
struct on_terminal {
    int columns;
    const char *variables; // of the environment: NAME=VALUE, separated by blanks
    const char *options;   // of ./train, separated by blanks
    int signal;            // sent as soon as it has written `until`, unless 0
    const char *until;
    int status; // with which it must end
};

/* Opens a terminal of this size; *end is what a program has as its standard error. */
int terminal_open(int columns, int rows, int *end);
void terminal_resize(int terminal, int columns, int rows);

/* What it writes, as bytes; until the next call. */
char *terminal_output(struct on_terminal program);

/* The lines that a terminal of this width and without a last row shows after these bytes, each
   ended by a newline; until the next call. Fails if there is a sequence that it does not know. */
char *terminal_screen(const char *bytes, size_t columns);

#endif
