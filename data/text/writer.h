/* Writes characters to a file as UTF-8. With LEVEL_BYTE, ids are bytes: those of a code point are
   held back until it is complete, and bytes that cannot become one are written as U+FFFD. */
#ifndef WRITER_H
#define WRITER_H

#include "data/text/vocabulary.h"
#include <stdio.h>

/* Set `vocabulary` and `file`, and the rest to 0. */
struct writer {
    const struct vocabulary *vocabulary;
    FILE *file;
    unsigned char held[4]; // bytes held back
    int count;             // of these
    uint32_t last;         // the code point that was written last
};

void writer_put(struct writer *writer, int32_t id);

/* Writes what is held back, as U+FFFD. */
void writer_end(struct writer *writer);

#endif
