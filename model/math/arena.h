/* Memory is laid out before training by functions that run twice over the same arena: the first
   pass only counts, arena_allocate() gets the whole at once, the second pass hands the pieces out.
 */
#ifndef ARENA_H
#define ARENA_H

#include "model/math/real.h"
#include <stddef.h>

struct arena {
    char *base;   // NULL while counting
    size_t used;  // bytes handed out
    size_t bytes; // bytes allocated
};

/* `count` objects of `size` bytes, aligned to 64 bytes; NULL while counting. A total that no
   address space holds dies with status 2. */
void *arena_take(struct arena *arena, size_t count, size_t size);

static inline real *arena_reals(struct arena *arena, size_t count) {
    return arena_take(arena, count, sizeof(real));
}

/* Allocates what was counted, zeroed, and starts the second pass. If the machine has not as much
   memory it dies with status 1 and says so before anything is touched. */
void arena_allocate(struct arena *arena, const char *what);

void arena_free(struct arena *arena);

#endif
