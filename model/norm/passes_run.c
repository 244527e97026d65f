/* Runs the passes of a formula (passes.h): a loop over rows and channels for each step. */
#include "model/math/reduce.h"
#include "model/math/vecmath.h"
#include "model/norm/passes.h"
#include <string.h>

enum { CACHE = 8192, GROUP = 32 }; // reals that the first cache holds; rows

/* A step for some rows of n channels. The next row of a FULL value is `stride` reals further on. */
struct loop {
    const struct pass_step *step;
    real *const *at; // the pass's values
    size_t rows, n, stride;
};

/* ---- sums and products ----

   These loops go down the rows of a vector of channels, then of the next one: what is the same for all
   rows is loaded once, and no row has anything to prepare, which counts where it has two vectors.
   The sets of operands that occur most have a copy of the loop each, others share one. */

enum { FIXED = 0, ROW = SHAPE_ROW, FULL = SHAPE_FULL };

SIMD_INLINE vec load(const real *x, size_t lanes) {
    return lanes < LANES ? vec_load_first(x, lanes) : vec_load(x);
}

SIMD_INLINE void store(real *y, vec v, size_t lanes) {
    lanes < LANES ? vec_store_first(y, v, lanes) : vec_store(y, v);
}

/* y = a b c + d e + f, or summed over rows y += a b c, for `lanes` channels from c on. */
SIMD_INLINE void column(const struct loop *l, int vary, bool sum, size_t c, size_t lanes) {
    const int operands = sum ? 3 : STEP_OPERANDS;
    const size_t rows = l->rows, stride = l->stride;
    const real *from[STEP_OPERANDS];
    vec x[STEP_OPERANDS];
    real *y = l->at[l->step->y] + c;
    vec rest = sum ? load(y, lanes) : vec_splat(0);
    for (int k = 0; k < operands; k++) {
        const enum graph_shape shape = l->step->of[k];
        from[k] = l->at[l->step->x[k]] + (shape & SHAPE_COL ? c : 0);
        x[k] = shape == SHAPE_COL ? load(from[k], lanes) : vec_splat(*from[k]);
    }
    for (size_t row = 0; row < rows; row++) {
        for (int k = 0; k < operands; k++) {
            const int how = vary >> 2 * k & 3;
            if (how == FULL) x[k] = load(from[k] + row * stride, lanes);
            if (how == ROW) x[k] = vec_splat(from[k][row]);
        }
        if (!sum) rest = vec_mul_add(x[3], x[4], x[5]);
        rest = vec_mul_add(x[0] * x[1], x[2], rest);
        if (!sum) store(y + row * stride, rest, lanes);
    }
    if (sum) store(y, rest, lanes);
}

SIMD_INLINE void columns(const struct loop *l, int vary, bool sum) {
    for (size_t c = 0; c + LANES <= l->n; c += LANES) column(l, vary, sum, c, LANES);
}

SIMD_INLINE void with_f(const struct loop *l, int vary) {
    switch (l->step->vary >> 10) {
    case FIXED: columns(l, vary, false); break;
    case ROW: columns(l, vary | ROW << 10, false); break;
    default: columns(l, vary | FULL << 10, false);
    }
}

SIMD_INLINE void with_d_e(const struct loop *l, int vary) {
    if (l->step->op == G_SUM_B)
        columns(l, vary, true);
    else
        switch (l->step->vary >> 6 & 15) {
        case FIXED: with_f(l, vary); break;
        case ROW: with_f(l, vary | ROW << 6); break;
        case FULL: with_f(l, vary | FULL << 6); break;
        case FULL | ROW << 2: with_f(l, vary | FULL << 6 | ROW << 8); break;
        default: columns(l, l->step->vary, false); // any set
        }
}

