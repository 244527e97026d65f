/* safetensors files: named arrays behind a JSON header. See safetensors.c. */
#ifndef SAFETENSORS_H
#define SAFETENSORS_H

#include "data/files/element.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { STORED_DIMENSIONS = 8 }; // at most

/* An array, row-major. */
struct stored {
    const char *name;
    int type; // an enum stored_type
    int dimensions;
    size_t shape[STORED_DIMENSIONS];
    const void *data;    // to write
    uint64_t begin, end; // where it lies in the file that it was found in, behind the header
};

/* A text about the file, under `__metadata__`. */
struct stored_text {
    const char *name, *text;
};

/* Writes the file to `stream`; the caller looks for write errors. */
void safetensors_write(FILE *stream, const struct stored_text *texts, size_t text_count,
                       const struct stored *arrays, size_t array_count);

/* A file that is open for reading. */
struct safetensors {
    FILE *stream;
    const char *path; // for messages, not owned
    char *header;     // names and texts lie in it
    bool sealed;      // it has a checksum, which was right: no bit of the header is another
    bool data_sealed; // so has its data, and no bit of it is another
    uint64_t first;   // where the arrays begin
    struct stored_text *texts; // by name
    size_t text_count;
    struct stored *arrays;       // as they lie in the file
    const struct stored **named; // the same by name
    size_t array_count;
};

/* Opens the file and reads its header, and all of it once where it has a checksum. Everything is
   checked before it is believed: a file that breaks a rule of the format dies with status 1, and
   the message says which. */
void safetensors_open(struct safetensors *file, const char *path);

/* The same from a stream that is open and can be sought in. */
void safetensors_open_stream(struct safetensors *file, const char *path, FILE *stream);

void safetensors_close(struct safetensors *file);

/* NULL if the file has none of this name. */
const char *safetensors_text(const struct safetensors *file, const char *name);
const struct stored *safetensors_find(const struct safetensors *file, const char *name);

size_t stored_count(const struct stored *array); // of elements
bool stored_is_numeric(const struct stored *array);
const char *stored_type_name(const struct stored *array);

/* The array's elements as float (STORED_F32), double (STORED_F64) or int64_t (STORED_I64, INT64_MIN
   for what is no integer); dies with status 1 if the file ends early. */
void safetensors_read(const struct safetensors *file, const struct stored *array,
                      enum stored_type as, void *to);

#endif
