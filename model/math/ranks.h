/* Ranks: processes that train one model together, over MPI. Each has the full model, and takes some
   run of parts of every batch (parts.h). Ranks exchange the sums of their runs and add them in the
   tree's order, so the results have the same bits for any number of ranks.

   Without `make MPI=1` there is one rank, and nothing of MPI is compiled. All functions are called
   by all ranks, in the same order; those that say so by every thread of the team, the others
   outside of a team. */
#pragma once

#include "model/math/parts.h"
#include <stdint.h>

enum { RANKS_MAX = 1024 };

struct ranks {
    size_t count;
    size_t number; // of this process, from 0
    size_t here;   // on this machine
};

#ifdef MPI

/* Call it before any other of these functions. A rank that dies from now on ends all ranks: with
   one line of the first rank if all die at the same time, else with a line that names the rank. */
void ranks_start(int *argc, char ***argv);

extern struct ranks ranks;

/* Return the value of rank 0, and the largest value of any rank. */
int ranks_first(int value);
int ranks_largest(int value);

/* Returns when every rank has called it. */
void ranks_wait(void);

/* Replaces the numbers by those of rank 0. */
void ranks_copy_first(real *numbers, size_t count);

/* Dies with status 2, and names the rank, if a checksum is not that of rank 0. */
void ranks_check(const char *what, uint32_t checksum);

/* Rank r has written the elements of values (count) from r `per_rank` to before (r + 1) `per_rank`.
   Afterwards every rank has all elements. */
void ranks_share(double *values, size_t count, size_t per_rank);

/* The sums of the ranks that have some of a batch's parts, (ranks,size) in the order of the ranks,
   from this rank's `sum` (size), which is complete after a barrier. The result is valid until the
   next call. Every thread of the team calls it. Contains barriers. */
const real *ranks_gather(size_t parts, const real *sum, size_t size);

/* Some elements of a gradient, the sum over this rank's parts of a batch: becomes the sum over all
   parts, by the time that ranks_sum_finish() returns. The first function is called by every thread
   of the team, contains a barrier, and does not wait for other ranks. The second is called outside
   of a team. */
void ranks_sum_start(size_t parts, real *grad, struct range elements);
void ranks_sum_finish(void);

#else

static const struct ranks ranks = {.count = 1, .here = 1};
static inline void ranks_start(int *argc, char ***argv) {}
static inline int ranks_first(int value) {
    return value;
}
static inline int ranks_largest(int value) {
    return value;
}
static inline void ranks_wait(void) {}
static inline void ranks_copy_first(real *numbers, size_t count) {}
static inline void ranks_check(const char *what, uint32_t checksum) {}
static inline void ranks_share(double *values, size_t count, size_t per_rank) {}
static inline const real *ranks_gather(size_t parts, const real *sum, size_t size) {
    return sum;
}
static inline void ranks_sum_start(size_t parts, real *grad, struct range elements) {}
static inline void ranks_sum_finish(void) {}

#endif

/* How many of a batch's parts a rank takes: as few as there can be if it is a power of 2, as
   parts.h wants. The last rank that has parts may have fewer. */
static inline size_t ranks_each(size_t parts) {
    size_t per_rank = 1;
    while (per_rank * ranks.count < parts) per_rank *= 2;
    return per_rank;
}

/* How many ranks have parts, and the parts of a rank. */
static inline size_t ranks_busy(size_t parts) {
    const size_t per_rank = ranks_each(parts);
    return (parts + per_rank - 1) / per_rank;
}

static inline struct range ranks_parts(size_t parts, size_t rank) {
    const size_t per_rank = ranks_each(parts), begin = size_min(rank * per_rank, parts);
    return (struct range){begin, size_min(begin + per_rank, parts)};
}
