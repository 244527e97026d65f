/* The order of sums over the tokens of a batch.

   A batch is cut into parts, runs of full sequences. Inside a part a sum goes from row block to row
   block (team.h). The sums of parts are added in pairs, in the order of a binary tree over the parts'
   numbers, here for seven:

     0     1     2     3     4     5     6
      0..1        2..3        4..5       6
            0..3                   4..6
                      0..6

   The parts depend on the batch alone, and a sum on the tree. So it has the same bits for any
   number of threads and of processes.

   Whoever sums a run of parts counts them in binary. After q parts its stack has one sum for each
   bit of q that is set, the largest first, and the next part is put on top:

     parts summed   q     stack
     1              001   0
     2              010   0..1
     3              011   0..1  2
     4              100   0..3
     5              101   0..3  4
     6              110   0..3  4..5
     7              111   0..3  4..5  6     the last: all are added, 0..6

   As 1 is added to q, each carry adds the top of the stack to the sum below it. So part q has the
   slot popcount(q) of the stack, and it is followed by as many additions as q ends in ones: part 5,
   101 in binary, has slot 2 and is followed by one. The last part of the run is followed by
   popcount(q) additions, which leave one sum. Slot 0 of a parameter's stack is its gradient.

   This is the tree's order for a run of 2^k parts that begins at a multiple of 2^k, or that the end
   of the batch cuts off. Processes have such runs of equal length, and so do threads that have whole
   parts of their own (parts_separate()); otherwise threads share the rows of a part. A run's sum is a
   node of the tree, so the sums of runs are added by the same rule as those of parts. */
#pragma once

#include "model/math/matmul.h"
#include "model/math/team.h"
#include "model/math/tensor.h"
#include <string.h>

enum { PARTS_MAX = 64, PARTS_HEIGHT = 7 }; // of a batch; of the stack for as many

/* A run of a batch's rows, as a pass goes through them, and the parts that they belong to. All
   numbers are rows: tokens, or for norms inside heads the heads of tokens. */
struct parts {
    size_t rows;      // of the pass
    size_t first;     // the pass's row 0 is this row of the batch
    size_t total;     // rows of the batch
    size_t size;      // rows of a part; the last part may have fewer
    struct range run; // the parts of the process, or of a thread with parts of its own
    bool shared;      // by ranks: other processes have the other parts
    size_t slots;     // that gradients have
    // of a thread with parts of its own
    bool alone;
    size_t bottom; // the slot at the bottom of its stack
};

/* The slot of a part, or of a run's sum, and how often the top slot is then added to the one below
   it. */
struct parts_place {
    size_t slot, merges;
};

/* Of number q = 0, 1, ... of equal runs. */
static inline struct parts_place parts_place_of(size_t q, bool last) {
    const size_t slot = (size_t)__builtin_popcountll(q);
    return (struct parts_place){slot, last ? slot : (size_t)__builtin_ctzll(q + 1)};
}

/* The rows of one part, or of a piece of it. */
struct parts_piece {
    struct range rows; // of the pass
    size_t slot;       // where the part is summed
    size_t merges;     // how often the top slot is added to the one below it after these rows
    bool from_zero;    // the slot starts from 0 here
    bool full;         // a full part
};

/* A batch of N rows that is one part. */
static inline struct parts parts_one(size_t N) {
    return (struct parts){.rows = N, .total = N, .size = N, .run = {0, 1}};
}

/* The same parts with `times` rows for each row, such as heads. */
static inline struct parts parts_times(struct parts p, size_t times) {
    p.rows *= times, p.first *= times, p.total *= times, p.size *= times;
    return p;
}

/* The number of parts of a batch. */
static inline size_t parts_count(const struct parts *p) {
    return p->total ? (p->total + p->size - 1) / p->size : 0;
}

/* The rows of the pass from `row` to before `end`, or the first of them that belong to one part. */
static inline struct parts_piece parts_piece_at(const struct parts *p, size_t row, size_t end) {
    size_t part = (p->first + row) / p->size;
    size_t part_end = size_min((part + 1) * p->size, p->total) - p->first; // as a row of the pass
    const struct parts_place place = parts_place_of(part - p->run.begin, part + 1 == p->run.end);
    size_t slot = p->bottom + place.slot;
    bool starts = (p->first + row) % p->size == 0;
    return (struct parts_piece){.rows = {row, size_min(end, part_end)},
                                .slot = slot,
                                .merges = part_end <= end ? place.merges : 0,
                                .from_zero = starts && slot,
                                .full = starts && part_end <= end};
}

/* The `elements` of a parameter's gradient, before the piece's rows are added to them: where the
   piece's part is summed. */
static inline real *parts_start(const struct parts_piece *piece, const struct param *param,
                                struct range elements) {
    real *sum = param_slot(param, piece->slot);
    if (piece->from_zero)
        memset(sum + elements.begin, 0, (elements.end - elements.begin) * sizeof(real));
    return sum;
}

