/* The block is written with escape sequences: up to its first line, each line cleared and
   written again, and the rest of the screen cleared. Lines are cut to the width of the window,
   so that none wraps. */
#include "model/app/progress.h"
#include "data/die.h"
#include "data/format.h"
#include "data/text/utf8.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { WIDE = 0x2e80 }; // the first code point that takes two columns, nearly

/* Clears the line. Terminals wrap what remains at the end of a line when they become narrower, even
   blanks, so the whole line is cleared before a shorter one is written. */
#define CLEAR "\r\033[2K"
/* And all lines below. From the top of the screen "\033[J" would move them into tmux's history. */
#define CLEAR_BELOW CLEAR "\n\033[J\033[A"

#define SETTLED 0.4 // seconds for which a window has its width before the block is drawn in it

/* A variable of the environment; "" if there is none. */
static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value ? value : "";
}

/* Whether the terminal shows UTF-8, as the locale says. */
static bool shows_utf8(void) {
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    const char *locale = "";
    for (int i = 0; i < 3 && !*locale; i++) locale = variable(names[i]);
    locale += strcspn(locale, ".");
    return !strncasecmp(locale, ".utf-8", 6) || !strncasecmp(locale, ".utf8", 5);
}

void progress_start(struct progress *progress, bool quiet) {
    const bool moves = *variable("TERM") && strcmp(variable("TERM"), "dumb") != 0;
    *progress = (struct progress){
        .shown = !quiet, .utf8 = shows_utf8(), .screen = stderr, .looked = -1, .resized = -1};
    progress->pen = fmemopen(progress->block, sizeof progress->block, "w");
    if (!progress->pen) die(STATUS_MACHINE, "memory: not enough for a chart");
    if (quiet || !moves || !isatty(STDERR_FILENO)) return;
    int copy = dup(STDERR_FILENO);
    FILE *screen = copy < 0 ? NULL : fdopen(copy, "w");
    if (!screen) return;
    setvbuf(screen, progress->buffer, _IOFBF, sizeof progress->buffer);
    progress->screen = screen;
    progress->live = true;
    progress->colour = !*variable("NO_COLOR");
}

/* A number of the environment, or the usual one. */
static size_t number_of(const char *name, size_t usual) {
    const int number = atoi(variable(name));
    return number > 0 ? (size_t)number : usual;
}

/* The size of the terminal on standard error; without one, COLUMNS x LINES, or 80 x 24. */
static void measure_window(size_t *columns, size_t *rows) {
    struct winsize window = {0};
    const bool known = !ioctl(STDERR_FILENO, TIOCGWINSZ, &window);
    *columns = known && window.ws_col ? window.ws_col : number_of("COLUMNS", 80);
    *rows = known && window.ws_row ? window.ws_row : number_of("LINES", 24);
}

/* As above, once the window is not being resized. A window that is dragged gets many widths, and a
   terminal may wrap lines before it reports the width. So the place of the block is known only at
   the end. */
static void settle(const struct progress *p, size_t *columns, size_t *rows) {
    size_t before = p->columns;
    for (measure_window(columns, rows); p->lines && *columns != before;) {
        before = *columns;
        nanosleep(&(struct timespec){.tv_nsec = (long)(SETTLED * 1e9)}, NULL);
        measure_window(columns, rows);
    }
}

/* The bytes of the first line of `text` that fit in `columns`. *width is the columns that they
   take; colours take none. */
static size_t fit(const char *text, size_t columns, size_t *width) {
    const size_t bytes = strcspn(text, "\n");
    size_t offset = 0;
    for (*width = 0; offset < bytes;) {
        size_t next = offset;
        if (text[offset] == '\033') {
            offset += strcspn(text + offset, "m") + 1;
            continue;
        }
        const int32_t code = utf8_decode((const unsigned char *)text, bytes, &next);
        const size_t wide = code >= WIDE ? 2 : 1;
        if (*width + wide > columns) break;
        *width += wide;
        offset = code < 0 ? offset + 1 : next;
    }
    return offset;
}

