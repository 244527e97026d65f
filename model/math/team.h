/* How threads share a pass over the model.

   A pass, such as model_forward(), model_backward() or adam_step(), opens one parallel region (none
   for a team of one), and everything below it is called by every thread of the team: each thread
   does its own share, and calls team_barrier() where it needs what others made. Tokens are shared
   out in blocks of ROWS rows. From one barrier to the next a thread has the same rows in every
   operation, so that it meets again what it wrote, and a chain of operations runs block by block
   while the rows lie in the cache.

   Blocks have fixed places, and sums over tokens are made block by block and added in order, so no
   bit depends on the number of threads. */
#ifndef TEAM_H
#define TEAM_H

#include "model/math/profile.h"
#include "model/math/real.h"
#include <omp.h>
#include <stddef.h>

enum {
    ROWS = 32,    // tokens in a block
    CHUNK = 2048, // elements in a block of a loop that knows no tokens
};

/* Tokens begin .. end, or whatever is shared out; a block begins at a multiple of ROWS. */
struct range {
    size_t begin, end;
};

static inline size_t team_row_blocks(size_t N) {
    return (N + ROWS - 1) / ROWS;
}

/* What every thread of a team does with the same argument. It ends with team_barrier(). */
typedef void team_work(void *argument);

/* Runs `work` in a team of `threads`. A team of one needs no parallel region, which would cost as
   much as a small model's step. */
void team_run(int threads, team_work *work, void *argument);

/* Waits until all threads of the team are here. */
void team_wait(void);

static inline void team_barrier(void) {
    if (omp_get_num_threads() == 1) return;
    team_wait();
    profile_lap(PROFILE_WAIT);
}

/* The share of one of so many threads of 0 .. count, in whole units. */
static inline struct range team_part_of(size_t thread, size_t threads, size_t count, size_t unit) {
    size_t units = (count + unit - 1) / unit;
    size_t begin = thread * units / threads * unit, end = (thread + 1) * units / threads * unit;
    return (struct range){begin < count ? begin : count, end < count ? end : count};
}

/* The calling thread's share. */
static inline struct range team_part(size_t count, size_t unit) {
    return team_part_of((size_t)omp_get_thread_num(), (size_t)omp_get_num_threads(), count, unit);
}

/* The calling thread's share of some rows, in blocks counted from the first of them. */
static inline struct range team_part_rows(struct range all) {
    struct range own = team_part(all.end - all.begin, ROWS);
    return (struct range){all.begin + own.begin, all.begin + own.end};
}

/* Whether every thread's share of them is made of whole units, counted from 0. */
static inline bool team_parts_whole(struct range all, size_t unit) {
    size_t threads = (size_t)omp_get_num_threads();
    bool whole = all.end % unit == 0;
    for (size_t thread = 0; thread < threads; thread++) {
        struct range own = team_part_of(thread, threads, all.end - all.begin, ROWS);
        whole &= own.begin == own.end || (all.begin + own.begin) % unit == 0;
    }
    return whole;
}

/* The block that starts at `begin`. */
static inline struct range team_row_block(size_t begin, struct range own) {
    return (struct range){begin, own.end - begin < ROWS ? own.end : begin + ROWS};
}

/* Sums over tokens of `columns` quantities: partial (team_row_blocks(N),columns) has a row for each
   block, written by the thread that owns it. Adds them to sum (columns), each thread its own
   columns; after a barrier. */
static inline void team_add_blocks(size_t N, size_t columns, real *sum, const real *partial) {
    struct range own = team_part(columns, 64 / sizeof(real));
    for (size_t block = 0; block < team_row_blocks(N); block++)
#pragma omp simd
        for (size_t c = own.begin; c < own.end; c++) sum[c] += partial[block * columns + c];
}

#endif