/* Puts the sum of a run, in slot `from`, in its place, and adds slots to the ones below them. */
static inline void parts_put(const struct param *param, size_t from, struct parts_place place,
                             struct range elements) {
    const real *sum = param_slot(param, from);
    if (!place.merges && from != place.slot)
        memcpy(param_slot(param, place.slot) + elements.begin, sum + elements.begin,
               (elements.end - elements.begin) * sizeof(real));
    for (size_t i = 1; i <= place.merges; i++) {
        real *to = param_slot(param, place.slot - i);
#pragma omp simd
        for (size_t c = elements.begin; c < elements.end; c++) to[c] += sum[c];
        sum = to;
    }
}

/* Completes the piece: call it after its rows have been added. */
static inline void parts_end(const struct parts_piece *piece, const struct param *param,
                             struct range elements) {
    parts_put(param, piece->slot, (struct parts_place){piece->slot, piece->merges}, elements);
}

/* Adds the sums over all row blocks of the pass to the gradient of `param`. Each row block's were
   written by the thread that has it, so a barrier comes before. Each thread adds its own
   elements. */
static inline void parts_add_sums(const struct parts *p, const struct param *param) {
    struct range elements = team_part(param->size, 64 / sizeof(real));
    struct parts_piece piece;
    for (size_t row = 0; row < p->rows; row = piece.rows.end) {
        piece = parts_piece_at(p, row, p->rows);
        real *sum = parts_start(&piece, param, elements);
        for (size_t n = row; n < piece.rows.end; n += ROWS) {
            const real *of_block = param_sums(param, n);
#pragma omp simd
            for (size_t c = elements.begin; c < elements.end; c++) sum[c] += of_block[c];
        }
        parts_end(&piece, param, elements);
    }
}

/* ---- Threads with parts of their own ---- */

/* Whether the piece is a whole part that a product sums at once, and its slot is added to the one
   below it right away. Then the product may add to that one itself, with the same bits. */
static inline bool parts_adds_below(const struct parts_piece *piece) {
    return piece->full && piece->merges && piece->rows.end - piece->rows.begin <= SUM_ROWS;
}

/* The slots that a sum over 2^k parts of `size` rows needs: one less if products add below. */
static inline size_t parts_stack(size_t count, size_t size) {
    size_t slots = size > SUM_ROWS || count == 1 ? 1 : 0;
    for (; count > 1; count /= 2) slots++;
    return slots;
}

/* The number of parts of each thread if all have equally many whole ones: a power of 2, at
   multiples of which their runs begin. Otherwise 0. */
static inline size_t parts_of_thread(const struct parts *p, size_t threads) {
    const size_t first = p->first / p->size, end = p->first + p->rows;
    const size_t parts = (p->rows + p->size - 1) / p->size, count = parts / threads;
    bool even = p->first % p->size == 0 && (end % p->size == 0 || end == p->total);
    even &= count * threads == parts && (count & -count) == count && (first & (count - 1)) == 0;
    for (size_t thread = 1; thread < threads && even; thread++)
        even = team_part_of(thread, threads, p->rows, ROWS).begin == thread * count * p->size;
    return even ? count : 0;
}

/* The slot at the bottom of the stack of thread 1, 2 and so on, which have `count` parts each.
   Thread 0 continues the process's. */
static inline size_t parts_bottom(const struct parts *p, size_t thread, size_t count) {
    return parts_place_of(p->first / p->size - p->run.begin, false).slot +
           thread * parts_stack(count, p->size);
}

/* Whether threads have whole parts of their own, and there are slots for them. */
static inline bool parts_separate(const struct parts *p, size_t threads) {
    const size_t count = threads > 1 ? parts_of_thread(p, threads) : 0;
    return count && parts_bottom(p, threads, count) <= p->slots;
}

/* The parts of the pass, limited to the calling thread's. */
static inline struct parts parts_alone(struct parts p, size_t thread, size_t threads) {
    const size_t count = parts_of_thread(&p, threads), begin = p.first / p.size + thread * count;
    if (thread > 0) {
        p.bottom = parts_bottom(&p, thread, count);
        p.run = (struct range){begin, begin + count};
    }
    p.alone = true;
    return p;
}

/* After all threads have summed: puts the `elements` of their sums in the process's stack. */
static inline void parts_join(const struct parts *p, size_t threads, const struct param *param,
                              struct range elements) {
    const size_t count = parts_of_thread(p, threads), first = p->first / p->size - p->run.begin;
    for (size_t thread = 1; thread < threads; thread++) {
        const size_t q = first / count + thread; // of runs as long as a thread's
        const bool last = p->run.begin + (q + 1) * count >= p->run.end;
        parts_put(param, parts_bottom(p, thread, count), parts_place_of(q, last), elements);
    }
}
