/* The order of sums over the tokens of a batch.

   A batch is cut into parts, runs of full sequences. Inside a part a sum goes from row block to row
   block (team.h). The sums of parts are added in pairs, as a binary tree over the parts' numbers
   says, here for seven:

     0     1     2     3     4     5     6
      0..1        2..3        4..5       6
            0..3                   4..6
                      0..6

   The parts depend on the batch alone. So a sum has the same bits for any number of threads, and
   for any number of processes that each have full parts.

   A process takes its parts in order, and keeps a stack of sums: the subtrees that are complete. If
   it begins with part 0, slot 0 of the stack has 0..3 after part 3. Part 4 is summed in slot 1,
   part 5 in slot 2. Then slot 2 is added to slot 1, which has 4..5. A parameter's gradient is slot
   0.

   Threads share the rows of a part, or have whole parts of their own (parts_separate()). A thread
   with parts of its own keeps a stack of its own, as a process does, above what the process's stack
   has so far. Such a stack ends as one sum, and these sums are then joined in the tree's order. */
#ifndef PARTS_H
#define PARTS_H

#include "model/math/matmul.h"
#include "model/math/team.h"
#include "model/math/tensor.h"
#include <string.h>

enum { PARTS_MAX = 64, PARTS_HEIGHT = 12 }; // of a batch; of the stack, for any run of these parts

/* A run of a batch's rows, as a pass goes through them, and the parts that they belong to. All
   numbers are rows: tokens, or for norms inside heads the heads of tokens. */
struct parts {
    size_t rows;  // of the pass
    size_t first; // the pass's row 0 is this row of the batch
    size_t all;   // rows of the batch
    size_t each;  // rows of a part; the last part may have fewer
    size_t begin; // the process's first part
    bool shared;  // by ranks: other processes have the other parts
    size_t slots; // that gradients have
    // of a thread with parts of its own
    bool alone;
    size_t bottom; // the slot at the bottom of its stack
};

/* The rows of one part, or of a piece of it. */
struct parts_piece {
    struct range rows; // of the pass
    size_t slot;       // where the part is summed
    size_t merges;     // how often the top slot is added to the one below it after these rows
    bool from_zero;    // the slot starts from 0 here
    bool whole;        // a full part
};

/* A batch of N rows that is one part. */
static inline struct parts parts_one(size_t N) {
    return (struct parts){.rows = N, .all = N, .each = N};
}

/* The same parts with `times` rows for each row, such as heads. */
static inline struct parts parts_times(struct parts p, size_t times) {
    p.rows *= times, p.first *= times, p.all *= times, p.each *= times;
    return p;
}

/* The number of parts of a batch. */
static inline size_t parts_count(const struct parts *p) {
    return p->all ? (p->all + p->each - 1) / p->each : 0;
}

/* The end of the largest subtree that starts at part `at` and ends at `end` or before, of `count`
   parts. */
static inline size_t parts_subtree_end(size_t at, size_t end, size_t count) {
    size_t size = 1;
    while (at % (2 * size) == 0 && at + size < count && size_min(at + 2 * size, count) <= end)
        size *= 2;
    return size_min(at + size, count);
}

/* The number of subtrees, as large as possible, that the parts begin .. end - 1 are made of: the
   height of the stack of a process that has begun with part `begin`, after part end - 1. */
static inline size_t parts_height(size_t begin, size_t end, size_t count) {
    size_t height = 0;
    for (; begin < end; begin = parts_subtree_end(begin, end, count)) height++;
    return height;
}

/* The slot of the next subtree on that stack, and how often the top slot is then added to the one
   below it. */
struct parts_place {
    size_t slot, merges;
};

static inline struct parts_place parts_place(size_t begin, struct range subtree, size_t count) {
    size_t slot = parts_height(begin, subtree.begin, count);
    return (struct parts_place){slot, slot + 1 - parts_height(begin, subtree.end, count)};
}

/* The rows of the pass from `row` to before `end`, or the first of them that belong to one part. */
static inline struct parts_piece parts_piece(const struct parts *p, size_t row, size_t end) {
    size_t part = (p->first + row) / p->each;
    size_t part_end = size_min((part + 1) * p->each, p->all) - p->first; // as a row of the pass
    const struct range one = {part, part + 1};
    const struct parts_place place = parts_place(p->begin, one, parts_count(p));
    size_t slot = p->bottom + place.slot;
    bool starts = (p->first + row) % p->each == 0;
    return (struct parts_piece){.rows = {row, size_min(end, part_end)},
                                .slot = slot,
                                .merges = part_end <= end ? place.merges : 0,
                                .from_zero = starts && slot,
                                .whole = starts && part_end <= end};
}

/* The elements `own` of a parameter's gradient, before the piece's rows are added to them: where
   the piece's part is summed. */
