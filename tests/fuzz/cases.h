/* Files that broke a reader of readers.h or might, and what it says of each. `make test` reads them
   (tests/data/test_damage.c), and libFuzzer starts with them (fuzz.c). */
#ifndef CASES_H
#define CASES_H

#include <stdbool.h>
#include <stdio.h>

struct file_case {
    const char *reader, *content;
    size_t size, zeros;  // bytes of `content`, and bytes of zero that follow
    const char *problem; // the end of the message; NULL: the file is accepted
};

extern const struct file_case file_cases[]; // up to one without a reader

/* Writes the file. The header of a safetensors file is preceded by its length. */
void file_case_write(const struct file_case *one, FILE *file);

#endif
