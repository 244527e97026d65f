#include "data/files/notice.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static char lines[16384] = "\n"; // of all notes, with a newline before and after each
static enum { WAIT, SHOW, DROP } mode;

void notice(const char *format, ...) {
    char line[5000] = "\nnote: ";
    size_t used = strlen(line);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line + used, sizeof line - used - 1, format, arguments);
    va_end(arguments);
    for (char *c = line + used; *c; c++)
        if (iscntrl((unsigned char)*c)) *c = '?'; // a file name may contain any byte
    strcat(line, "\n");
    if (strstr(lines, line) || strlen(lines) + strlen(line) > sizeof lines) return;
    strcat(lines, line + 1);
    if (mode == SHOW) fputs(line + 1, stderr);
}

void notice_start(bool shown) {
    if (shown) fputs(lines + 1, stderr);
    mode = shown ? SHOW : DROP;
}
