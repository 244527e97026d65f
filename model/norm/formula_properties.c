/* What a formula computes, found by trying it out in double (formula.h). */
#include "data/die.h"
#include "model/norm/formula.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* y (N,C) of x (N,C), with parameters 0.7 and more. */
static void try_out(const struct norm *norm, size_t N, size_t C, const double *x, double *y) {
    const struct graph *g = &norm->formula->graph;
    double option[KIND_OPTIONS] = {0}, param[NORM_TENSORS][8];
    double *value = memory_take((size_t)g->count * N * C, sizeof *value, "a formula");
    struct graph_input in = {.N = N, .C = C, .x = x, .option = option};
    for (int i = 0; norm->kind->options[i]; i++)
        option[i] = norm->kind->options[i]->kind == OPTION_REAL ? norm->option[i].real
                                                                : (double)norm->option[i].integer;
    for (int i = 0; i < NORM_TENSORS; i++) {
        for (size_t c = 0; c < C; c++) param[i][c] = 0.7 + 0.1 * (double)c;
        in.param[i] = param[i];
    }
    graph_values(g, &in, value);
    memcpy(y, value + (size_t)norm->formula->y * N * C, N * C * sizeof *y);
    free(value);
}

/* ---- what changes nothing ---- */

enum { TOKENS = 4, WIDTH = 6 };

/* The largest difference, for numbers larger than 1 relative to them, that the change makes in y;
   NAN where y is none. */
static double difference(const struct norm *norm, enum formula_change change) {
    double x[2][TOKENS * WIDTH], y[2][TOKENS * WIDTH], most = 0;
    for (int i = 0; i < TOKENS * WIDTH; i++) {
        const bool of_token = change == SHIFT_OF_TOKEN || change == SCALE_OF_TOKEN;
        const double by = 0.6 + 0.4 * (of_token ? i / WIDTH : i % WIDTH);
        const bool shift = change == SHIFT_OF_TOKEN || change == SHIFT_OF_CHANNEL;
        x[0][i] = 1.5 * sin(1 + 7.3 * i * i) + 0.3;
        x[1][i] = shift ? x[0][i] + by : x[0][i] * (1 + by);
    }
    for (int k = 0; k < 2; k++) try_out(norm, TOKENS, WIDTH, x[k], y[k]);
    for (int i = 0; i < TOKENS * WIDTH; i++) {
        const double d = fabs(y[1][i] - y[0][i]) / fmax(1, fabs(y[0][i]));
        if (!(d <= most)) most = d;
        if (isnan(most)) break;
    }
    return most;
}

enum formula_effect formula_effect(const struct norm *norm, enum formula_change change) {
    struct norm exact = *norm;
    const double d = difference(norm, change);
    if (isnan(d)) return EFFECT_UNKNOWN;
    if (d < 1e-9) return EFFECT_NONE;
    for (int i = 0; norm->kind->options[i]; i++)
        if (norm->kind->options[i] == &norm_eps) exact.option[i].real = 1e-40;
    return difference(&exact, change) < 1e-9 ? EFFECT_OF_EPS : EFFECT_SOME;
}

/* ---- what is no number ---- */

/* Writes the operation of node n on these numbers. */
static void write_operation(char *text, size_t size, const struct graph_node *n, double a,
                            double b) {
    static const char *const form[G_OPS] = {
        [G_ADD] = "%g + %g",   [G_MUL] = "%g * %g",  [G_RECIP] = "1 / %g",
        [G_SQRT] = "sqrt(%g)", [G_EXP] = "exp(%g)",  [G_RSQRT] = "1 / sqrt(%g)",
        [G_LOG] = "log(%g)",   [G_SUM_C] = "sum_c",  [G_MAX_C] = "max_c",
        [G_SUM_B] = "sum_n",   [G_MEAN_N] = "mean_n"};
    snprintf(text, size, form[n->op] ? form[n->op] : "a function of %g", a, b);
}

/* The first of these nodes of which an element is not finite as a real, and that element; or -1. */
static int first_fault(const struct graph *g, const bool *node, size_t count, const double *value,
                       size_t *element) {
    for (int i = 0; i < g->count; i++)
        for (*element = 0; node[i] && *element < count; ++*element)
            if (!isfinite((real)value[(size_t)i * count + *element])) return i;
    return -1;
}

bool formula_fault(const struct norm *norm, size_t N, const real *x, const real *dy,
                   const char **operation) {
    static char text[64];
    const struct formula *f = formula_of(norm->kind);
    const size_t C = norm->C, count = N * C;
    if (!f || f->groups) return false;
    struct graph *g = memory_take(1, sizeof *g, "a formula");
    int of[GRAPH_NODES];
    *g = f->graph;
    if (dy) graph_differentiate(g, f->y, of);
    double *value =
        memory_take(((size_t)g->count + 2 + NORM_TENSORS) * count, sizeof *value, "a formula");
    double *in_x = value + (size_t)g->count * count, *in_dy = in_x + count, *param = in_dy + count;
    double option[KIND_OPTIONS] = {0};
    struct graph_input in = {.N = N, .C = C, .x = in_x, .dy = in_dy, .option = option};
    for (size_t i = 0; i < count; i++) in_x[i] = (double)x[i], in_dy[i] = dy ? (double)dy[i] : 0;
    for (int i = 0; norm->kind->options[i]; i++) option[i] = formula_option(norm, i);
    for (int i = 0; norm->kind->param[i].name; i++, param += C) {
        in.param[i] = param;
        for (size_t c = 0; c < (norm->kind->param[i].scalar ? 1 : C); c++)
            param[c] = (double)norm->param[i].value[c];
    }
    graph_values(g, &in, value);
    size_t e = 0;
    bool result[GRAPH_NODES] = {0}, needed[GRAPH_NODES] = {0};
    for (int i = 0; i < f->graph.count; i++) {
        const enum graph_op op = g->node[i].op;
        if (!dy) result[i] = i == f->y;
        if (dy && (op == G_X || op == G_PARAM) && of[i] >= 0) result[of[i]] = true;
    }
    int fault = first_fault(g, result, count, value, &e);
    if (fault >= 0) graph_mark(g, fault, needed), fault = first_fault(g, needed, count, value, &e);
    const bool found = fault >= 0 && !graph_is_leaf(g, fault);
    if (found) {
        const struct graph_node *n = &g->node[fault];
        const double *a = value + (size_t)n->a * count;
        write_operation(text, sizeof text, n, a[e], n->b < 0 ? 0 : value[(size_t)n->b * count + e]);
        *operation = text;
    }
    free(value);
    free(g);
    return found;
}
