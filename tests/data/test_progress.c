/* The live line fits the width of the terminal. */
#define _GNU_SOURCE // posix_openpt
#include "data/files/progress.h"
#include "tests/command.h"
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(progress, .init = folder_enter, .fini = folder_leave);

static const struct progress_state half = {1000, 2000, 12.5, 1.23456, 98765.4};

Test(progress, in_a_wide_terminal_all_is_shown) {
    char line[256];
    progress_format(&half, 79, line, sizeof line);
    cr_expect_str_eq(line, "[######......] 1000/2000  loss 1.2346  98765 characters/s  12 s left");
}

Test(progress, a_narrow_terminal_gets_what_fits) {
    static const struct {
        size_t columns;
        const char *line;
    } narrow[] = {{68, "[######......] 1000/2000  loss 1.2346  98765 characters/s  12 s left"},
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
        progress_format(&half, narrow[i].columns, line, sizeof line);
        cr_expect_str_eq(line, narrow[i].line);
    }
}

Test(progress, never_longer_than_the_width) {
    static const struct progress_state states[] = {
        {0, 1, 0, 0, 0}, {999999999, 1000000000, 1e9, 1e300, 1e12}, {5, 1000000000, 1e-3, 2, 1}};
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        for (size_t columns = 0; columns < 120; columns++) {
            char line[256];
            progress_format(&states[i], columns, line, sizeof line);
            cr_expect(strlen(line) <= columns, "%zu columns: %s", columns, line);
        }
}

/* What the program writes to a terminal with this many columns, or with COLUMNS=40 if the terminal
   has none. */
static char *on_terminal(int columns) {
    int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    cr_assert(terminal >= 0 && !grantpt(terminal) && !unlockpt(terminal), "no pseudo-terminal");
    int slave = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    const struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    cr_assert(slave >= 0 && !ioctl(slave, TIOCSWINSZ, &size));
    pid_t child = fork();
    if (!child) {
        if (columns)
            unsetenv("COLUMNS");
        else
            setenv("COLUMNS", "40", 1);
        dup2(slave, STDERR_FILENO);
        dup2(slave, STDOUT_FILENO);
        execl(getenv("TRAIN"), "train", "--max-iters=4000", "--n-layer=1", "--n-head=1",
              "--n-embd=8", "--block-size=8", "--batch-size=2", "--sample=0", "--threads=1",
              "--eval-interval=1000000", "--eval-iters=1", "--grammar-chars=2000", NULL);
        _exit(99);
    }
    close(slave);
    static char text[1 << 18];
    size_t used = 0;
    for (ssize_t got;
         used < sizeof text - 1 && (got = read(terminal, text + used, sizeof text - 1 - used)) > 0;)
        used += (size_t)got;
    text[used] = 0;
    int status;
    cr_assert(waitpid(child, &status, 0) == child && status == 0, "status %d: %s", status, text);
    close(terminal);
    return text;
}

static void expect_width(int terminal, size_t columns) {
    int lines = 0;
    char *text = on_terminal(terminal);
    for (char *line; (line = strsep(&text, "\r"));) {
        char *end = strstr(line, "\033[K");
        if (!end || !strstr(line, "/4000")) continue;
        cr_expect((size_t)(end - line) < columns, "%zu columns: %.*s", columns, (int)(end - line),
                  line);
        lines++;
    }
    cr_expect(lines > 0, "no live line in %zu columns", columns);
}

Test(progress, the_live_line_stays_in_one_line) {
    expect_width(80, 80);
    expect_width(50, 50);
    expect_width(20, 20);
}

Test(progress, a_terminal_that_does_not_tell_its_width) {
    expect_width(0, 40);
}
