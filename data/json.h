/* Writing JSON. */
#ifndef JSON_H
#define JSON_H

#include "utf8.h"
#include <string.h>

/* `text` with quotes as a JSON string; bytes that are not UTF-8 become U+FFFD. */
static inline void json_string(FILE *file, const char *text) {
    const unsigned char *c = (const unsigned char *)text;
    size_t bytes = strlen(text);
    fputc('"', file);
    for (size_t at = 0; at < bytes;) {
        int32_t code = utf8_decode(c, bytes, &at);
        if (code < 0) at++, code = 0xfffd;
        if (code == '"' || code == '\\') fputc('\\', file);
        if (code < ' ' || code == 127)
            fprintf(file, "\\u%04x", (unsigned)code);
        else
            utf8_put((uint32_t)code, file);
    }
    fputc('"', file);
}

#endif
