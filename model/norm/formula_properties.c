/* What a formula computes, found by trying it out in double (formula.h). */
#include "data/die.h"
#include "model/norm/formula.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 4, WIDTH = 6 };

/* Element c of parameter i: no two are equal. */
static double parameter_of(int i, size_t c) {
    return 0.7 + 0.1 * (double)c + 0.013 * i;
}

static void fill(double *x) {
    for (int i = 0; i < TOKENS * WIDTH; i++) x[i] = 1.5 * sin(1 + 7.3 * i * i) + 0.3;
}

/* y (N,C) of x (N,C). */
static void try_out(const struct norm *norm, size_t N, size_t C, const double *x, double *y) {
    const struct graph *g = &norm->formula->graph;
    double option[KIND_OPTIONS] = {0}, param[NORM_TENSORS][8];
    double *value = memory_take((size_t)g->count * N * C, sizeof *value, "a formula");
    struct graph_input in = {.N = N, .C = C, .x = x, .option = option};
    for (int i = 0; norm->kind->options[i]; i++) option[i] = formula_option(norm, i);
    for (int i = 0; i < NORM_TENSORS; i++) {
        for (size_t c = 0; c < C; c++) param[i][c] = parameter_of(i, c);
        in.param[i] = param[i];
    }
    graph_values(g, &in, value);
    memcpy(y, value + (size_t)norm->formula->y * N * C, N * C * sizeof *y);
    free(value);
}

/* ---- what changes nothing ---- */

/* The largest difference, for numbers larger than 1 relative to them, that the change makes in y;
   NAN where y is none. */
static double difference(const struct norm *norm, enum formula_change change) {
    double x[2][TOKENS * WIDTH], y[2][TOKENS * WIDTH], most = 0;
    fill(x[0]);
    for (int i = 0; i < TOKENS * WIDTH; i++) {
        const bool of_token = change == SHIFT_OF_TOKEN || change == SCALE_OF_TOKEN;
        const double by = 0.6 + 0.4 * (of_token ? i / WIDTH : i % WIDTH);
        const bool shift = change == SHIFT_OF_TOKEN || change == SHIFT_OF_CHANNEL;
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

/* ---- the terms of its gradient ---- */

/* Element i of xhat of kind.h. */
static double xhat(const double *x, int i, bool of_tokens, bool centred, double eps) {
    const int count = of_tokens ? WIDTH : TOKENS, step = of_tokens ? 1 : WIDTH;
    const double *of = x + (of_tokens ? i - i % WIDTH : i % WIDTH);
    double mean = 0, square = 0;
    for (int k = 0; k < count; k++) mean += centred ? of[k * step] / count : 0;
    for (int k = 0; k < count; k++) square += pow(of[k * step] - mean, 2) / count;
    return (x[i] - mean) / sqrt(square + eps);
}

void formula_find_terms(struct norm_kind *kind) {
    struct norm norm = {.kind = kind, .formula = kind->typed};
    double x[TOKENS * WIDTH], y[TOKENS * WIDTH], eps = 0.3;
    int gamma = -1, beta = -1;
    if (kind->typed->groups) return;
    for (int i = 0; kind->options[i]; i++)
        if (kind->options[i]->kind == OPTION_REAL)
            norm.option[i].real = kind->options[i] == &norm_eps ? eps : 0.7;
    for (int i = 0; kind->param[i].name; i++) {
        if (kind->param[i].role == NORM_GAMMA) gamma = i;
        if (kind->param[i].role == NORM_BETA) beta = i;
    }
    fill(x);
    try_out(&norm, TOKENS, WIDTH, x, y);
    for (int form = 0; form < 4; form++) {
        const bool of_tokens = form & 1, centred = form & 2;
        double most = 0;
        for (int i = 0; i < TOKENS * WIDTH; i++) {
            const size_t c = (size_t)i % WIDTH;
            const double a = gamma < 0 ? 1 : parameter_of(gamma, c);
            const double b = beta < 0 ? 0 : parameter_of(beta, c);
            const double d = fabs(y[i] - a * xhat(x, i, of_tokens, centred, eps) - b);
            if (!(d <= most)) most = d;
        }
        if (!(most < 1e-9)) continue;
        kind->terms = of_tokens ? NORM_TERMS_OF_TOKENS : NORM_TERMS_OF_CHANNELS;
        kind->centred = centred;
    }
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

/* formula_fault() of some channels: all, or those of a group. */
static bool find_fault(const struct norm *norm, struct range channels, size_t N, const real *x,
                       const real *dy, const char **operation) {
    static char text[64];
    const struct formula *f = formula_of(norm->kind);
    const size_t C = channels.end - channels.begin, count = N * C;
    struct graph *g = memory_take(1, sizeof *g, "a formula");
    int of[GRAPH_NODES];
    *g = f->graph;
    if (dy) graph_differentiate(g, f->y, of);
    double *value =
        memory_take(((size_t)g->count + 2 + NORM_TENSORS) * count, sizeof *value, "a formula");
    double *in_x = value + (size_t)g->count * count, *in_dy = in_x + count, *param = in_dy + count;
    double option[KIND_OPTIONS] = {0};
    struct graph_input in = {.N = N, .C = C, .x = in_x, .dy = in_dy, .option = option};
    for (size_t i = 0; i < count; i++) {
        const size_t at = i / C * norm->C + channels.begin + i % C;
        in_x[i] = (double)x[at], in_dy[i] = dy ? (double)dy[at] : 0;
    }
    for (int i = 0; norm->kind->options[i]; i++) option[i] = formula_option(norm, i);
    for (int i = 0; norm->kind->param[i].name; i++, param += C) {
        const bool scalar = norm->kind->param[i].scalar;
        const real *values = norm->param[i].value + (scalar ? 0 : channels.begin);
        in.param[i] = param;
        for (size_t c = 0; c < (scalar ? 1 : C); c++) param[c] = (double)values[c];
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

bool formula_fault(const struct norm *norm, size_t N, const real *x, const real *dy,
                   const char **operation) {
    const struct formula *f = formula_of(norm->kind);
    const size_t groups = f && f->groups ? (size_t)norm_option(norm, &norm_groups).integer : 1;
    struct range channels = {0, norm->C / groups};
    for (; f && channels.end <= norm->C;
         channels.begin = channels.end, channels.end += norm->C / groups)
        if (find_fault(norm, channels, N, x, dy, operation)) return true;
    return false;
}
