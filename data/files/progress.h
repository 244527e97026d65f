/* Progress of training on standard error: lines that stay and, on a terminal, a live line below
   them. */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress {
    bool shown;  // not --quiet
    bool live;   // standard error is a terminal
    double last; // seconds at which the live line was drawn
};

/* How far training is. */
struct progress_state {
    int64_t step, steps;
    double seconds, loss, tokens_per_second;
};

struct progress progress_start(bool quiet);

/* A line that stays. */
void progress_say(struct progress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Draws the live line, at most ten times a second, in the width of the terminal. */
void progress_step(struct progress *progress, const struct progress_state *state);

/* The live line in `line` (size bytes), at most `columns` long. If it is too long, the bar is left
   out first, then fields at the end. */
void progress_format(const struct progress_state *state, size_t columns, char *line, size_t size);

/* The width of the terminal on standard error; without one, the value of COLUMNS, or 80. */
size_t progress_columns(void);

#endif
