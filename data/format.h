/* Strings that grow in a buffer, and lines. */
#pragma once

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Appends to the string in `text` (size bytes), as far as there is room. */
static inline __attribute__((format(printf, 3, 4))) void format_add(char *text, size_t size,
                                                                    const char *format, ...) {
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

/* A text as one line, of which the buffer of `size` bytes holds what fits: a file name may contain
   any byte, so control characters become question marks. */
static inline void format_line(char *line, size_t size, const char *format, va_list arguments) {
    vsnprintf(line, size, format, arguments);
    for (; *line; line++)
        if (iscntrl((unsigned char)*line)) *line = '?';
}
