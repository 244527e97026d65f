/* Elementwise loops are shared out over the threads in blocks of a fixed size. A compiler may
   contract other products in the vector body of a loop than in its scalar end, so where the ends
   lie must not depend on the number of threads:

     #pragma omp parallel for
     for (size_t begin = 0; begin < count; begin += BLOCK) {
         size_t end = block_end(begin, count);
     #pragma omp simd
         for (size_t i = begin; i < end; i++) ... */
#ifndef BLOCKS_H
#define BLOCKS_H

#include <stddef.h>

enum { BLOCK = 2048 };

static inline size_t block_end(size_t begin, size_t count) {
    return count - begin < BLOCK ? count : begin + BLOCK;
}

#endif
