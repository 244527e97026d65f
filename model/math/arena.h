/* An arena: one allocation, from which all buffers are taken before training.

   A function that takes memory from an arena runs twice. In the first pass arena_take() only counts
   bytes and returns NULL. Then arena_allocate() allocates them all at once. In the second pass the
   same calls return the pieces. */
#pragma once

#include "model/math/real.h"
#include <stddef.h>

struct arena {
    char *base;   // NULL while counting
    size_t used;  // bytes taken in this pass
    size_t bytes; // bytes allocated
};

/* `count` objects of `size` bytes, aligned to 64 bytes; NULL while counting. Dies with status 2 if
   the total exceeds what can be addressed. */
void *arena_take(struct arena *arena, size_t count, size_t size);

static inline real *arena_reals(struct arena *arena, size_t count) {
    return arena_take(arena, count, sizeof(real));
}

/* Allocates the bytes counted, all zero, and starts the second pass. Dies with status 1 if the
   machine has, or cgroups allow, less memory than all arenas together need. `what` names this arena
   in the message, as "the optimizer". */
void arena_allocate(struct arena *arena, const char *what);

void arena_free(struct arena *arena);
