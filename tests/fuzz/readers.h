/* A reader for each kind of file that somebody else may have written: libFuzzer feeds it inputs of
   its own (make fuzz), and tests/data/test_damage.c those of cases.h. A reader takes the file as
   ./train does. It may die with a message, and it aborts if what it accepted breaks a rule. */
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
