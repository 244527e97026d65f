/* UTF-8 as RFC 3629 has it: no overlong form, no surrogate, nothing above U+10FFFF. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { CODE_POINTS = 0x110000, UTF8_REPLACEMENT = 0xfffd };

/* Decodes the code point at text[*offset] of `bytes` bytes and moves *offset after it. If there is
   no valid one, returns -1 and leaves *offset. */
static inline int32_t utf8_decode(const unsigned char *text, size_t bytes, size_t *offset) {
    static const int32_t code_min[] = {[1] = 0x80, 0x800, 0x10000};
    unsigned char first = text[*offset];
    if (first < 0x80) { // nearly all characters of most texts
        ++*offset;
        return first;
    }
    int more = first >> 5 == 6 ? 1 : first >> 4 == 14 ? 2 : first >> 3 == 30 ? 3 : -1;
    if (more < 0 || bytes - *offset <= (size_t)more) return -1;
    int32_t code = first & (0x3f >> more);
    for (int i = 1; i <= more; i++) {
        if (text[*offset + i] >> 6 != 2) return -1;
        code = code << 6 | (text[*offset + i] & 0x3f);
    }
    if (code < code_min[more] || code >= CODE_POINTS || (code >= 0xd800 && code < 0xe000))
        return -1;
    *offset += more + 1;
    return code;
}

/* Encodes a code point in text[0 .. 4) and returns the number of bytes. */
static inline int utf8_encode(uint32_t code, char *text) {
    int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const int first[] = {0, 0xc0, 0xe0, 0xf0};
    text[0] = (char)(first[more] | (int)(code >> 6 * more));
    for (int i = 1; i <= more; i++) text[i] = (char)(0x80 | (code >> 6 * (more - i) & 0x3f));
    return more + 1;
}

static inline void utf8_put(uint32_t code, FILE *file) {
    char text[4];
    fwrite(text, 1, (size_t)utf8_encode(code, text), file);
}
