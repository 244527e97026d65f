/* Fetching an array into the cache, in order, before it is read in pieces. */
#ifndef CACHE_H
#define CACHE_H

#include "model/math/real.h"
#include <stddef.h>

/* Reads one element per cache line of x (rows,columns), with row stride `row`, so that x is in the
   second-level cache afterwards. Products read their operands in strips or by heads, in an order
   that the processor does not predict; an array that is read from start to end is prefetched and
   arrives several times as fast. An array above half a MiB would fill a good part of that cache and
   is left alone. */
static inline void cache_fetch_rows(size_t rows, size_t columns, const real *x, size_t row) {
    enum { LINE = 64 / sizeof(real), COUNT_MAX = (1 << 19) / sizeof(real) };
    if (rows * columns > COUNT_MAX) return;
    for (size_t n = 0; n < rows; n++)
        for (size_t i = 0; i < columns; i += LINE) (void)*(const volatile real *)(x + n * row + i);
}

/* As cache_fetch_rows(), for an array without gaps. */
static inline void cache_fetch(size_t count, const real *x) {
    cache_fetch_rows(1, count, x, count);
}

#endif
