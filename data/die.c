#include "die.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void die(int status, const char *format, ...) {
    va_list arguments;
    fflush(stdout);
    if (isatty(STDERR_FILENO)) fputs("\r\033[K", stderr); // over a live progress line
    fputs("train: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(status);
}
