#include "data/text/ids.h"
#include "data/die.h"
#include <stdlib.h>
#include <string.h>

enum { PIECE = 4096, CHARACTER_BYTES = 4 };

void ids_get(const struct ids *ids, size_t first, size_t count, int32_t *restrict to) {
    const struct ids from = *ids;
    for (size_t i = 0; i < count; i++) to[i] = ids_at(&from, first + i);
}

void ids_put(struct ids *ids, size_t first, size_t count, const int32_t *restrict from) {
    const struct ids to = *ids;
    for (size_t i = 0; i < count; i++)
        if (to.width == 1)
            ((uint8_t *)to.data)[first + i] = (uint8_t)from[i];
        else if (to.width == 2)
            ((uint16_t *)to.data)[first + i] = (uint16_t)from[i];
        else
            ((int32_t *)to.data)[first + i] = from[i];
}

size_t ids_find(const struct ids *ids, size_t first, size_t end, int32_t id) {
    if (ids->width == 1) {
        const char *from = ids->data, *found = memchr(from + first, id, end - first);
        return found ? (size_t)(found - from) : end;
    }
    while (first < end && ids_at(ids, first) != id) first++;
    return first;
}

void ids_resize(struct ids *ids, size_t room) {
    if (!ids->width) ids->width = 1;
    ids->data = memory_grow(ids->data, room, ids->width, "the corpus");
    ids->room = room;
}

/* In place, piece by piece. Where ids become wider, the last piece comes first: piece k is written
   at or after its old place, over old places of pieces that are done. */
void ids_map(struct ids *ids, size_t count, const int32_t *map, size_t V) {
    int32_t piece[PIECE];
    struct ids mapped = {.data = ids->data, .width = ids_width(V), .room = ids->room};
    size_t pieces = (count + PIECE - 1) / PIECE;
    if (mapped.width > ids->width) ids_resize(&mapped, ids->room);
    ids->data = mapped.data;
    for (size_t n = 0; n < pieces; n++) {
        size_t first = (mapped.width > ids->width ? pieces - 1 - n : n) * PIECE;
        size_t length = count - first < PIECE ? count - first : PIECE;
        ids_get(ids, first, length, piece);
        for (size_t i = 0; map && i < length; i++) piece[i] = map[piece[i]];
        ids_put(&mapped, first, length, piece);
    }
    *ids = mapped;
}

void ids_free(struct ids *ids) {
    free(ids->data);
    *ids = (struct ids){0};
}

static const char fixed[CODES_FIXED] = {
    [CODE_NEWLINE] = '\n', [CODE_RETURN] = '\r', [CODE_BLANK] = ' ', [CODE_TAB] = '\t'};

/* The code of a symbol, which is a new one at its first occurrence. */
static int32_t code_of_symbol(struct encoder *encoder, int32_t symbol) {
    size_t end = encoder->end ? encoder->end : 128;
    while (end <= (size_t)symbol) end *= 2;
    if (end > encoder->end) {
        encoder->code_of =
            memory_grow(encoder->code_of, end, sizeof *encoder->code_of, "the corpus's vocabulary");
        memset(encoder->code_of + encoder->end, 0, (end - encoder->end) * sizeof *encoder->code_of);
        encoder->end = end;
    }
    if (!encoder->code_of[symbol]) encoder->code_of[symbol] = (int32_t)++encoder->codes;
    int32_t code = encoder->code_of[symbol] - 1;
    if (symbol < (encoder->level == LEVEL_BYTE ? 256 : 128)) encoder->alone[symbol] = code;
    return code;
}

void encoder_start(struct encoder *encoder, const char *name, int level, struct ids *ids) {
    *encoder = (struct encoder){.name = name, .level = level, .ids = ids};
    for (int i = 0; i < CODES_FIXED; i++) code_of_symbol(encoder, fixed[i]);
    memset(encoder->alone, -1, sizeof encoder->alone); // these have not occurred
}

/* Reads the symbol at block[*at], moves *at after it and returns its code. */
static int32_t read_symbol(struct encoder *encoder, const unsigned char *block, size_t count,
                           size_t *at) {
    size_t here = *at;
    int32_t symbol = vocabulary_symbol(encoder->level, block, count, at);
    if (symbol < 0)
        die(STATUS_MACHINE, "corpus: %s: not UTF-8 at byte %zu, 0x%02x (try --level=byte)",
            encoder->name, encoder->bytes + here, block[here]);
    if (symbol == 0 && encoder->level == LEVEL_CHAR)
        die(STATUS_MACHINE, "corpus: %s: a NUL byte at byte %zu, so not text (try --level=byte)",
            encoder->name, encoder->bytes + here);
    return code_of_symbol(encoder, symbol);
}

/* Adds codes to the ids, which become wider and longer where they must. */
static void add(struct encoder *encoder, const int32_t *codes, size_t count) {
    struct ids *ids = encoder->ids;
    if (encoder->length + count > ids->room)
        ids_resize(ids, ids->room ? ids->room + ids->room / 2 : 16 * PIECE);
    if (ids_width(encoder->codes) > ids->width) ids_map(ids, encoder->length, NULL, encoder->codes);
    ids_put(ids, encoder->length, count, codes);
    encoder->length += count;
}

size_t encoder_block(struct encoder *encoder, const unsigned char *block, size_t count, bool last) {
    size_t kept = last ? 0 : CHARACTER_BYTES - 1; // a character may continue in the next block
    size_t stop = count > kept ? count - kept : 0, at = 0;
    if (!encoder->bytes && encoder->level == LEVEL_CHAR && count >= 3 &&
        !memcmp(block, "\xef\xbb\xbf", 3))
        at = 3; // a byte order mark
    while (at < stop) {
        int32_t codes[PIECE];
        size_t n = 0;
        for (; n < PIECE && at < stop; n++) {
            int32_t code = encoder->alone[block[at]];
            if (code >= 0)
                at++;
            else
                code = read_symbol(encoder, block, count, &at);
            codes[n] = code;
        }
        add(encoder, codes, n);
    }
    encoder->bytes += at;
    return at;
}

void encoder_end(struct encoder *encoder, size_t length, const struct vocabulary *known,
                 struct vocabulary *vocabulary) {
    int32_t *id_of = memory_take(encoder->codes, sizeof *id_of, "the corpus's vocabulary");
    for (size_t i = 0; i < length; i++) id_of[ids_at(encoder->ids, i)] = 1; // it occurs
    for (size_t symbol = 0; symbol < encoder->end; symbol++) {
        int32_t *code = &encoder->code_of[symbol];
        if (*code && !id_of[*code - 1]) *code = 0;
    }
    vocabulary_make(vocabulary, encoder->level, encoder->code_of, encoder->end);
    for (size_t i = 0; i < vocabulary->V; i++) {
        uint32_t symbol = vocabulary->symbols[i];
        int32_t id = known ? vocabulary_id(known, symbol) : (int32_t)i;
        if (id < 0)
            die(STATUS_MACHINE, "corpus: %s: has %s, which the model's vocabulary lacks",
                encoder->name, vocabulary_name(encoder->level, symbol));
        id_of[encoder->code_of[symbol] - 1] = id;
    }
    ids_map(encoder->ids, length, id_of, known ? known->V : vocabulary->V);
    free(id_of);
    free(encoder->code_of);
}
