/* Memory outside of arenas: allocated, or the program ends with a line that says what it is for. */
#ifndef MEMORY_H
#define MEMORY_H

#include <stddef.h>

/* `count` objects of `size` bytes, zeroed. Dies with status 1 if there is not enough memory; `what`
   says in the message what it is for, as in "the corpus". The caller frees it. */
void *memory_take(size_t count, size_t size, const char *what);

/* The memory resized to `count` objects, as by realloc(): new objects are not zeroed, and NULL is
   memory of none. Dies as memory_take() does. */
void *memory_grow(void *memory, size_t count, size_t size, const char *what);

#endif
