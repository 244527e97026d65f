/* Memory outside of arenas: it is there, or the program ends with one line that says for what. */
#ifndef MEMORY_H
#define MEMORY_H

#include <stddef.h>

/* `count` objects of `size` bytes, zeroed; dies with status 1 if there is not as much memory. `what`
   names them in the message, as "the corpus". The caller frees them. */
void *memory_take(size_t count, size_t size, const char *what);

/* The same objects in `count` places instead of fewer; new places are not zeroed. */
void *memory_grow(void *memory, size_t count, size_t size, const char *what);

#endif
