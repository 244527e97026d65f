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

/* What a process with the parts of `run` does, in passes of up to `pass` rows: its stack. */
static void stack_sum(struct range run, size_t rows, size_t pass, const real *values,
                      const struct param *stack) {
    const struct range own = {0, COLUMNS};
    size_t end = size_min(run.end * EACH, rows);
    memset(stack->grad, 0, SLOTS * stack->stride * sizeof(real));
    for (size_t first = run.begin * EACH; first < end; first += pass) {
        struct parts p = {.rows = size_min(pass, end - first),
                          .first = first,
                          .all = rows,
                          .each = EACH,
                          .begin = run.begin,
                          .shared = true};
        struct parts_piece piece;
        for (size_t row = 0; row < p.rows; row = piece.rows.end) {
            piece = parts_piece(&p, row, p.rows);
            real *sum = parts_start(&piece, stack, own);
            for (size_t n = row; n < piece.rows.end; n++)
                for (size_t c = 0; c < COLUMNS; c++) sum[c] += values[(first + n) * COLUMNS + c];
            parts_end(&piece, stack, own);
        }
    }
}

/* Adds a process's stack to that of all processes, which begins with part 0, as ranks.c does. */
static void add_stack(struct range run, size_t count, const struct param *stack,
                      const struct param *all) {
    struct range tree = run;
    for (size_t slot = 0; tree.begin < run.end; tree.begin = tree.end, slot++) {
        tree.end = parts_subtree_end(tree.begin, run.end, count);
        struct parts_place place = parts_place(0, tree, count);
        memcpy(param_slot(all, place.slot), param_slot(stack, slot), sizeof(struct sum));
        struct parts_piece piece = {.slot = place.slot, .merges = place.merges};
        parts_end(&piece, all, (struct range){0, COLUMNS});
    }
}

/* Fails unless the runs 0 .. one - 1, one .. two - 1, and the rest have together the tree's sum. */
static void check_cut(size_t one, size_t two, size_t rows, const real *values) {
    const size_t count = (rows + EACH - 1) / EACH;
    const struct range run[] = {{0, one}, {one, two}, {two, count}};
    real slots[2][SLOTS * COLUMNS];
    const struct param stack = {.grad = slots[0], .stride = COLUMNS};
    const struct param all = {.grad = slots[1], .stride = COLUMNS};
    struct sum want = tree_sum(0, 32, rows, values);
    for (size_t pass = 1; pass <= 2 * EACH + 1; pass += 2) { // also ends inside parts
        for (size_t i = 0; i < sizeof run / sizeof *run; i++) {
            stack_sum(run[i], rows, pass, values, &stack);
            add_stack(run[i], count, &stack, &all);
        }
        cr_expect(!memcmp(slots[1], &want, sizeof want), "%zu rows cut at %zu and %zu", rows, one,
                  two);
    }
}

Test(parts, sum_of_any_runs_is_that_of_the_tree) {
    real *values = random_reals(ROWS_MOST * COLUMNS, 21);
    for (size_t rows = 1; rows <= ROWS_MOST; rows++) { // the last part may be smaller
        size_t count = (rows + EACH - 1) / EACH;
        for (size_t one = 0; one <= count; one++)
            for (size_t two = one; two <= count; two++) check_cut(one, two, rows, values);
    }
}

/* 4 parts of a pass are two for each of 2 threads, in one slot each. */
Test(parts, threads_with_parts_of_their_own) {
    struct parts p = {.rows = 768, .all = 768, .each = 192, .slots = 2};
    cr_expect(parts_separate(&p, 2) && !parts_separate(&p, 1) && !parts_separate(&p, 3));
    cr_expect(!parts_separate(&p, 4), "four slots");
    p.slots = 4;
    cr_expect(parts_separate(&p, 4));
    p.all = 960, p.first = 96; // starts inside a part
    cr_expect(!parts_separate(&p, 2));
}
