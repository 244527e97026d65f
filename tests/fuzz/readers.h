/* What the program reads that somebody else may have written, a reader each: libFuzzer feeds them
   what it thinks of (make fuzz), tests/data/test_fuzz.c what is in regressions/. A reader takes the file
   as ./train does, which may die with a message, and aborts where what it took breaks its rules. */
#ifndef READERS_H
#define READERS_H

#include <stdbool.h>

struct reader {
    const char *name;
    void (*read)(const char *path);
    bool keeps; // memory stays in use when it is done
};

extern const struct reader readers[]; // up to one without a name

#endif
