/* Lines that a process writes as a whole. A note is held back until notice_start(), and is
   shown once. */
#include "data/die.h"
#include "data/format.h"
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void (*die_end)(int status, const char *line);

static char notes[16384] = "\n"; // all, with a newline before and after each
static enum { WAIT, SHOW, DROP } mode;

void die(int status, const char *format, ...) {
    char line[8192];
    va_list arguments;
    va_start(arguments, format);
    format_line(line, sizeof line, format, arguments);
    va_end(arguments);
    fflush(stdout);
    if (die_end)
        die_end(status, line);
    else
        fprintf(stderr, "train: %s\n", line);
    exit(status);
}

void notice(const char *format, ...) {
    char line[5000] = "\nnote: ";
    size_t used = strlen(line);
    va_list arguments;
    va_start(arguments, format);
    format_line(line + used, sizeof line - used - 1, format, arguments);
    va_end(arguments);
    strcat(line, "\n");
    if (strstr(notes, line) || strlen(notes) + strlen(line) > sizeof notes) return;
    strcat(notes, line + 1);
    if (mode == SHOW) fputs(line + 1, stderr);
}

void notice_start(bool shown) {
    if (shown) fputs(notes + 1, stderr);
    mode = shown ? SHOW : DROP;
}

static _Noreturn void none(size_t count, size_t size, const char *what) {
    die(STATUS_MACHINE, "memory: not enough for %s: %.1f MiB", what,
        (double)count * (double)size / 1048576);
}

void *memory_take(size_t count, size_t size, const char *what) {
    void *memory = calloc(count ? count : 1, size ? size : 1);
    if (!memory) none(count, size, what);
    return memory;
}

void *memory_grow(void *memory, size_t count, size_t size, const char *what) {
    size_t bytes;
    void *grown = NULL;
    if (!__builtin_mul_overflow(count ? count : 1, size ? size : 1, &bytes))
        grown = realloc(memory, bytes);
    if (!grown) none(count, size, what);
    return grown;
}

FILE *file_open(const char *what, const char *path) {
    FILE *file = fopen(path, "re");
    if (!file) die(STATUS_MACHINE, "%s: %s: %s", what, path, strerror(errno));
    return file;
}

char *memory_text(const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    const size_t size = (size_t)vsnprintf(NULL, 0, format, arguments) + 1;
    char *text = memory_take(size, 1, "a text");
    vsnprintf(text, size, format, again);
    va_end(arguments);
    va_end(again);
    return text;
}
