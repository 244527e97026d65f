#include "data/files/quote.h"
#include <string.h>

static const char plain[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_";

static size_t put(char *text, size_t size, size_t used, const char *piece, size_t length) {
    for (size_t i = 0; i < length && used + 1 < size; i++) text[used++] = piece[i];
    text[used] = 0;
    return used;
}

size_t quote_word(const char *word, char *text, size_t size) {
    size_t used = 0, length = strlen(word);
    if (length && strspn(word, plain) == length) return put(text, size, used, word, length);
    used = put(text, size, used, "'", 1);
    for (const char *c = word; *c; c++)
        used = *c == '\'' ? put(text, size, used, "'\\''", 4) : put(text, size, used, c, 1);
    return put(text, size, used, "'", 1);
}
