#include "progress.h"
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

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

void progress_step(struct progress *progress, int64_t step, int64_t steps, double seconds,
                   double loss, double tokens_per_second) {
    enum { WIDTH = 12 }; // the whole fits in 79 columns
    if (!progress->live || seconds - progress->last < 0.1) return;
    progress->last = seconds;
    char bar[WIDTH + 1];
    for (int i = 0; i < WIDTH; i++) bar[i] = i * steps < step * WIDTH ? '#' : '.';
    bar[WIDTH] = 0;
    double left = step ? seconds / (double)step * (double)(steps - step) : 0;
    fprintf(stderr, "\r[%s] %lld/%lld  loss %.4f  %.0f characters/s  %.0f s left\033[K", bar,
            (long long)step, (long long)steps, loss, tokens_per_second, left);
    fflush(stderr);
}
