/* UTF-8 as RFC 3629 has it: no overlong form, no surrogate, nothing above U+10FFFF. */
#ifndef UTF8_H
#define UTF8_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { CODE_POINTS = 0x110000 };

/* The code point at text[*at] of `bytes` bytes, moving *at behind it; -1, and *at stays, if there
   is none. */
static inline int32_t utf8_decode(const unsigned char *text, size_t bytes, size_t *at) {
    static const int32_t least[] = {0, 0x80, 0x800, 0x10000};
    unsigned char first = text[*at];
    int more = first < 0x80       ? 0
               : first >> 5 == 6  ? 1
               : first >> 4 == 14 ? 2
               : first >> 3 == 30 ? 3
                                  : -1;
    if (more < 0 || bytes - *at <= (size_t)more) return -1;
    int32_t code = more ? first & (0x3f >> more) : first;
    for (int i = 1; i <= more; i++) {
        if (text[*at + i] >> 6 != 2) return -1;
        code = code << 6 | (text[*at + i] & 0x3f);
    }
    if (code < least[more] || code >= CODE_POINTS || (code >= 0xd800 && code < 0xe000)) return -1;
    *at += more + 1;
    return code;
}

static inline void utf8_put(uint32_t code, FILE *file) {
    if (code < 0x80) {
        fputc((int)code, file);
        return;
    }
    int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const int first[] = {0, 0xc0, 0xe0, 0xf0};
    fputc(first[more] | (int)(code >> 6 * more), file);
    while (more-- > 0) fputc(0x80 | (int)(code >> 6 * more & 0x3f), file);
}

#endif
