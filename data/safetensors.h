/* Writes a safetensors file: named arrays behind a JSON header. See safetensors.c. */
#ifndef SAFETENSORS_H
#define SAFETENSORS_H

#include <stddef.h>
#include <stdio.h>

enum stored_type { STORED_F32, STORED_F64, STORED_I64 };

/* An array to store, row-major. */
struct stored {
    const char *name;
    enum stored_type type;
    int dimensions;
    size_t shape[2];
    const void *data;
};

/* A text about the file, under `__metadata__`. */
struct stored_text {
    const char *name, *text;
};

/* Writes the file to `stream`; the caller looks for write errors. */
void safetensors_write(FILE *stream, const struct stored_text *texts, size_t text_count,
                       const struct stored *arrays, size_t array_count);

#endif
