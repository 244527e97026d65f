/* Runs the passes of a formula (passes.h): a loop over rows for each step. */
#include "model/math/reduce.h"
#include "model/math/vecmath.h"
#include "model/norm/passes.h"
#include <string.h>

enum { CACHE = 8192, GROUP = 32 }; // reals that the first cache holds; rows

/* An operand of a loop over rows, each of n numbers: at x + row stride, where it has n numbers or, if
   it is not wide, one. */
struct operand {
    const real *x;
    size_t stride;
};

struct loop {
    size_t rows, n;
    real *y;
    size_t stride; // of y
    struct operand x[STEP_OPERANDS];
};

enum { B = 2, C = 4, D = 8, E = 16, F = 32 }; // bits of `wide`; a always is

/* y = a b c + d e + f. One copy of the loop for each set of wide operands. */
SIMD_INLINE void term_loop(const struct loop *l, int wide) {
    const size_t n = l->n;
    for (size_t row = 0; row < l->rows; row++) {
        const real *x[STEP_OPERANDS];
        for (int k = 0; k < STEP_OPERANDS; k++) x[k] = l->x[k].x + row * l->x[k].stride;
        real *y = l->y + row * l->stride;
        const real b = *x[1], c = *x[2], d = *x[3], e = *x[4], f = *x[5];
#pragma omp simd
        for (size_t i = 0; i < n; i++) {
            const real rest =
                mul_add(wide & D ? x[3][i] : d, wide & E ? x[4][i] : e, wide & F ? x[5][i] : f);
            y[i] = mul_add(x[0][i] * (wide & B ? x[1][i] : b), wide & C ? x[2][i] : c, rest);
        }
    }
}

static void term(const struct loop *l, int wide) {
    switch (wide & (B | C | D | E | F)) {
    case 0: term_loop(l, 0); break;
    case B: term_loop(l, B); break;
    case B | C: term_loop(l, B | C); break;
    case D: term_loop(l, D); break;
    case B | D: term_loop(l, B | D); break;
    case B | C | D: term_loop(l, B | C | D); break;
    case D | E: term_loop(l, D | E); break;
    case B | D | E: term_loop(l, B | D | E); break;
    case B | C | D | E: term_loop(l, B | C | D | E); break;
    case F: term_loop(l, F); break;
    case B | F: term_loop(l, B | F); break;
    case B | C | F: term_loop(l, B | C | F); break;
    case D | F: term_loop(l, D | F); break;
    case B | D | F: term_loop(l, B | D | F); break;
    case B | C | D | F: term_loop(l, B | C | D | F); break;
    case D | E | F: term_loop(l, D | E | F); break;
    case B | D | E | F: term_loop(l, B | D | E | F); break;
    default: term_loop(l, B | C | D | E | F); break;
    }
}

/* The sum along a row of a b c, each of which is wide or 1. */
static real row_sum_of(const struct loop *l, size_t row, int wide) {
    const real *a = l->x[0].x + row * l->x[0].stride, *b = l->x[1].x + row * l->x[1].stride;
    if (wide & C) return row_dot_product_about(l->n, a, b, l->x[2].x + row * l->x[2].stride, 0);
    return wide & B ? row_dot(l->n, a, b) : row_sum(l->n, a);
}

/* y (n) += a b c of each row */
SIMD_INLINE void add_rows_loop(const struct loop *l, int wide) {
    const size_t n = l->n;
    real *y = l->y;
    for (size_t row = 0; row < l->rows; row++) {
        const real *x[3];
        for (int k = 0; k < 3; k++) x[k] = l->x[k].x + row * l->x[k].stride;
        const real b = *x[1], c = *x[2];
#pragma omp simd
        for (size_t i = 0; i < n; i++)
            y[i] = mul_add(x[0][i] * (wide & B ? x[1][i] : b), wide & C ? x[2][i] : c, y[i]);
    }
}

static void add_rows(const struct loop *l, int wide) {
    if (wide & C)
        add_rows_loop(l, B | C);
    else if (wide & B)
        add_rows_loop(l, B);
    else
        add_rows_loop(l, 0);
}

/* ---- functions ---- */

