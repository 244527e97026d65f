/* Ids of a long text, stored in 1, 2 or 4 bytes each, as few as the largest id needs. Batches and
   callers get them as int32_t.

   They are made from the bytes of the text, block by block, in two steps. While the text is read,
   each symbol gets a code: numbers 0, 1, ... in the order of first occurrence. When all of it is
   read, its vocabulary is known, and codes become ids. So the text itself is not kept. */
#ifndef IDS_H
#define IDS_H

#include "data/text/vocabulary.h"

struct ids {
    void *data;   // uint8_t, uint16_t or int32_t, of which there is memory for `room`
    size_t width; // bytes of an id; 0: there is no memory yet
    size_t room;
};

/* The width of ids 0 .. V - 1. */
static inline size_t ids_width(size_t V) {
    return V <= 256 ? 1 : V <= 65536 ? 2 : 4;
}

static inline int32_t ids_at(const struct ids *ids, size_t i) {
    if (ids->width == 1) return ((const uint8_t *)ids->data)[i];
    if (ids->width == 2) return ((const uint16_t *)ids->data)[i];
    return ((const int32_t *)ids->data)[i];
}

/* Reads and writes ids first .. first + count - 1. What is written fits the width and the room. */
void ids_get(const struct ids *ids, size_t first, size_t count, int32_t *to);
void ids_put(struct ids *ids, size_t first, size_t count, const int32_t *from);

/* The first place of `id`, which fits the width, among ids first .. end - 1, or `end`. */
size_t ids_find(const struct ids *ids, size_t first, size_t end, int32_t id);

/* Gives the memory room for exactly `room` ids of the present width, initially of 1 byte. Dies
   with status 1 if there is not enough memory. */
void ids_resize(struct ids *ids, size_t room);

/* Replaces each of the first `count` ids by map[id], which is below V, and changes the width to
   that of V. map NULL: the ids stay as they are. */
void ids_map(struct ids *ids, size_t count, const int32_t *map, size_t V);

void ids_free(struct ids *ids);

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
   each code by the symbol's id in this vocabulary, or in `known`. Dies with status 1 if `known`
   lacks a symbol. Frees what the encoder keeps, but not the ids. */
void encoder_end(struct encoder *encoder, size_t length, const struct vocabulary *known,
                 struct vocabulary *vocabulary);

#endif
