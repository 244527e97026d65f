/* The order of sums over a batch's parts (parts.h) against the tree as it is defined, by recursion:
   a node of 2^k parts begins at a multiple of 2^k, the batch's last part ends it early, and its sum
   is that of its left half plus that of its right half. */
#include "model/math/parts.h"
#include "tests/support.h"

enum { SLOTS = 16 }; // more than any stack needs

enum { EACH = 3, COLUMNS = 2, SUMMED = 20, ROWS_MOST = SUMMED * EACH }; // rows of a part; parts

struct sum {
    real of[COLUMNS];
};

/* Of the node of `size` parts, of the rows (rows,COLUMNS). */
static struct sum tree_sum(size_t begin, size_t size, size_t rows, const real *values) {
    struct sum sum = {{0}};
    const size_t middle = begin + size / 2;
    if (size == 1) {
        for (size_t n = begin * EACH; n < size_min((begin + 1) * EACH, rows); n++)
            for (size_t c = 0; c < COLUMNS; c++) sum.of[c] += values[n * COLUMNS + c];
        return sum;
    }
    sum = tree_sum(begin, size / 2, rows, values);
    if (middle * EACH >= rows) return sum;
    struct sum right = tree_sum(middle, size / 2, rows, values);
    for (size_t c = 0; c < COLUMNS; c++) sum.of[c] += right.of[c];
    return sum;
}

/* What a process with the parts of `run` does, in passes of up to `pass` rows: the sum is in slot
   0. */
static void run_sum(struct range run, size_t rows, size_t pass, const real *values,
                    const struct param *stack) {
    const struct range columns = {0, COLUMNS};
    size_t end = size_min(run.end * EACH, rows);
    memset(stack->grad, 0, SLOTS * stack->stride * sizeof(real));
    for (size_t first = run.begin * EACH; first < end; first += pass) {
        struct parts p = {.rows = size_min(pass, end - first),
                          .first = first,
                          .total = rows,
                          .size = EACH,
                          .run = run,
                          .shared = true};
        struct parts_piece piece;
        for (size_t row = 0; row < p.rows; row = piece.rows.end) {
            piece = parts_piece_at(&p, row, p.rows);
            real *sum = parts_start(&piece, stack, columns);
            for (size_t n = row; n < piece.rows.end; n++)
                for (size_t c = 0; c < COLUMNS; c++) sum[c] += values[(first + n) * COLUMNS + c];
            parts_end(&piece, stack, columns);
        }
    }
}

/* Fails unless processes with `size` parts, except for the last, have together the tree's sum. They
   add their sums as ranks.c does. */
static void check_runs(size_t run_parts, size_t rows, const real *values) {
    const size_t count = (rows + EACH - 1) / EACH, runs = (count + run_parts - 1) / run_parts;
    real slots[2][SLOTS * COLUMNS];
    const struct param stack = {.grad = slots[0], .stride = COLUMNS};
    const struct param param = {.grad = slots[1], .stride = COLUMNS};
    struct sum want = tree_sum(0, 32, rows, values);
    for (size_t pass = 1; pass <= 2 * EACH + 1; pass += 2) { // also ends inside parts
        for (size_t i = 0; i < runs; i++) {
            const struct range run = {i * run_parts, size_min((i + 1) * run_parts, count)};
            const struct parts_place place = parts_place_of(i, i + 1 == runs);
            run_sum(run, rows, pass, values, &stack);
            memcpy(param_slot(&param, place.slot), stack.grad, sizeof(struct sum));
            parts_put(&param, place.slot, place, (struct range){0, COLUMNS});
        }
        cr_expect(!memcmp(slots[1], &want, sizeof want), "%zu rows in runs of %zu parts", rows,
                  run_parts);
    }
}

Test(parts, sum_of_runs_is_that_of_the_tree) {
    real *values = random_reals(ROWS_MOST * COLUMNS, 21);
    for (size_t rows = 1; rows <= ROWS_MOST; rows++) // the last part may be smaller
        for (size_t run_parts = 1; run_parts <= 32; run_parts *= 2)
            check_runs(run_parts, rows, values);
}

/* 4 parts of a pass are two for each of 2 threads, in one slot each. */
Test(parts, threads_with_parts_of_their_own) {
    struct parts p = {.rows = 768, .total = 768, .size = 192, .run = {0, 4}, .slots = 2};
    cr_expect(parts_separate(&p, 2) && !parts_separate(&p, 1) && !parts_separate(&p, 3));
    cr_expect(!parts_separate(&p, 4), "four slots");
    p.slots = 4;
    cr_expect(parts_separate(&p, 4));
    p.total = 1152, p.run.end = 6, p.first = 384; // parts 2 to 5
    cr_expect(parts_separate(&p, 2) && !parts_separate(&p, 3));
    p.first = 192; // 1 and 2, 3 and 4 are no nodes of the tree
    cr_expect(!parts_separate(&p, 2));
    p.first = 96; // starts inside a part
    cr_expect(!parts_separate(&p, 2));
}
