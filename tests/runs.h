/* A run in memory, and files that a test reads and writes. Whatever is missing or malformed fails the
   test. */
#pragma once

#include "data/files/safetensors.h"
#include <stdbool.h>
#include <stddef.h>

/* A run in memory that these options give, separated by blanks, before its first update: its
   corpus, its model, and a batch of its size. */
struct session;
void memory_start(struct session *t, const char *options);
void memory_end(struct session *t);

/* ---- JSON that the program wrote (tests in Python check that it is well-formed) ---- */

/* The value of a member of the object at the start of `object`, or NULL if there is no such
   member. */
const char *json_member(const char *object, const char *name);

/* True if the value is this string or, where `text` has no quotes, this number or word. */
bool json_is(const char *value, const char *text);

/* ---- Safetensors files that a test writes ---- */

/* Writes a file of these texts and arrays. */
void stored_write(const char *path, const struct stored_text *texts, size_t text_count,
                  const struct stored *arrays, size_t array_count);
