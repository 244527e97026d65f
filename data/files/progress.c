#include "data/files/progress.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LINE = 256 };

struct progress progress_start(bool quiet) {
    return (struct progress){.shown = !quiet, .live = !quiet && isatty(STDERR_FILENO), .last = -1};
}

/* Removes the live line. */
static void progress_clear(const struct progress *progress) {
    if (progress->live) fputs("\r\033[K", stderr);
}

void progress_say(struct progress *progress, const char *format, ...) {
    if (!progress->shown) return;
    va_list arguments;
    progress_clear(progress);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

size_t progress_columns(void) {
    struct winsize window;
    if (!ioctl(STDERR_FILENO, TIOCGWINSZ, &window) && window.ws_col) return window.ws_col;
    const char *columns = getenv("COLUMNS");
    int number = columns ? atoi(columns) : 0;
    return number > 0 ? (size_t)number : 80;
}

void progress_format(const struct progress_state *s, size_t columns, char *line, size_t size) {
    enum { BAR = 12 };
    char bar[BAR + 4] = "[", full[LINE];
    for (int i = 0; i < BAR; i++) bar[1 + i] = i * s->steps < s->step * BAR ? '#' : '.';
    strcpy(bar + 1 + BAR, "] ");
    double left = s->step ? s->seconds / (double)s->step * (double)(s->steps - s->step) : 0;
    snprintf(full, sizeof full, "%s%lld/%lld  loss %.4f  %.0f characters/s  %.0f s left", bar,
             (long long)s->step, (long long)s->steps, s->loss, s->tokens_per_second, left);
    const char *shown = strlen(full) <= columns ? full : full + strlen(bar);
    size_t length = strlen(shown);
    if (length > columns) { // cut after a whole field; two blanks follow each
        for (length = columns; length && strncmp(shown + length, "  ", 2) != 0;) length--;
        if (!length) length = columns;
    }
    snprintf(line, size, "%.*s", (int)length, shown);
}

void progress_step(struct progress *progress, const struct progress_state *state) {
    if (!progress->live || state->seconds - progress->last < 0.1) return;
    progress->last = state->seconds;
    char line[LINE];
    // some terminals wrap a line that fills the last column
    progress_format(state, progress_columns() - 1, line, sizeof line);
    fprintf(stderr, "\r%s\033[K", line);
    fflush(stderr);
}
