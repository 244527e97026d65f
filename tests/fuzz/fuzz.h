/* A reader for each kind of file that somebody else may have written, and files that broke one or
   might: libFuzzer starts with these and feeds the readers inputs of its own (make fuzz), and
   tests/data/test_readers.c reads them. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/* It takes the file as ./train does. It may die with a message, and it aborts if what it accepted
   breaks a rule. */
struct reader {
    const char *name;
    void (*read)(const char *path);
    bool keeps; // memory stays in use when it is done
};

extern const struct reader readers[]; // up to one without a name

/* A damaged file, and what its reader says of it. */
struct file_case {
    const char *reader, *content;
    size_t size, zeros;  // bytes of `content`, and bytes of zero that follow
    const char *problem; // the end of the message; NULL: the file is accepted
};

extern const struct file_case file_cases[]; // up to one without a reader

/* Writes the file. The header of a safetensors file is preceded by its length. */
void file_case_write(const struct file_case *one, FILE *file);
