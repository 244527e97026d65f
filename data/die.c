#include "data/die.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void (*die_end)(int status, const char *line);

void die(int status, const char *format, ...) {
    char line[8192];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    for (char *c = line; *c; c++)
        if (iscntrl((unsigned char)*c)) *c = '?'; // a file name may contain any byte
    fflush(stdout);
    if (die_end)
        die_end(status, line);
    else
        fprintf(stderr, "train: %s\n", line);
    exit(status);
}
