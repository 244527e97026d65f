#include "data/memory.h"
#include "data/die.h"
#include <stdint.h>
#include <stdlib.h>

static _Noreturn void none(size_t count, size_t size, const char *what) {
    die(STATUS_MACHINE, "memory: not enough for %s: %.1f MiB", what,
        (double)count * (double)size / 1048576);
}

void *memory_take(size_t count, size_t size, const char *what) {
    void *memory = calloc(count ? count : 1, size ? size : 1);
    if (!memory) none(count, size, what);
    return memory;
}

void *memory_grow(void *memory, size_t count, size_t size, const char *what) {
    size_t bytes;
    void *grown = NULL;
    if (!__builtin_mul_overflow(count ? count : 1, size ? size : 1, &bytes))
        grown = realloc(memory, bytes);
    if (!grown) none(count, size, what);
    return grown;
}
