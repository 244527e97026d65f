/* Symbols are found by binary search. Writing holds back the bytes of a code point that is not
   complete yet: at LEVEL_BYTE a model may write any bytes. */
#include "data/text/vocabulary.h"
#include "data/die.h"
#include <stdlib.h>
#include <string.h>

void vocabulary_free(struct vocabulary *vocabulary) {
    free(vocabulary->symbols);
    *vocabulary = (struct vocabulary){0};
}

char *vocabulary_text(const struct vocabulary *vocabulary) {
    enum { LENGTH_MAX = 8 }; // of " 1114111"
    char *text = memory_take(vocabulary->V + 1, LENGTH_MAX, "the vocabulary"), *end = text;
    for (size_t i = 0; i < vocabulary->V; i++)
        end += snprintf(end, LENGTH_MAX + 1, i ? " %u" : "%u", vocabulary->symbols[i]);
    return text;
}

bool vocabulary_parse(struct vocabulary *vocabulary, int level, const char *text) {
    const uint32_t end = level == LEVEL_BYTE ? 256 : CODE_POINTS;
    size_t count = 1; // of symbols, at most
    for (const char *c = text; *c; c++) count += *c == ' ';
    *vocabulary = (struct vocabulary){
        .level = level, .symbols = memory_take(count, sizeof(uint32_t), "the vocabulary")};
    for (const char *c = text;; c++) {
        size_t digits = strspn(c, "0123456789"), V = vocabulary->V;
        uint32_t symbol = digits && digits < 8 ? (uint32_t)strtoul(c, NULL, 10) : end;
        bool surrogate = level == LEVEL_CHAR && symbol >= 0xd800 && symbol < 0xe000;
        if (symbol >= end || surrogate || (V && symbol <= vocabulary->symbols[V - 1])) break;
        vocabulary->symbols[vocabulary->V++] = symbol;
        c += digits;
        if (!*c) return true;
        if (*c != ' ') break;
    }
    vocabulary_free(vocabulary);
    return false;
}

static int by_value(const void *one, const void *other) {
    const uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    return (a > b) - (a < b);
}

int32_t vocabulary_id(const struct vocabulary *v, uint32_t symbol) {
    const uint32_t *found = bsearch(&symbol, v->symbols, v->V, sizeof symbol, by_value);
    return found ? (int32_t)(found - v->symbols) : -1;
}

const char *vocabulary_name(int level, uint32_t symbol) {
    static char name[32];
    char character[5] = "";
    const bool control = symbol <= ' ' || (symbol >= 0x7f && symbol < 0xa0);
    utf8_encode(symbol, character);
    snprintf(name, sizeof name,
             level == LEVEL_BYTE ? "byte 0x%02x"
             : control           ? "U+%04X"
                                 : "U+%04X (%s)",
             symbol, character);
    return name;
}

/* A first byte that starts no code point is certain when four bytes are held or at the end. */
void writer_flush(struct writer *writer, bool end) {
    while (writer->count) {
        size_t used = 0, count = (size_t)writer->count;
        int32_t code = utf8_decode(writer->held, count, &used);
        if (code < 0 && !end && count < sizeof writer->held) return;
        if (code < 0) used = 1;
        utf8_put(code < 0 ? UTF8_REPLACEMENT : (uint32_t)code, writer->file);
        memmove(writer->held, writer->held + used, count - used);
        writer->count -= (int)used;
    }
}

void writer_put(struct writer *writer, int32_t id) {
    uint32_t symbol = writer->vocabulary->symbols[id];
    if (writer->vocabulary->level == LEVEL_CHAR) {
        utf8_put(symbol, writer->file);
        return;
    }
    if (writer->exact) {
        fputc((int)symbol, writer->file);
        return;
    }
    writer->held[writer->count++] = (unsigned char)symbol;
    writer_flush(writer, false);
}