SIMD_INLINE real exp_real(real x) {
    const real e = exp_nonpositive(x > 0 ? -x : x);
    return x > 0 ? 1 / e : e;
}

/* One copy of the loop for each function, and for each set of wide operands of max and >. */
SIMD_INLINE void function_loop(const struct loop *l, enum graph_op op, bool wide_a, bool wide_b) {
    const size_t n = l->n;
    for (size_t row = 0; row < l->rows; row++) {
        const real *p = l->x[0].x + row * l->x[0].stride, *q = l->x[1].x + row * l->x[1].stride;
        real *y = l->y + row * l->stride;
        const real first = *p, second = *q;
#pragma omp simd
        for (size_t i = 0; i < n; i++) {
            const real a = wide_a ? p[i] : first, b = wide_b ? q[i] : second;
            y[i] = op == G_MAX       ? (a > b ? a : b)
                   : op == G_GREATER ? (a > b ? 1 : 0)
                   : op == G_RECIP   ? 1 / a
                   : op == G_SQRT    ? sqrt_real(a)
                   : op == G_RSQRT   ? 1 / sqrt_real(a)
                   : op == G_EXP     ? exp_real(a)
                   : op == G_TANH    ? tanh_real(a)
                   : op == G_ERF     ? erf_real(a)
                   : op == G_SIGMOID ? sigmoid_real(a)
                                     : log_real(a);
        }
    }
}

SIMD_INLINE void pair(const struct loop *l, enum graph_op op, int wide) {
    if ((wide & 3) == 3)
        function_loop(l, op, true, true);
    else if (wide & 1)
        function_loop(l, op, true, false);
    else if (wide & 2)
        function_loop(l, op, false, true);
    else
        function_loop(l, op, false, false);
}

static void function(const struct loop *l, enum graph_op op, int wide) {
    switch (op) {
    case G_MAX: pair(l, G_MAX, wide); break;
    case G_GREATER: pair(l, G_GREATER, wide); break;
    case G_RECIP: function_loop(l, G_RECIP, true, true); break;
    case G_SQRT: function_loop(l, G_SQRT, true, true); break;
    case G_RSQRT: function_loop(l, G_RSQRT, true, true); break;
    case G_EXP: function_loop(l, G_EXP, true, true); break;
    case G_TANH: function_loop(l, G_TANH, true, true); break;
    case G_ERF: function_loop(l, G_ERF, true, true); break;
    case G_SIGMOID: function_loop(l, G_SIGMOID, true, true); break;
    default: function_loop(l, G_LOG, true, true); break;
    }
}

/* ---- a step ---- */

/* Where the values of a pass are, from a row to the next, and from a group's row to the same row of
   the pass: 0 in the thread's memory, which has one group. */
struct values {
    real *at[PASS_VALUES];
    size_t stride[PASS_VALUES], move[PASS_VALUES];
};

static void run_step(const struct pass_rows *r, const struct pass_step *s, const struct values *v,
                     struct range rows) {
    const size_t M = rows.end - rows.begin;
    const bool full = s->shape == SHAPE_FULL, sums = s->op == G_SUM_C || s->op == G_MAX_C;
    struct loop l = {.rows = full ? M : 1,
                     .n = s->shape & SHAPE_COL   ? r->C
                          : s->shape & SHAPE_ROW ? M
                                                 : 1};
    bool flat = full && s->op != G_SUM_B && !sums && v->stride[s->y] == r->C;
    l.y = v->at[s->y] + rows.begin * v->move[s->y], l.stride = v->stride[s->y];
    for (int k = 0; k < STEP_OPERANDS; k++) {
        const short x = s->x[k];
        const size_t stride = v->stride[x];
        l.x[k] = (struct operand){v->at[x] + rows.begin * v->move[x], stride};
        flat &= stride == (s->wide >> k & 1 ? r->C : 0);
    }
    if (flat) l.n = M * r->C, l.rows = 1; // all rows are one
    if (s->op == G_ADD)
        term(&l, s->wide);
    else if (s->op == G_SUM_B && full)
        add_rows(&l, s->wide);
    else if (s->op == G_SUM_B)
        *l.y += row_sum_of(&l, 0, s->wide);
    else if (sums)
        for (size_t row = 0; row < l.rows; row++)
            l.y[row] = s->op == G_SUM_C ? row_sum_of(&l, row, s->wide)
                                        : row_max(l.n, l.x[0].x + row * l.x[0].stride);
    else
        function(&l, s->op, s->wide);
}

