/* The characters that a model knows. A symbol is a code point, or a byte at LEVEL_BYTE; ids 0 ..
   V-1 stand for the symbols in ascending order. */
#pragma once

#include "data/text/utf8.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { LEVEL_CHAR, LEVEL_BYTE };

struct vocabulary {
    int level;
    size_t V;
    uint32_t *symbols; // (V) ascending
};

void vocabulary_free(struct vocabulary *vocabulary);

/* The symbols in the order of their ids as text, "10 32 33 ..."; the caller frees it. */
char *vocabulary_text(const struct vocabulary *vocabulary);

/* Makes the vocabulary of such a text. Returns false, with nothing to free, if the text is not a
   list of ascending symbols separated by single blanks. */
bool vocabulary_parse(struct vocabulary *vocabulary, int level, const char *text);

/* The id of a symbol, or -1 if it is not in the vocabulary. */
int32_t vocabulary_id(const struct vocabulary *vocabulary, uint32_t symbol);

/* Reads the symbol at text[*offset] of `bytes` bytes and moves *offset after it. If the text is not
   UTF-8 there (which cannot happen at LEVEL_BYTE), returns -1 and leaves *offset. */
static inline int32_t vocabulary_symbol(int level, const unsigned char *text, size_t bytes,
                                        size_t *offset) {
    return level == LEVEL_BYTE ? text[(*offset)++] : utf8_decode(text, bytes, offset);
}

/* The name of a symbol in messages: "U+00E9 (é)", "byte 0xff". In a buffer of the function. */
const char *vocabulary_name(int level, uint32_t symbol);

/* Writes characters to a file as UTF-8. With LEVEL_BYTE, ids are bytes: those of a code point are
   held back until it is complete, and bytes that cannot become one are written as U+FFFD; with
   `exact`, bytes are written as they are. Set the first three members, and the rest to 0. */
struct writer {
    const struct vocabulary *vocabulary;
    FILE *file;
    bool exact;
    unsigned char held[4]; // bytes held back
    int count;             // of these
};

void writer_put(struct writer *writer, int32_t id);

/* Writes the code points that are complete, and U+FFFD for bytes that cannot become one; at the
   `end` for all that is held back. */
void writer_flush(struct writer *writer, bool end);
