/* safetensors files as ./train writes them: a JSON header, then named arrays. See safetensors.c for the
   format; scripts/load_pytorch.py reads those of other programs. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The types of elements: those that are written here. */
enum stored_type { STORED_F32, STORED_F64, STORED_I64 };

enum { STORED_DIMENSIONS = 8 }; // the maximum number

/* An array, row-major. */
struct stored {
    const char *name;
    int type; // an enum stored_type
    int dimensions;
    size_t shape[STORED_DIMENSIONS];
    const void *data;    // only for writing: the elements
    uint64_t begin, end; // only after reading: its bytes, counted from the end of the header
};

/* A text about the file, in the member `__metadata__` of the header. */
struct stored_text {
    const char *name, *text;
};

/* A file that is open for reading; or, with only the last four members, one to be written. */
struct safetensors {
    FILE *stream;
    const char *path;    // for messages, not owned
    char *header;        // names and texts point into it; NULL: safetensors_close() frees them
    bool header_checked; // the header has a checksum, which is right
    bool data_checked;   // the data has one too, which is right
    uint64_t first;      // the byte at which the arrays start
    struct stored_text *texts;
    struct stored *arrays; // by name; of a file to be written in the order of their bytes
    size_t text_count, array_count;
};

/* Adds an array or a text. Of a file to be written, safetensors_close() frees the array's name and
   the text. */
void safetensors_add(struct safetensors *file, struct stored array);
void safetensors_add_text(struct safetensors *file, const char *name, char *text);

/* Writes the file to `stream`. The caller checks for write errors. */
void safetensors_write(const struct safetensors *file, FILE *stream);

/* Opens the file, reads its header, and checks that the file obeys every rule of the format. If it
   has checksums, reads the complete file once to check them. Dies with status 1 and says what is
   wrong. */
void safetensors_open(struct safetensors *file, const char *path);

void safetensors_close(struct safetensors *file);

/* The text or array of this name, or NULL. */
const char *safetensors_text(const struct safetensors *file, const char *name);
const struct stored *safetensors_find(const struct safetensors *file, const char *name);

size_t stored_count(const struct stored *array); // of elements
size_t stored_bytes(const struct stored *array); // of all of them

/* Reads the array's elements as float (STORED_F32), double (STORED_F64) or int64_t (STORED_I64,
   with INT64_MIN for a value that is not an integer). Dies with status 1 if the file ends early. */
void safetensors_read(const struct safetensors *file, const struct stored *array,
                      enum stored_type as, void *to);
