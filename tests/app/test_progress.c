/* On a terminal: the live line fits its width, the chart above it changes in place, and the screen
   is clean at the end. */
#define _GNU_SOURCE // posix_openpt
#include "model/app/progress.h"
#include "tests/command.h"
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define SHORT                                                                                      \
    "--n-layer=1 --n-head=1 --n-embd=8 --block-size=8 --batch-size=2 --sample=0 --threads=1 "      \
    "--eval-iters=1 --grammar-chars=2000 "

static void terminal_resize(int terminal, int columns, int rows) {
    const struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};
    cr_assert(!ioctl(terminal, TIOCSWINSZ, &size));
}

/* Opens a terminal of `columns` x 24; *end is what a program has as its standard error. */
static int terminal_open(int columns, int *end) {
    int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    cr_assert(terminal >= 0 && !grantpt(terminal) && !unlockpt(terminal), "no pseudo-terminal");
    *end = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    cr_assert(*end >= 0);
    terminal_resize(terminal, columns, 24);
    return terminal;
}

/* What ./train writes with these options (and with these variables of the environment) on a
   terminal of `columns` x 24, as bytes; until the next call. It is sent SIGINT as soon as it has
   written `until`, unless that is NULL, and must end with this status. */
static char *terminal_output(int columns, const char *variables, const char *options,
                             const char *until, int status) {
    static char text[1 << 20];
    int end, terminal = terminal_open(columns, &end);
    struct process process = bash_start(say("exec env -u COLUMNS -u NO_COLOR -u LC_ALL -u LC_CTYPE "
                                            "-u LANG %s \"$TRAIN\" " SHORT "%s >&%d 2>&1",
                                            variables, options, end));
    close(end);
    size_t used = 0;
    for (ssize_t got; used < sizeof text - 1 &&
                      (got = read(terminal, text + used, sizeof text - 1 - used)) > 0;) {
        used += (size_t)got;
        text[used] = 0;
        if (!until || !strstr(text, until)) continue;
        kill(process.id, SIGINT);
        until = NULL;
    }
    struct ending ending = process_end(process);
    cr_assert(ending.status == status, "status %d: %s%s", ending.status, text, ending.err);
    close(terminal);
    return text;
}

enum { ROWS = 400, COLUMNS = 256 };
static char shown[ROWS][4 * COLUMNS]; // lines of UTF-8
static size_t row;

/* An escape sequence; returns its length. */
static size_t obey(const char *bytes) {
    const size_t numbers = 2 + strspn(bytes + 2, "0123456789;");
    const size_t number = strtoul(bytes + 2, NULL, 10);
    if (bytes[numbers] == 'A')
        row -= number ? number < row ? number : row : 1;
    else if (bytes[numbers] == 'J')
        memset(shown[row], 0, (ROWS - row) * sizeof shown[0]);
    else if (bytes[numbers] == 'K' && number == 2)
        *shown[row] = 0;
    else
        cr_assert(bytes[1] == '[' && bytes[numbers] == 'm', "sequence %.9s", bytes + 1);
    return numbers + 1;
}

/* The lines that a terminal of this width and without a last row shows after these bytes; until the
   next call. Fails if there is a sequence that it does not know, or a line that is not cleared
   before another one is written there. */
static char *terminal_screen(const char *bytes, size_t columns) {
    static char text[sizeof shown];
    size_t last = 0, column = 0;
    row = 0;
    memset(shown, 0, sizeof shown);
    *text = 0;
    for (size_t length; *bytes; bytes += length) {
        length = 1;
        if (*bytes == '\n') {
            row++;
        } else if (*bytes == '\r') {
            column = 0;
        } else if (*bytes == '\033') {
            length = obey(bytes);
        } else {
            if (column == columns) row++, column = 0;
            cr_assert(row < ROWS && columns <= COLUMNS && (column || !*shown[row]));
            while ((bytes[length] & 0xc0) == 0x80) length++;
            strncat(shown[row], bytes, length);
            column++;
        }
        if (row > last) last = row;
    }
    cr_expect(column == 0, "the cursor is not at the start of a line");
    for (size_t i = 0; i < last; i++) strcat(strcat(text, shown[i]), "\n");
    return text;
}