static inline real *parts_start(const struct parts_piece *piece, const struct param *param,
                                struct range own) {
    real *sum = param_slot(param, piece->slot);
    if (piece->from_zero) memset(sum + own.begin, 0, (own.end - own.begin) * sizeof(real));
    return sum;
}

/* Puts the sum of a subtree, in slot `from`, in its place: adds slots that are complete to the ones
   below them. */
static inline void parts_put(const struct param *param, size_t from, struct parts_place place,
                             struct range own) {
    const real *sum = param_slot(param, from);
    if (!place.merges && from != place.slot)
        memcpy(param_slot(param, place.slot) + own.begin, sum + own.begin,
               (own.end - own.begin) * sizeof(real));
    for (size_t i = 1; i <= place.merges; i++) {
        real *to = param_slot(param, place.slot - i);
#pragma omp simd
        for (size_t c = own.begin; c < own.end; c++) to[c] += sum[c];
        sum = to;
    }
}

/* Completes the piece: call it after its rows have been added. */
static inline void parts_end(const struct parts_piece *piece, const struct param *param,
                             struct range own) {
    parts_put(param, piece->slot, (struct parts_place){piece->slot, piece->merges}, own);
}

/* Adds the sums over all row blocks of the pass to the gradient of `param`. Each row block's were
   written by the thread that has it, so a barrier comes before. Each thread adds its own
   elements. */
static inline void parts_add_sums(const struct parts *p, const struct param *param) {
    struct range own = team_part(param->size, 64 / sizeof(real));
    struct parts_piece piece;
    for (size_t row = 0; row < p->rows; row = piece.rows.end) {
        piece = parts_piece(p, row, p->rows);
        real *sum = parts_start(&piece, param, own);
        for (size_t n = row; n < piece.rows.end; n += ROWS) {
            const real *of_block = param_sums(param, n);
#pragma omp simd
            for (size_t c = own.begin; c < own.end; c++) sum[c] += of_block[c];
        }
        parts_end(&piece, param, own);
    }
}

/* ---- Threads with parts of their own ---- */

/* Whether the piece is a whole part that a product sums at once, and its slot is added to the one
   below it right away. Then the product may add to that one itself, with the same bits. */
static inline bool parts_adds_below(const struct parts_piece *piece) {
    return piece->whole && piece->merges && piece->rows.end - piece->rows.begin <= SUM_ROWS;
}

/* The slots that a sum over 2^k parts of `each` rows needs: one less if products add below. */
static inline size_t parts_stack(size_t count, size_t each) {
    size_t slots = each > SUM_ROWS || count == 1 ? 1 : 0;
    for (; count > 1; count /= 2) slots++;
    return slots;
}

/* The parts of the calling thread's rows, as team_part() splits the rows of the pass. */
static inline struct range parts_run(const struct parts *p, size_t thread, size_t threads) {
    struct range rows = team_part_of(thread, threads, p->rows, ROWS);
    return (struct range){(p->first + rows.begin) / p->each,
                          (p->first + rows.end + p->each - 1) / p->each};
}

/* The slot at the bottom of the stack of thread 1, 2 and so on. Thread 0 continues the
   process's. */
static inline size_t parts_bottom(const struct parts *p, size_t thread, size_t threads) {
    const struct range run = parts_run(p, 0, threads); // all are equally long
    return parts_height(p->begin, run.begin, parts_count(p)) +
           thread * parts_stack(run.end - run.begin, p->each);
}

/* Whether each thread's rows form one subtree of whole parts, all subtrees have the same height,
   and there are slots for them. */
static inline bool parts_separate(const struct parts *p, size_t threads) {
    const size_t count = parts_count(p), end = p->first + p->rows;
    if (threads == 1 || (end % p->each && end < p->all)) return false;
    bool separate = parts_bottom(p, threads, threads) <= p->slots;
    for (size_t thread = 0; thread < threads && separate; thread++) {
        const struct range run = parts_run(p, thread, threads), first = parts_run(p, 0, threads);
        struct range rows = team_part_of(thread, threads, p->rows, ROWS);
        separate = (p->first + rows.begin) % p->each == 0 &&
                   parts_height(run.begin, run.end, count) == 1 &&
                   run.end - run.begin == first.end - first.begin;
    }
    return separate;
}

/* The parts of the pass, limited to the calling thread's rows. */
static inline struct parts parts_alone(struct parts p, size_t thread, size_t threads) {
    if (thread > 0) {
        p.bottom = parts_bottom(&p, thread, threads);
        p.begin = parts_run(&p, thread, threads).begin;
    }
    p.alone = true;
    return p;
}

/* After all threads have summed: puts the elements `own` of their sums in the process's stack. */
static inline void parts_join(const struct parts *p, size_t threads, const struct param *param,
                              struct range own) {
    for (size_t thread = 1; thread < threads; thread++)
        parts_put(param, parts_bottom(p, thread, threads),
                  parts_place(p->begin, parts_run(p, thread, threads), parts_count(p)), own);
}

#endif
