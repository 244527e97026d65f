/* Safetensors files that a test writes, and files in memory that it opens. */
#ifndef STORED_FILE_H
#define STORED_FILE_H

#include "data/files/safetensors.h"
#include <stddef.h>
#include <stdint.h>

/* Writes a file of these texts and arrays. Returns its bytes, the length of its header, and its
   size. */
char *stored_write(const struct stored_text *texts, size_t text_count, const struct stored *arrays,
                   size_t array_count, uint64_t *header, size_t *size);

/* A file in memory that is opened. */
struct opening {
    const char *bytes;
    size_t size;
    struct safetensors file;
};

/* Opens the file. Returns NULL on success, else the reason, with everything closed. */
const char *opening_problem(struct opening *opening);

#endif