static void products(const struct loop *l) {
    const size_t rest = l->n % LANES;
    switch (l->step->vary & 63) {
    case FIXED: with_d_e(l, FIXED); break;
    case ROW: with_d_e(l, ROW); break;
    case FULL: with_d_e(l, FULL); break;
    case FULL | ROW << 2: with_d_e(l, FULL | ROW << 2); break;
    case FULL | FULL << 2: with_d_e(l, FULL | FULL << 2); break;
    case FULL | FULL << 2 | ROW << 4: with_d_e(l, FULL | FULL << 2 | ROW << 4); break;
    default: columns(l, l->step->vary, l->step->op == G_SUM_B);
    }
    if (rest) column(l, l->step->vary, l->step->op == G_SUM_B, l->n - rest, rest);
}

/* The sum along each row of a, a b or a b c. */
SIMD_INLINE void row_sums(const struct loop *l, real *y, int factors) {
    const real *x[3];
    size_t stride[3];
    for (int k = 0; k < 3; k++)
        x[k] = l->at[l->step->x[k]], stride[k] = l->step->of[k] == SHAPE_FULL ? l->stride : 0;
    for (size_t row = 0; row < l->rows; row++) {
        const real *a = x[0] + row * stride[0], *b = x[1] + row * stride[1];
        y[row] = factors == 3   ? row_dot_product_about(l->n, a, b, x[2] + row * stride[2], 0)
                 : factors == 2 ? row_dot(l->n, a, b)
                                : row_sum(l->n, a);
    }
}

static void add_channels(const struct loop *l, real *y) {
    if (l->step->of[2] & SHAPE_COL)
        row_sums(l, y, 3);
    else if (l->step->of[1] & SHAPE_COL)
        row_sums(l, y, 2);
    else
        row_sums(l, y, 1);
}

/* ---- functions ---- */

SIMD_INLINE real exp_real(real x) {
    const real e = exp_nonpositive(x > 0 ? -x : x);
    return x > 0 ? 1 / e : e;
}

/* From a row of an operand to the next. */
SIMD_INLINE size_t stride_of(const struct loop *l, enum graph_shape shape) {
    return shape == SHAPE_FULL ? l->stride : shape == SHAPE_ROW;
}

