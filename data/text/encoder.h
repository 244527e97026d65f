/* From the bytes of a text, block by block, to the ids of a corpus, in two steps. While the text is
   read, each symbol gets a code: numbers 0, 1, ... in the order of first occurrence. When all of
   it is read, its vocabulary is known, and codes become ids. So the text itself is not kept. */
#ifndef ENCODER_H
#define ENCODER_H

#include "data/text/ids.h"
#include "data/text/vocabulary.h"

/* The first codes are those of these characters, whether they occur or not. */
enum { CODE_NEWLINE, CODE_RETURN, CODE_BLANK, CODE_TAB, CODES_FIXED };

struct encoder {
    const char *name; // of the corpus, for messages
    int level;        // LEVEL_CHAR: a symbol is a code point of UTF-8
    struct ids *ids;  // where codes go
    size_t length;    // of these
    size_t bytes;     // of the text, so far
    size_t codes;     // given so far

    int32_t *code_of;   // (end) code of a symbol plus 1; 0: none
    size_t end;         // a power of two
    int32_t alone[256]; // code of the symbol that is this one byte; -1: it has not occurred
};

/* Codes of a corpus `name` go to `ids`, which are empty. */
void encoder_start(struct encoder *encoder, const char *name, int level, struct ids *ids);

/* Encodes the next `count` bytes of the text, of which this is the last block or not, and returns
   how many of them are used: all, or of a block that is not the last one all but at most 3, with
   which the next block must start. Dies with status 1 if the text is not UTF-8 or has a NUL. */
size_t encoder_block(struct encoder *encoder, const unsigned char *block, size_t count, bool last);

/* Makes the vocabulary of the symbols whose codes are among the first `length` ids, and replaces
   each code by the symbol's id in this vocabulary, or in `known`. If the ids were not `edited`
   since they were encoded, it is known without a search which codes occur. Dies with status 1 if
   `known` lacks a symbol. Frees what the encoder keeps, but not the ids. */
void encoder_end(struct encoder *encoder, size_t length, bool edited,
                 const struct vocabulary *known, struct vocabulary *vocabulary);

#endif
