/* What a person sees while the program trains, on standard error: on a terminal one live line under
   lines that stay, elsewhere plain lines only. */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool shown;  // not --quiet
    bool live;   // standard error is a terminal
    double last; // seconds at which the live line was drawn
};

struct progress progress_start(bool quiet);

/* A line that stays. */
void progress_say(struct progress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The live line, drawn at most ten times a second. */
void progress_step(struct progress *progress, int64_t step, int64_t steps, double seconds,
                   double loss, double tokens_per_second);

#endif
