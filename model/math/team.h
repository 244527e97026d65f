/* How the threads of a team split the work of a pass over the model.

   A pass, such as model_forward(), model_backward() or optimizer_step(), opens one parallel region
   with team_run(). Every function called inside it is called by every thread of the team. Each
   thread does its own part, and calls team_barrier() before it reads what other threads wrote.

   Tokens are split in row blocks of ROWS tokens. Between two barriers a thread has the same rows in
   every operation. So it reads what it wrote itself, and a chain of operations can take a row block
   through all of them while the block is in the cache.

   Row blocks start at fixed places. Sums over tokens are made block by block, and the blocks' sums
   are added in an order of their own (parts.h). So the results are the same to the bit for any
   number of threads. */
#pragma once

#include "model/math/profile.h"
#include "model/math/real.h"
#include <omp.h>
#include <stddef.h>

enum {
    ROWS = 32,    // tokens in a row block
    CHUNK = 2048, // elements in a chunk of a tensor, where there are no tokens (the optimizer)
};

/* The integers from begin to end - 1: rows (tokens), channels, heads, or elements. */
struct range {
    size_t begin, end;
};

/* The work of a team: every thread calls it with the same argument. It ends with team_barrier(). */
typedef void team_work(void *argument);

/* Runs `work` in a team of `threads`. A team of one needs no parallel region, which would cost as
   much as a small model's step. */
void team_run(int threads, team_work *work, void *argument);

/* Waits until all threads of the team have called it: use team_barrier(). */
void team_wait(void);

static inline void team_barrier(void) {
    if (omp_get_num_threads() == 1) return;
    team_wait();
    profile_lap(PROFILE_WAIT);
}

/* The part of 0 .. count that belongs to thread number `thread` of `threads`, in full units. */
static inline struct range team_part_of(size_t thread, size_t threads, size_t count, size_t unit) {
    if (threads == 1) return (struct range){0, count}; // without divisions
    size_t units = (count + unit - 1) / unit;
    size_t begin = thread * units / threads * unit, end = (thread + 1) * units / threads * unit;
    return (struct range){size_min(begin, count), size_min(end, count)};
}

/* The part of 0 .. count that belongs to the calling thread; team_part(N, ROWS) are its rows. */
static inline struct range team_part(size_t count, size_t unit) {
    return team_part_of((size_t)omp_get_thread_num(), (size_t)omp_get_num_threads(), count, unit);
}

/* The calling thread's part of `rows`, in row blocks counted from rows.begin. */
static inline struct range team_part_rows(struct range rows) {
    struct range share = team_part(rows.end - rows.begin, ROWS);
    return (struct range){rows.begin + share.begin, rows.begin + share.end};
}

/* Whether every thread's part of `rows` consists of full units, such as sequences of T tokens,
   that start at multiples of `unit`. */
static inline bool team_parts_aligned(struct range rows, size_t unit) {
    size_t threads = (size_t)omp_get_num_threads();
    bool aligned = rows.end % unit == 0;
    for (size_t thread = 0; thread < threads; thread++) {
        struct range share = team_part_of(thread, threads, rows.end - rows.begin, ROWS);
        aligned &= share.begin == share.end || (rows.begin + share.begin) % unit == 0;
    }
    return aligned;
}

/* The number of row blocks of N tokens. */
static inline size_t team_row_blocks(size_t N) {
    return (N + ROWS - 1) / ROWS;
}

/* `count` rows from `begin` on, cut off where the rows `rows` end. */
static inline struct range team_rows(size_t begin, struct range rows, size_t count) {
    return (struct range){begin, rows.end - begin < count ? rows.end : begin + count};
}

/* The row block that starts at `begin`. */
static inline struct range team_row_block(size_t begin, struct range rows) {
    return team_rows(begin, rows, ROWS);
}
