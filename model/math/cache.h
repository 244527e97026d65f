/* What is about to be read in pieces, fetched in order. */
#ifndef CACHE_H
#define CACHE_H

#include "model/math/real.h"
#include <stddef.h>

/* Reads through x (count), so that it lies in the second-level cache. Memory gives what is read in
   order several times as fast as the strips and heads in which products read it, since the
   processor sees what comes next. More than a good part of such a cache is left alone. */
static inline void cache_fetch(size_t count, const real *x) {
    enum { LINE = 64 / sizeof(real), MOST = (1 << 19) / sizeof(real) };
    if (count > MOST) return;
    for (size_t i = 0; i < count; i += LINE) (void)*(const volatile real *)(x + i);
}

#endif
