/* Strings that grow in a buffer. */
#ifndef FORMAT_H
#define FORMAT_H

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

#endif
