/* Progress of training on standard error: lines that stay and, on a terminal, a block of lines
   below them that changes in place: a chart, a text and the live line. The cursor waits below the
   block, so that whatever is written next, by whatever program, starts on a line of its own. */
#pragma once

#include "model/app/chart.h"
#include "model/app/columns.h"

enum { PROGRESS_LINES = CHART_ROWS + 2 };

struct progress {
    bool shown;                    // not --quiet
    bool live;                     // standard error is a terminal that moves its cursor
    bool utf8, colour;             // which the terminal shows
    double looked, resized;        // seconds at which the window was measured, got a new width
    const struct chart *chart;     // or NULL
    char text[640], line[256];     // below it: a text, the live line; "": none
    char block[CHART_TEXT + 1024]; // all of these, as they are on the screen
    FILE *pen;                     // writes into the block
    size_t lines, width[PROGRESS_LINES]; // of the block on the screen; in columns
    size_t columns, seen;                // of the terminal: under the block, when last looked at
    FILE *screen;                        // of the terminal; fflush() writes to it
    char buffer[2 * CHART_TEXT];         // of `screen`
};

void progress_start(struct progress *progress, bool quiet);

/* A line that stays. */
void progress_say(struct progress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Draws the live line and the chart after the update that follows these of `state`, of `steps` in all,
   at most five times a second, in the width of the terminal. It draws only if that width is stable. */
void progress_step(struct progress *progress, const struct state *state, int64_t steps);

/* Draws the chart once more, without the live line, and leaves it on the screen. */
void progress_end(struct progress *progress);

/* The live line in `line` (size bytes), at most `columns` long. If it is too long, the bar is left
   out first, then fields at the end. */
void progress_format(const struct state *state, int64_t steps, size_t columns, char *line,
                     size_t size);