/* Moves to the start of the block. A terminal that became narrower has wrapped its lines. */
static void leave_block(const struct progress *p, size_t columns) {
    size_t rows = 0;
    for (size_t i = 0; i < p->lines; i++)
        rows += p->width[i] ? (p->width[i] + columns - 1) / columns : 1;
    if (rows) fprintf(p->screen, "\033[%zuA", rows);
}

/* Makes the block for a window of this size, of which the chart takes at most half. */
static void draw_block(struct progress *p, size_t columns, size_t rows) {
    rewind(p->pen);
    if (p->chart) chart_draw(p->chart, columns - 1, rows / 2, p->pen);
    if (*p->text) fprintf(p->pen, "%s\n", p->text);
    if (*p->line) fprintf(p->pen, "%s\n", p->line);
    fputc(0, p->pen);
    fflush(p->pen);
}

/* Writes the block where the cursor is. Some terminals wrap a line that fills the last column. */
static void put_block(struct progress *p, size_t columns) {
    p->lines = 0;
    p->columns = p->seen = columns;
    for (const char *line = p->block; *line; line += strcspn(line, "\n") + 1) {
        const size_t bytes = fit(line, columns - 1, &p->width[p->lines++]);
        fprintf(p->screen, CLEAR "%.*s\033[m\n", (int)bytes, line);
    }
    fputs("\033[J", p->screen);
    fflush(p->screen);
}

void progress_say(struct progress *progress, const char *format, ...) {
    size_t columns, rows;
    char line[8192];
    va_list arguments;
    if (!progress->shown) return;
    settle(progress, &columns, &rows);
    if (progress->lines) draw_block(progress, columns, rows); // in the window as it is now
    leave_block(progress, columns);
    if (progress->live) fputs(CLEAR_BELOW, progress->screen); // the text may be longer than a line
    va_start(arguments, format);
    format_line(line, sizeof line, format, arguments);
    va_end(arguments);
    fprintf(progress->screen, "%s\n", line);
    if (progress->live) put_block(progress, columns);
}

void progress_format(const struct state *s, int64_t steps, size_t columns, char *line,
                     size_t size) {
    enum { BAR = 12 };
    const int64_t done = s->step + 1;
    char bar[BAR + 4] = "[", full[256];
    for (int i = 0; i < BAR; i++) bar[1 + i] = i * steps < done * BAR ? '#' : '.';
    strcpy(bar + 1 + BAR, "] ");
    const double left = s->seconds / (double)done * (double)(steps - done);
    snprintf(full, sizeof full, "%s%lld/%lld  loss %.4f  %.0f characters/s  %.0f s left", bar,
             (long long)done, (long long)steps, s->train_loss, s->speed, left);
    const char *shown = strlen(full) <= columns ? full : full + strlen(bar);
    size_t length = strlen(shown);
    if (length > columns) { // cut after a whole field; two blanks follow each
        for (length = columns; length && strncmp(shown + length, "  ", 2) != 0;) length--;
        if (!length) length = columns;
    }
    snprintf(line, size, "%.*s", (int)length, shown);
}

void progress_step(struct progress *progress, const struct state *state, int64_t steps) {
    size_t columns, rows;
    if (!progress->live || state->seconds - progress->looked < 0.2) return;
    progress->looked = state->seconds;
    measure_window(&columns, &rows);
    if (progress->lines && columns != progress->seen) progress->resized = state->seconds;
    progress->seen = columns;
    if (state->seconds < progress->resized + SETTLED) return;
    progress_format(state, steps, columns - 1, progress->line, sizeof progress->line);
    leave_block(progress, columns);
    draw_block(progress, columns, rows);
    put_block(progress, columns);
}

void progress_end(struct progress *progress) {
    size_t columns, rows;
    settle(progress, &columns, &rows);
    leave_block(progress, columns);
    *progress->line = 0;
    if (!progress->live) *progress->text = 0;
    draw_block(progress, columns, progress->live ? rows : 2 * CHART_ROWS);
    if (progress->live)
        put_block(progress, columns);
    else
        fputs(progress->block, progress->screen);
    progress->lines = 0;
    *progress->block = *progress->text = 0;
}
