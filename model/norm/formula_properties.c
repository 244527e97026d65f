/* What a formula computes, found by trying it out in double (formula.h). */
#include "data/die.h"
#include "model/norm/formula.h"
#include <math.h>
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

size_t formula_values(const struct norm *norm, size_t B, size_t T) {
    const size_t C = norm->C / formula_groups(norm), N = B * T;
    const double one[4] = {0.3, -1.2, 0.9, 2.1}, other[4] = {1.7, 0.4, -0.6, -0.2};
    double y[2][4];
    if (C > 1 && (N > 1 || !norm->formula->states)) return 2;
    const size_t rows = size_min(2, N), width = size_min(2, C);
    try_out(norm, rows, width, one, y[0]);
    try_out(norm, rows, width, other, y[1]);
    for (size_t i = 0; i < rows * width; i++)
        if (fabs(y[0][i] - y[1][i]) > 1e-9) return 2;
    return 1;
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