TestSuite(progress, .init = folder_enter, .fini = folder_leave);

static const struct state half = {
    .step = 999, .seconds = 12.5, .train_loss = 1.23456, .speed = 98765.4};

Test(progress, a_narrow_terminal_gets_what_fits) {
    static const struct {
        size_t columns;
        const char *line;
    } narrow[] = {{79, "[######......] 1000/2000  loss 1.2346  98765 characters/s  12 s left"},
                  {68, "[######......] 1000/2000  loss 1.2346  98765 characters/s  12 s left"},
                  {67, "1000/2000  loss 1.2346  98765 characters/s  12 s left"},
                  {53, "1000/2000  loss 1.2346  98765 characters/s  12 s left"},
                  {52, "1000/2000  loss 1.2346  98765 characters/s"},
                  {41, "1000/2000  loss 1.2346"},
                  {21, "1000/2000"},
                  {9, "1000/2000"},
                  {4, "1000"},
                  {0, ""}};
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++) {
        char line[256];
        progress_format(&half, 2000, narrow[i].columns, line, sizeof line);
        cr_expect_str_eq(line, narrow[i].line);
    }
}

static size_t count(const char *text, const char *part) {
    size_t number = 0;
    while ((text = strstr(text, part))) number++, text += strlen(part);
    return number;
}

/* Of a run with evaluations at steps 0, 500 ... 4000 the screen has every line that stays, and one
   chart of `rows` rows, if that is not 0, before the lines of the end. */
static void expect_screen(int columns, const char *variables, size_t rows, const char *dot) {
    const char *screen = terminal_screen(
        terminal_output(columns, variables, "--max-iters=4000 --eval-interval=500", NULL, 0),
        (size_t)columns);
    cr_expect(count(screen, "step ") == 9, "lines of evaluations are missing: %s", screen);
    cr_expect(!strstr(screen, "characters/s  "), "the live line is left: %s", screen);
    cr_expect(count(screen, " val 2") == (rows > 0) && !strstr(screen, dot) == !rows,
              "not one legend: %s", screen);
    cr_expect(*dot != 'o' || !strstr(screen, "\u2514"), "the axes are not ASCII: %s", screen);
    const char *step = strstr(screen, "step   4000"), *end = strstr(screen, "final val loss ");
    cr_assert(step && end, "%s", screen);
    size_t lines = 0;
    for (const char *c = step; c < end; c++) lines += *c == '\n';
    lines -= 1 + (columns < 52); // of the evaluation
    cr_expect(lines == rows, "%zu lines of a chart, not %zu: %s", lines, rows, screen);
}

Test(progress, the_chart_changes_in_place_or_there_is_none) {
    expect_screen(80, "TERM=xterm LANG=C.UTF-8", 12, "\u28c0");
    expect_screen(50, "TERM=xterm NO_COLOR=1 LC_ALL=C LANG=C.UTF-8", 12, "oo");
    expect_screen(30, "TERM=xterm LANG=C.UTF-8", 0, "\u28c0"); // too narrow
    expect_screen(80, "TERM=dumb LANG=C.UTF-8", 0, "\033");    // cannot move its cursor
}

Test(progress, no_colour_is_no_sequence_of_colour) {
    const char *text = terminal_output(80, "TERM=xterm NO_COLOR=1",
                                       "--max-iters=500 --eval-interval=100", NULL, 0);
    cr_expect(count(text, "\033[") > 20 && !strstr(text, "\033[0;"), "%s", text);
    text = terminal_output(80, "TERM=xterm NO_COLOR=", "--max-iters=500", NULL, 0);
    cr_expect(strstr(text, "\033[0;2m"), "%s", text);
}

