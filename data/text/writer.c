#include "data/text/writer.h"
#include "data/text/utf8.h"
#include <string.h>

enum { REPLACEMENT = 0xfffd };

static void put(struct writer *writer, uint32_t code) {
    utf8_put(code, writer->file);
    writer->last = code;
}

/* Writes the held bytes of which it is certain what they become: complete code points, and bytes
   that start none. At the `end` this is certain of all. */
static void write_held(struct writer *writer, bool end) {
    while (writer->count) {
        size_t used = 0, count = (size_t)writer->count;
        int32_t code = utf8_decode(writer->held, count, &used);
        if (code < 0 && !end && utf8_begins(writer->held, count)) return;
        if (code < 0) used = 1;
        put(writer, code < 0 ? REPLACEMENT : (uint32_t)code);
        memmove(writer->held, writer->held + used, count - used);
        writer->count -= (int)used;
    }
}

void writer_put(struct writer *writer, int32_t id) {
    uint32_t symbol = writer->vocabulary->symbols[id];
    if (writer->vocabulary->level == LEVEL_CHAR) {
        put(writer, symbol);
        return;
    }
    writer->held[writer->count++] = (unsigned char)symbol;
    write_held(writer, false);
}

void writer_end(struct writer *writer) {
    write_held(writer, true);
}
