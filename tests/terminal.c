#define _GNU_SOURCE // posix_openpt
#include "tests/terminal.h"
#include "tests/command.h"
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the child: the program, with the terminal as its standard output and error. */
static _Noreturn void become(const struct on_terminal *program, int terminal) {
    char variables[512], options[1024], *words[64] = {"train"}, *names[16];
    static const char *const usual[] = {"COLUMNS", "NO_COLOR", "LC_ALL", "LC_CTYPE", "LANG", NULL};
    for (const char *const *name = usual; *name; name++) unsetenv(*name);
    snprintf(variables, sizeof variables, "%s", program->variables);
    snprintf(options, sizeof options, "%s", program->options);
    for (int count = split(variables, names, 16); count-- > 0;) putenv(names[count]);
    split(options, words + 1, 63);
    dup2(terminal, STDOUT_FILENO);
    dup2(terminal, STDERR_FILENO);
    execv(getenv("TRAIN"), words);
    _exit(99);
}

void terminal_resize(int terminal, int columns, int rows) {
    const struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};
    cr_assert(!ioctl(terminal, TIOCSWINSZ, &size));
}

int terminal_open(int columns, int rows, int *end) {
    int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    cr_assert(terminal >= 0 && !grantpt(terminal) && !unlockpt(terminal), "no pseudo-terminal");
    *end = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    cr_assert(*end >= 0);
    terminal_resize(terminal, columns, rows);
    return terminal;
}

char *terminal_output(struct on_terminal program) {
    static char text[1 << 20];
    int end, status, terminal = terminal_open(program.columns, 24, &end);
    pid_t child = fork();
    if (!child) become(&program, end);
    close(end);
    size_t used = 0;
    for (ssize_t got; used < sizeof text - 1 &&
                      (got = read(terminal, text + used, sizeof text - 1 - used)) > 0;) {
        used += (size_t)got;
        text[used] = 0;
        if (!program.signal || !strstr(text, program.until)) continue;
        kill(child, program.signal);
        program.signal = 0;
    }
    text[used] = 0;
    cr_assert(waitpid(child, &status, 0) == child && WIFEXITED(status));
    cr_assert(WEXITSTATUS(status) == program.status, "status %d: %s", WEXITSTATUS(status), text);
    close(terminal);
    return text;
}

enum { ROWS = 400, COLUMNS = 256 };
static char screen[ROWS][COLUMNS][5]; // a character of UTF-8, or "" after the last one
static size_t row, column;

static void clear_from(size_t first) {
    memset(screen[first], 0, (ROWS - first) * sizeof screen[0]);
}

/* An escape sequence; returns its length. */
static size_t obey(const char *bytes) {
    const size_t numbers = 2 + strspn(bytes + 2, "0123456789;");
    const size_t number = strtoul(bytes + 2, NULL, 10);
    if (bytes[numbers] == 'A')
        row -= number ? number < row ? number : row : 1;
    else if (bytes[numbers] == 'J')
        clear_from(row);
    else if (bytes[numbers] == 'K' && number == 2)
        memset(screen[row], 0, sizeof screen[row]);
    else
        cr_assert(bytes[1] == '[' && bytes[numbers] == 'm', "sequence %.9s", bytes + 1);
    return numbers + 1;
}

static size_t show(const char *bytes, size_t columns) {
    size_t length = 1;
    while ((bytes[length] & 0xc0) == 0x80) length++;
    if (column == columns) row++, column = 0;
    cr_assert(row < ROWS && columns <= COLUMNS && length < 5);
    for (size_t i = 0; i < column; i++)
        if (!*screen[row][i]) strcpy(screen[row][i], " ");
    snprintf(screen[row][column++], 5, "%.*s", (int)length, bytes);
    return length;
}

char *terminal_screen(const char *bytes, size_t columns) {
    static char text[ROWS * COLUMNS * 4];
    size_t used = 0, last = 0;
    clear_from(row = column = 0);
    for (size_t length; *bytes; bytes += length) {
        length = 1;
        if (*bytes == '\n')
            row++;
        else if (*bytes == '\r')
            column = 0;
        else
            length = *bytes == '\033' ? obey(bytes) : show(bytes, columns);
        if (row > last) last = row;
    }
    cr_expect(column == 0, "the cursor is not at the start of a line");
    for (size_t i = 0; i < last; i++) {
        for (size_t k = 0; k < columns; k++)
            used += (size_t)sprintf(text + used, "%s", screen[i][k]);
        text[used++] = '\n';
    }
    text[used] = 0;
    return text;
}