/* ---- a pass ---- */

/* Columns and slots of the pass follow one another from `memory` on; slots have `group` rows. The
   last of the singles is the number of rows. */
static void find_values(const struct pass_rows *r, struct values *v, real *memory, size_t group,
                        real *singles) {
    const struct program_pass *pass = r->pass;
    const struct norm *norm = r->norm;
    real *slots = memory + (size_t)pass->columns * r->C;
    for (int i = 0; i < pass->values; i++) {
        const struct pass_value *value = &pass->value[i];
        const size_t k = (size_t)value->index, first = value->shape & SHAPE_COL ? r->first : 0;
        real **at = &v->at[i];
        v->stride[i] = 0;
        switch (value->place) {
        case AT_NUMBER: *at = (real *)r->numbers + k; break;
        case AT_HEIGHT: *at = singles + pass->singles; break;
        case AT_PARAM: *at = norm->param[k].value + first; break;
        case AT_STATE: *at = norm->state[k] + first; break;
        case AT_MEAN: *at = (real *)r->means + k * norm->C + first; break;
        case AT_X: *at = (real *)r->x, v->stride[i] = r->stride; break;
        case AT_DY: *at = (real *)r->dy, v->stride[i] = r->stride; break;
        case AT_OUT: *at = r->out, v->stride[i] = r->stride; break;
        case AT_SAVED: *at = r->saved + k * r->saved_stride, v->stride[i] = 1; break;
        case AT_SLOT: *at = slots + k * group * r->C, v->stride[i] = r->C; break;
        case AT_COLUMN: *at = memory + k * r->C; break;
        case AT_SINGLE: *at = singles + k; break;
        }
        v->move[i] = value->place == AT_SLOT ? 0 : v->stride[i];
    }
}

static void add_results(const struct pass_rows *r, const struct values *v, real *const *sum) {
    const struct program_pass *pass = r->pass;
    for (int k = pass->writes; k < pass->outputs; k++) {
        const bool wide = pass->shape[k] & SHAPE_COL;
        const bool each = pass->value[pass->result[k]].shape & SHAPE_COL;
        const real *from = v->at[pass->result[k]];
        real *to = sum[k - pass->writes] + (wide ? r->first : 0);
        for (size_t c = 0; c < (wide ? r->C : 1); c++) to[c] += from[each ? c : 0];
    }
}

void pass_run(const struct pass_rows *r, real *const *sum) {
    const struct program_pass *pass = r->pass;
    const size_t columns = (size_t)pass->columns * r->C, slots = (size_t)pass->slots * r->C;
    const size_t row = slots + 2 * r->C; // of which two are x and dy
    size_t group = size_min(GROUP, size_max(1, CACHE / row));
    real memory[PASS_MEMORY], singles[PASS_VALUES + 1] = {0};
    struct values v;
    if (slots * group + columns > PASS_MEMORY) group = 1;
    memset(memory, 0, columns * sizeof(real));
    singles[pass->singles] = (real)r->N;
    find_values(r, &v, memory, group, singles);
    for (int part = 0; part < 3; part++)
        for (size_t n = 0; n < (part == 1 ? r->N : 1); n += group) {
            const struct range rows = {n, part == 1 ? size_min(n + group, r->N) : 1};
            for (int s = pass->part[part]; s < pass->part[part + 1]; s++)
                run_step(r, &pass->step[s], &v, rows);
        }
    add_results(r, &v, sum);
}

bool program_fits(const struct program *p, size_t channels) {
    size_t most = (size_t)(p->curve.slots + p->curve.columns);
    for (int i = 0; i < PASSES; i++) {
        most = size_max(most, (size_t)(p->forward[i].slots + p->forward[i].columns));
        most = size_max(most, (size_t)(p->backward[i].slots + p->backward[i].columns));
    }
    return size_max(most, 1) * channels <= PASS_MEMORY;
}