/* One copy of the loop for each function, and for each set of wide operands of max and >. */
SIMD_INLINE void function_loop(const struct loop *l, enum graph_op op, bool wide_a, bool wide_b) {
    const real *of_a = l->at[l->step->x[0]], *of_b = l->at[l->step->x[1]];
    const size_t stride_a = stride_of(l, l->step->of[0]), stride_b = stride_of(l, l->step->of[1]);
    real *to = l->at[l->step->y];
    const bool flat = stride_a == l->n && stride_b == l->n && l->stride == l->n;
    const size_t rows = flat ? 1 : l->rows, n = flat ? l->rows * l->n : l->n;
    for (size_t row = 0; row < rows; row++) {
        const real *p = of_a + row * stride_a, *q = of_b + row * stride_b;
        real *y = to + row * l->stride;
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

SIMD_INLINE void pair(const struct loop *l, enum graph_op op) {
    const bool a = l->step->of[0] & SHAPE_COL, b = l->step->of[1] & SHAPE_COL;
    if (a && b)
        function_loop(l, op, true, true);
    else if (a)
        function_loop(l, op, true, false);
    else if (b)
        function_loop(l, op, false, true);
    else
        function_loop(l, op, false, false);
}

static void function(const struct loop *l) {
    switch (l->step->op) {
    case G_MAX: pair(l, G_MAX); break;
    case G_GREATER: pair(l, G_GREATER); break;
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

/* ---- a pass ---- */

static void run_step(const struct pass_rows *r, const struct pass_step *s, real *const *at,
                     size_t rows) {
    const size_t n = s->shape & SHAPE_COL ? r->C : s->shape & SHAPE_ROW ? rows : 1;
    const struct loop l = {s, at, s->shape == SHAPE_FULL ? rows : 1, n, r->stride};
    real *y = at[s->y], sum;
    switch (s->op) {
    case G_SUM_C: add_channels(&l, y); break;
    case G_MAX_C:
        for (size_t row = 0; row < l.rows; row++)
            y[row] = row_max(n, at[s->x[0]] + row * stride_of(&l, s->of[0]));
        break;
    case G_SUM_B:
        if (s->shape == SHAPE_FULL) {
            products(&l);
        } else {
            add_channels(&l, &sum);
            *y += sum;
        }
        break;
    case G_ADD: products(&l); break;
    default: function(&l);
    }
}

/* Columns and slots of the pass follow one another from `memory` on; slots have `group` rows. The
   last of the singles is the number of rows. */
static void find_values(const struct pass_rows *r, real **at, real *memory, size_t group,
                        real *singles) {
    const struct program_pass *pass = r->pass;
    const struct norm *norm = r->norm;
    real *slots = memory + (size_t)pass->columns * r->C;
    for (int i = 0; i < pass->values; i++) {
        const struct pass_value *value = &pass->value[i];
        const size_t k = (size_t)value->index, first = value->shape & SHAPE_COL ? r->first : 0;
        switch (value->place) {
        case AT_NUMBER: at[i] = (real *)r->numbers + k; break;
        case AT_HEIGHT: at[i] = singles + pass->singles; break;
        case AT_PARAM: at[i] = norm->param[k].value + first; break;
        case AT_STATE: at[i] = norm->state[k] + first; break;
        case AT_MEAN: at[i] = (real *)r->means + k * norm->C + first; break;
        case AT_X: at[i] = (real *)r->x; break;
        case AT_DY: at[i] = (real *)r->dy; break;
        case AT_OUT: at[i] = r->out; break;
        case AT_SAVED: at[i] = r->saved + k * r->saved_stride; break;
        case AT_SLOT: at[i] = slots + k * group * r->stride; break;
        case AT_COLUMN: at[i] = memory + k * r->C; break;
        case AT_SINGLE: at[i] = singles + k; break;
        }
    }
}

/* From a group of rows to the next. */
static void move_on(const struct pass_rows *r, real **at, size_t rows) {
    for (int i = 0; i < r->pass->values; i++) {
        const struct pass_value *value = &r->pass->value[i];
        if (value->place == AT_SLOT) continue;
        at[i] += value->shape == SHAPE_FULL  ? rows * r->stride
                 : value->shape == SHAPE_ROW ? rows
                                             : 0;
    }
}

static void add_results(const struct pass_rows *r, real *const *at, real *const *sum) {
    const struct program_pass *pass = r->pass;
    for (int k = pass->writes; k < pass->outputs; k++) {
        const bool wide = pass->shape[k] & SHAPE_COL;
        const bool each = pass->value[pass->result[k]].shape & SHAPE_COL;
        const real *from = at[pass->result[k]];
        real *to = sum[k - pass->writes] + (wide ? r->first : 0);
        for (size_t c = 0; c < (wide ? r->C : 1); c++) to[c] += from[each ? c : 0];
    }
}

void pass_run(const struct pass_rows *r, real *const *sum) {
    const struct program_pass *pass = r->pass;
    const size_t columns = (size_t)pass->columns * r->C, slots = (size_t)pass->slots * r->stride;
    const size_t row = slots + 2 * r->stride; // of which two are x and dy
    size_t group = size_min(GROUP, size_max(1, CACHE / row));
    real memory[PASS_MEMORY], singles[PASS_VALUES + 1] = {0}, *at[PASS_VALUES];
    if (slots * group + columns > PASS_MEMORY) group = 1;
    memset(memory, 0, columns * sizeof(real));
    singles[pass->singles] = (real)r->N;
    find_values(r, at, memory, group, singles);
    for (int part = 0; part < 3; part++)
        for (size_t n = 0; n < (part == 1 ? r->N : 1); n += group) {
            if (n) move_on(r, at, group);
            for (int s = pass->part[part]; s < pass->part[part + 1]; s++)
                run_step(r, &pass->step[s], at, size_min(group, r->N - n));
        }
    add_results(r, at, sum);
}

bool program_fits(const struct program *p, size_t channels) {
    size_t most = (size_t)(p->curve.slots + p->curve.columns);
    for (int i = 0; i < PASSES; i++) {
        most = size_max(most, (size_t)(p->forward[i].slots + p->forward[i].columns));
        most = size_max(most, (size_t)(p->backward[i].slots + p->backward[i].columns));
    }
    return size_max(most, 1) * channels <= PASS_MEMORY;
}
