/* The characters that a model knows: ids 0 .. V-1 stand for code points (or bytes) in ascending
   order. A corpus makes a vocabulary, a model's file keeps it, generation writes with it. */
#ifndef VOCABULARY_H
#define VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { LEVEL_CHAR, LEVEL_BYTE };

struct vocabulary {
    int level;
    size_t V;
    uint32_t *symbols; // (V) code points (or bytes), ascending
};

/* The vocabulary of the symbols below `end` that `used` (end) marks. */
void vocabulary_make(struct vocabulary *vocabulary, int level, const int32_t *used, size_t end);
void vocabulary_free(struct vocabulary *vocabulary);

/* The symbols in the ids' order as text, "10 32 33 ..."; the caller frees it. */
char *vocabulary_text(const struct vocabulary *vocabulary);

/* The vocabulary of such a text; false, and nothing to free, if that is none: not ascending numbers
   of code points (or bytes), parted by single blanks. */
bool vocabulary_parse(struct vocabulary *vocabulary, int level, const char *text);

/* The id of a code point (or byte), or -1 if it is not in the vocabulary. */
int32_t vocabulary_id(const struct vocabulary *vocabulary, uint32_t symbol);

/* The next symbol of a text of `bytes` bytes, *at moving behind it; -1, and *at stays, where the
   text is not UTF-8 (never so at LEVEL_BYTE). */
int32_t vocabulary_symbol(int level, const unsigned char *text, size_t bytes, size_t *at);

/* What a symbol is called in messages: "U+00E9 (é)", "byte 0xff". In a buffer of the function. */
const char *vocabulary_name(int level, uint32_t symbol);

/* Characters on their way to a file, which gets UTF-8 only: bytes (LEVEL_BYTE) wait until they make
   a character, and those that cannot become U+FFFD. */
struct writer {
    const struct vocabulary *vocabulary;
    FILE *file;
    unsigned char waiting[4];
    int count;
    uint32_t last; // what was written last
};

void writer_put(struct writer *writer, int32_t id);
void writer_end(struct writer *writer); // what still waits is no character

#endif
