/* Pieces are aligned to cache lines. A large arena asks the system for huge pages, which make
   it miss fewer translations of addresses. */
#include "model/math/arena.h"
#include "data/die.h"
#include "model/math/cgroup.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    ALIGNMENT = 64,
    HUGE_PAGE = 1 << 21, // pages of this size are requested for arenas at least as large
};

void *arena_take(struct arena *arena, size_t count, size_t size) {
    size_t bytes, used;
    if (__builtin_mul_overflow(count, size, &bytes) ||
        __builtin_add_overflow(bytes, ALIGNMENT - 1, &bytes) ||
        __builtin_add_overflow(arena->used, bytes / ALIGNMENT * ALIGNMENT, &used) ||
        used > PTRDIFF_MAX)
        die(STATUS_USAGE,
            "memory: these sizes need more than a program of %zu bits can address (try a smaller "
            "--batch-size, --block-size, --n-embd or --n-layer)",
            8 * sizeof(void *));
    void *piece = arena->base ? arena->base + arena->used : NULL;
    arena->used = used;
    return piece;
}

static size_t allocated; // bytes, by all arenas

void arena_allocate(struct arena *arena, const char *what) {
    const double machine = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    const double allowed = cgroup_memory(""), gib = 1024.0 * 1024 * 1024;
    const double usable = fmin(machine, allowed);
    if ((double)arena->used + (double)allocated > usable)
        die(STATUS_MACHINE,
            "memory: %s needs %.1f GiB beside %.1f GiB in use, but %s %.1f GiB "
            "(try a smaller --batch-size, --block-size, --n-embd or --n-layer)",
            what, (double)arena->used / gib, (double)allocated / gib,
            allowed < machine ? "the cgroup of this process may have" : "this machine has",
            usable / gib);
    arena->bytes = arena->used;
    allocated += arena->bytes;
    arena->used = 0;
    size_t alignment = arena->bytes < HUGE_PAGE ? ALIGNMENT : HUGE_PAGE;
    size_t rounded = (arena->bytes + alignment - 1) / alignment * alignment;
    arena->base = aligned_alloc(alignment, rounded ? rounded : alignment);
    if (!arena->base)
        die(STATUS_MACHINE, "memory: cannot allocate %.1f GiB for %s", (double)arena->bytes / gib,
            what);
#ifdef MADV_HUGEPAGE
    if (alignment == HUGE_PAGE) madvise(arena->base, arena->bytes, MADV_HUGEPAGE);
#endif
    memset(arena->base, 0, arena->bytes);
}

void arena_free(struct arena *arena) {
    free(arena->base);
    allocated -= arena->bytes;
    *arena = (struct arena){0};
}
