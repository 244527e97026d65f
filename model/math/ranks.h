/* Ranks: processes that train one model together, over MPI. Each has the full model, and takes some
   parts of every batch (parts.h). Ranks exchange the sums of whole subtrees and add them in the
   tree's order, so the results have the same bits for any number of ranks.

   Without `make MPI=1` there is one rank, and nothing of MPI is compiled. All functions are called
   by all ranks, in the same order; those that say so by every thread of the team, the others
   outside of a team. */
#ifndef RANKS_H
#define RANKS_H

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

/* Rank r has written the elements of values (count) from ranks_cut(count, r).begin to before .end.
   Afterwards every rank has all elements. */
void ranks_share(double *values, size_t count);

/* Returns the stacks of all ranks, (all subtrees,size) in the order of the parts, from this rank's
   `stack` (height,size), which is complete after a barrier. The result is valid until the next
   call. Every thread of the team calls it. Contains barriers. */
const real *ranks_stacks(const struct parts *parts, const real *stack, size_t size);

/* Some elements of the slots of a gradient (slots,stride): slot 0 becomes the sum over all parts of
   the batch, by the time that ranks_sum_finish() returns. The first function is called by every
   thread of the team, contains a barrier, and does not wait for other ranks. The second is called
   outside of a team. */
void ranks_sum_start(const struct parts *parts, real *slots, size_t stride, struct range elements);
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
static inline void ranks_share(double *values, size_t count) {}
static inline const real *ranks_stacks(const struct parts *parts, const real *stack, size_t size) {
    return stack;
}
static inline void ranks_sum_start(const struct parts *parts, real *slots, size_t stride,
                                   struct range elements) {}
static inline void ranks_sum_finish(void) {}

#endif

/* The part of 0 .. count - 1 that belongs to rank number `rank`. If there are too few for all, the
   last ranks have none. */
static inline struct range ranks_cut(size_t count, size_t rank) {
    size_t each = count / ranks.count, more = count % ranks.count; // `more` have one more
    size_t begin = rank * each + size_min(rank, more);
    return (struct range){begin, begin + each + (rank < more ? 1 : 0)};
}

#endif