Test(progress, an_interrupt_leaves_the_screen_clean) {
    const char *screen = terminal_screen(
        terminal_output(80, "TERM=xterm", "--max-iters=100000000 --eval-interval=1000",
                        "step   2000", 130),
        80);
    cr_expect(count(screen, "oo val ") == 1 && !strstr(screen, "characters/s  "), "%s", screen);
    cr_expect(strstr(screen, "\ninterrupted after ") && strstr(screen, "\nto continue: "), "%s",
              screen);
}

static int terminal; // on which the tests below show progress
static struct progress progress;

static void start_progress(int columns) {
    int end;
    terminal = terminal_open(columns, &end);
    cr_assert(dup2(end, STDERR_FILENO) == STDERR_FILENO && !setenv("TERM", "xterm", 1));
    progress_start(&progress, false);
    cr_assert(progress.live);
}

static void step(double seconds) {
    struct state at = half;
    at.seconds = seconds;
    progress_step(&progress, &at, 2000);
}

/* What was written on the terminal since the last call. */
static const char *written(void) {
    static char text[1 << 16];
    size_t used = 0;
    cr_assert(write(STDERR_FILENO, "\004", 1) == 1);
    do {
        ssize_t got = read(terminal, text + used, sizeof text - 1 - used);
        cr_assert(got > 0);
        text[used += (size_t)got] = 0;
    } while (text[used - 1] != '\004');
    return text;
}

Test(progress, a_terminal_that_does_not_tell_its_width_has_that_of_columns) {
    cr_assert(!setenv("COLUMNS", "30", 1));
    start_progress(0);
    step(1);
    cr_expect(strstr(written(), "1000/2000  loss 1.2346\033[m"));
}

Test(progress, a_wide_character_takes_two_columns) {
    start_progress(10);
    strcpy(progress.text, "\u8fd9\u662f\u4e00\u4e2a\u6587\u672c");
    step(1);
    cr_expect(strstr(written(), "K\u8fd9\u662f\u4e00\u4e2a\033[m"), "not 4 of them in 9 columns");
}

/* A terminal wraps the live line when it becomes narrower, and may do so before it says its
   width. */
Test(progress, nothing_is_written_while_the_width_changes) {
    start_progress(80);
    step(1);
    cr_expect(strstr(written(), "1000/2000"));
    terminal_resize(terminal, 60, 24);
    step(1.25);
    terminal_resize(terminal, 30, 24);
    step(1.5);
    step(1.8);
    cr_expect_str_eq(written(), "\004");
    step(2.05);
    const char *text = written();
    cr_expect(!strncmp(text, "\033[3A", 4), "68 characters are 3 lines of 30: %s", text);
    cr_expect(strstr(text, "1000/2000  loss 1.2346\033[m"), "%s", text);
    terminal_resize(terminal, 10, 24);
    progress_say(&progress, "said");
    text = written();
    cr_expect(!strncmp(text, "\033[3A", 4) && strstr(text, "said"), "%s", text);
}

/* A chart that is higher than its window would leave its upper lines among the lines that stay. */
Test(progress, a_line_that_stays_is_said_above_a_chart_of_the_windows_height) {
    static struct chart chart = {.curves = 1, .curve[0].name = "loss", .end = 1, .label = ""};
    start_progress(80);
    progress.chart = &chart;
    for (int i = 0; i < 2; i++) curve_add(chart.curve, i, 2 - i);
    step(1);
    cr_expect(count(written(), "\n") == 12 + 1);
    terminal_resize(terminal, 80, 8);
    progress_say(&progress, "said");
    const char *text = written();
    cr_expect(!strncmp(text, "\033[13A", 5) && count(text, "\033[m") == 1, "%s", text);
    cr_expect(!strstr(text, "A\r\033[J"), "tmux would keep the chart in its history: %s", text);
}
