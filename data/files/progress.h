/* What a person sees while the program trains, on standard error: on a terminal one live line under
   lines that stay, elsewhere plain lines only. */
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

/* The live line, drawn at most ten times a second, in the width of the terminal. */
void progress_step(struct progress *progress, const struct progress_state *state);

/* The live line in `line` (size bytes), at most `columns` long: what does not fit goes, the bar
   first, then words at the end. */
void progress_format(const struct progress_state *state, size_t columns, char *line, size_t size);

/* Columns of the terminal on standard error; else those that COLUMNS names; else 80. */
size_t progress_columns(void);

#endif
