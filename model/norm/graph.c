/* See graph.h: first the algebra, then the gradient. */
#include "model/norm/graph.h"
#include "data/die.h"
#include <math.h>
#include <string.h>

/* ---- nodes ---- */

static int put(struct graph *g, struct graph_node n) {
    for (int i = 0; i < g->count; i++) {
        const struct graph_node *m = &g->node[i];
        if (m->op == n.op && m->shape == n.shape && m->a == n.a && m->b == n.b && m->k == n.k)
            return i;
    }
    if (g->count == GRAPH_NODES)
        die(STATUS_USAGE,
            "the formula is too long: more than %d operations, those of its gradient "
            "included, in %s",
            GRAPH_NODES, g->text);
    g->node[g->count] = n;
    return g->count++;
}

int graph_leaf(struct graph *g, enum graph_op op, enum graph_shape shape, double k) {
    return put(g, (struct graph_node){op, shape, -1, -1, k});
}

int graph_number(struct graph *g, double k) {
    return graph_leaf(g, G_NUMBER, SHAPE_ONE, k);
}

/* A node that is not simplified further. */
static int operation(struct graph *g, enum graph_op op, int a, int b, double k) {
    enum graph_shape shape = graph_shape(g, a) | (b < 0 ? 0 : graph_shape(g, b));
    if (op == G_SUM_C || op == G_MAX_C) shape &= ~(unsigned)SHAPE_COL;
    if (op == G_SUM_B || op == G_MEAN_N) shape &= ~(unsigned)SHAPE_ROW;
    return put(g, (struct graph_node){op, shape, a, b, k});
}

static bool is_number(const struct graph *g, int n) {
    return g->node[n].op == G_NUMBER;
}

static bool is(const struct graph *g, int n, double k) {
    return is_number(g, n) && g->node[n].k == k;
}

static bool is_op(const struct graph *g, int n, enum graph_op op) {
    return n >= 0 && g->node[n].op == op;
}

/* ---- sums and products ---- */

int graph_add(struct graph *g, int a, int b) {
    if (is(g, a, 0)) return b;
    if (is(g, b, 0)) return a;
    if (is_number(g, a) && is_number(g, b)) return graph_number(g, g->node[a].k + g->node[b].k);
    if (a == b) return graph_multiply(g, a, graph_number(g, 2));
    return a < b ? operation(g, G_ADD, a, b, 0) : operation(g, G_ADD, b, a, 0);
}

int graph_subtract(struct graph *g, int a, int b) {
    if (a == b) return graph_number(g, 0);
    return graph_add(g, a, graph_multiply(g, b, graph_number(g, -1)));
}

/* The factors of a product by shape; -1: 1. */
struct factors {
    int of[4];
};

static struct factors split(const struct graph *g, int n) {
    struct factors f = {{-1, -1, -1, -1}};
    int rest = -1;
    if (is(g, n, 1)) return f;
    if (!(graph_shape(g, n) & SHAPE_COL)) rest = n, n = -1;
    if (is_op(g, n, G_MUL) && !(graph_shape(g, g->node[n].b) & SHAPE_COL))
        rest = g->node[n].b, n = g->node[n].a;
    if (is_op(g, n, G_MUL) && graph_shape(g, n) == SHAPE_FULL &&
        graph_shape(g, g->node[n].b) == SHAPE_COL)
        f.of[SHAPE_COL] = g->node[n].b, n = g->node[n].a;
    if (n >= 0) f.of[graph_shape(g, n)] = n;
    if (is_op(g, rest, G_MUL) && graph_shape(g, rest) == SHAPE_ROW &&
        graph_shape(g, g->node[rest].b) == SHAPE_ONE)
        f.of[SHAPE_ONE] = g->node[rest].b, rest = g->node[rest].a;
    if (rest >= 0) f.of[graph_shape(g, rest)] = rest;
    return f;
}

/* A product of two of these, of which one may be missing. */
static int times(struct graph *g, int a, int b) {
    return a < 0 ? b : b < 0 ? a : operation(g, G_MUL, a, b, 0);
}

static int join(struct graph *g, struct factors f) {
    const int wide = times(g, f.of[SHAPE_FULL], f.of[SHAPE_COL]);
    const int n = times(g, wide, times(g, f.of[SHAPE_ROW], f.of[SHAPE_ONE]));
    return n < 0 ? graph_number(g, 1) : n;
}

/* Products of factors of one shape are chains ((p q) r) s, sorted by node, with a number last. */
static int into_chain(struct graph *g, int chain, int factor) {
    const bool product = is_op(g, chain, G_MUL);
    const int last = product ? g->node[chain].b : chain, before = product ? g->node[chain].a : -1;
    if (chain < 0) return factor;
    if (is_number(g, last) && is_number(g, factor)) {
        const double k = g->node[last].k * g->node[factor].k;
        return k == 1 ? before : times(g, before, graph_number(g, k));
    }
    if (!is_number(g, last) && (is_number(g, factor) || factor >= last))
        return times(g, chain, factor);
    return times(g, into_chain(g, before, factor), last);
}

static int chains(struct graph *g, int a, int b) {
    if (a < 0 || b < 0) return a < 0 ? b : a;
    if (!is_op(g, b, G_MUL)) return into_chain(g, a, b);
    const int last = g->node[b].b;
    return into_chain(g, chains(g, a, g->node[b].a), last);
}

int graph_multiply(struct graph *g, int a, int b) {
    struct factors p = split(g, a), q = split(g, b);
    if (is(g, a, 0) || is(g, b, 0)) return graph_number(g, 0);
    for (int shape = 0; shape < 4; shape++) p.of[shape] = chains(g, p.of[shape], q.of[shape]);
    return join(g, p);
}

int graph_divide(struct graph *g, int a, int b) {
    return graph_multiply(g, a, graph_function(g, G_RECIP, b));
}

/* ---- functions ---- */

int graph_fill(struct graph *g, int a) {
    return put(g, (struct graph_node){G_MAX, SHAPE_FULL, a, a, 0});
}

int graph_pair(struct graph *g, enum graph_op op, int a, int b) {
    if (is_number(g, a) && is_number(g, b))
        return graph_number(g, graph_function_value(op, g->node[a].k, g->node[b].k));
    return operation(g, op, a, b, 0);
}

int graph_function(struct graph *g, enum graph_op op, int a) {
    const struct graph_node n = g->node[a];
    if (op == G_RECIP && n.op == G_SQRT) return operation(g, G_RSQRT, n.a, -1, 0);
    if (op == G_RECIP && n.op == G_RSQRT) return operation(g, G_SQRT, n.a, -1, 0);
    if (op == G_RECIP && n.op == G_RECIP) return n.a;
    if (op == G_MAX_C && !(n.shape & SHAPE_COL)) return a;
    if (n.op == G_NUMBER) return graph_number(g, graph_function_value(op, n.k, 0));
    if (op == G_RECIP && n.op == G_MUL) // of each factor, so that sums can leave them out
        return graph_divide(g, graph_function(g, G_RECIP, n.a), n.b);
    return operation(g, op, a, -1, 0);
}

/* Whole and half exponents are products and square roots, of negative numbers too; others are
   exp(k log a). */
int graph_power(struct graph *g, int a, double exponent) {
    const double size = fabs(exponent), whole = floor(size);
    int y = graph_number(g, 1);
    if (size > 16 || (size != whole && size != whole + 0.5)) {
        y = graph_function(g, G_LOG, a);
        return graph_function(g, G_EXP, graph_multiply(g, y, graph_number(g, exponent)));
    }
    for (int i = 0; i < (int)whole; i++) y = graph_multiply(g, y, a);
    if (size != whole) y = graph_multiply(g, y, graph_function(g, G_SQRT, a));
    return exponent < 0 ? graph_function(g, G_RECIP, y) : y;
}

int graph_sum(struct graph *g, enum graph_op op, double k, int a) {
    const enum graph_shape over = op == G_SUM_C ? SHAPE_COL : SHAPE_ROW;
    struct factors inside = split(g, a), outside = {{-1, -1, -1, -1}};
    if (op == G_MEAN_N && !(graph_shape(g, a) & over)) return a;
    if (!(graph_shape(g, a) & over))
        return graph_multiply(g, a,
                              graph_leaf(g, op == G_SUM_C ? G_CHANNELS : G_HEIGHT, SHAPE_ONE, 0));
    for (int shape = 0; shape < 4; shape++)
        if (!(shape & (int)over)) {
            outside.of[shape] = inside.of[shape];
            inside.of[shape] = -1;
        }
    return graph_multiply(g, operation(g, op, join(g, inside), -1, k), join(g, outside));
}

/* ---- other graphs ---- */

int graph_copy(struct graph *to, const struct graph *from, int node, int *map) {
    const struct graph_node *n = &from->node[node];
    if (map[node] >= 0) return map[node];
    const int a = n->a < 0 ? -1 : graph_copy(to, from, n->a, map);
    const int b = n->b < 0 ? -1 : graph_copy(to, from, n->b, map);
    switch (n->op) {
    case G_ADD: return map[node] = graph_add(to, a, b);
    case G_MUL: return map[node] = graph_multiply(to, a, b);
    case G_MAX:
    case G_GREATER: return map[node] = graph_pair(to, n->op, a, b);
    case G_STOP: return map[node] = a;
    case G_SUM_C:
    case G_SUM_B:
    case G_MEAN_N: return map[node] = graph_sum(to, n->op, n->k, a);
    default:
        return map[node] =
                   a < 0 ? graph_leaf(to, n->op, n->shape, n->k) : graph_function(to, n->op, a);
    }
}

void graph_mark(const struct graph *g, int node, bool *marked) {
    const struct graph_node *n = &g->node[node];
    if (marked[node]) return;
    marked[node] = true;
    if (n->a >= 0) graph_mark(g, n->a, marked);
    if (n->b >= 0) graph_mark(g, n->b, marked);
}

double graph_function_value(enum graph_op op, double a, double b) {
    switch (op) {
    case G_ADD: return a + b;
    case G_MUL: return a * b;
    case G_MAX: return a > b ? a : b;
    case G_GREATER: return a > b;
    case G_RECIP: return 1 / a;
    case G_SQRT: return sqrt(a);
    case G_RSQRT: return 1 / sqrt(a);
    case G_EXP: return exp(a);
    case G_LOG: return log(a);
    case G_TANH: return tanh(a);
    case G_ERF: return erf(a);
    case G_SIGMOID: return 1 / (1 + exp(-a));
    default: return a; // G_STOP
    }
}

void graph_find_constants(const struct graph *g, bool *constant) {
    for (int i = 0; i < g->count; i++) {
        const struct graph_node *n = &g->node[i];
        const bool of_constants = n->a >= 0 && constant[n->a] && (n->b < 0 || constant[n->b]);
        constant[i] = n->op <= G_OPTION || (of_constants && n->shape == SHAPE_ONE);
    }
}

void graph_constants(const struct graph *g, double C, const double *option, double *value) {
    for (int i = 0; i < g->count; i++) {
        const struct graph_node *n = &g->node[i];
        value[i] = n->op == G_NUMBER     ? n->k
                   : n->op == G_CHANNELS ? C
                   : n->op == G_OPTION   ? option[(int)n->k]
                   : n->a < 0
                       ? NAN
                       : graph_function_value(n->op, value[n->a], n->b < 0 ? 0 : value[n->b]);
    }
}

/* ---- values ---- */

static double leaf_value(const struct graph_node *n, const struct graph_input *in, size_t row,
                         size_t c) {
    switch (n->op) {
    case G_NUMBER: return n->k;
    case G_CHANNELS: return (double)in->C;
    case G_OPTION: return in->option[(int)n->k];
    case G_HEIGHT: return (double)in->N;
    case G_PARAM: return in->param[(int)n->k][n->shape & SHAPE_COL ? c : 0];
    case G_X: return in->x[row * in->C + c];
    case G_DY: return in->dy[row * in->C + c];
    default: return NAN; // a running average
    }
}

/* The sum, mean or maximum of a (N,C) that element (row,c) has a part in. */
static double total(enum graph_op op, const double *a, size_t N, size_t C, size_t row, size_t c) {
    const bool channels = op == G_SUM_C || op == G_MAX_C;
    double sum = op == G_MAX_C ? a[row * C] : 0;
    for (size_t i = 0; i < (channels ? C : N); i++) {
        const double v = channels ? a[row * C + i] : a[i * C + c];
        sum = op != G_MAX_C ? sum + v : v > sum ? v : sum;
    }
    return op == G_MEAN_N ? sum / (double)N : sum;
}

void graph_values(const struct graph *g, const struct graph_input *in, double *value) {
    const size_t N = in->N, C = in->C, size = N * C;
    for (int i = 0; i < g->count; i++, value += size) {
        const struct graph_node *n = &g->node[i];
        const double *a = value - (i - n->a) * (ptrdiff_t)size;
        const double *b = n->b < 0 ? a : value - (i - n->b) * (ptrdiff_t)size;
        for (size_t e = 0; e < size; e++)
            value[e] = graph_is_leaf(g, i) ? leaf_value(n, in, e / C, e % C)
                       : n->op >= G_SUM_C  ? total(n->op, a, N, C, e / C, e % C)
                                           : graph_function_value(n->op, a[e], b[e]);
    }
}

/* ---- the gradient ---- */

/* The gradient of a value without rows is needed twice: as the sum over the rows at hand (HERE),
   which becomes a parameter's; and where the value depends on a mean over the batch, as the mean
   over the batch of each token's part (BATCH), which flows back into every token. */
enum reach { HERE, BATCH };

struct gradient {
    struct graph *g;
    int *of[2]; // by reach; BATCH only of values without rows
};

/* Adds `value`, the gradient of node `from`, to that of its operand `to`. What `to` is the same for
   is summed. */
static void give(struct gradient *d, int to, int from, int value, enum reach reach) {
    struct graph *g = d->g;
    const unsigned lost = graph_shape(g, from) & ~(unsigned)graph_shape(g, to);
    if (lost & SHAPE_COL) value = graph_sum(g, G_SUM_C, 0, value);
    for (enum reach r = HERE; r <= BATCH; r++) {
        int *sum = &d->of[r][to], part = value;
        if (!(lost & SHAPE_ROW) && r != reach) continue;
        if (lost & SHAPE_ROW)
            part = graph_sum(g, r == HERE ? G_SUM_B : G_MEAN_N, MEAN_OF_VALUES, value);
        *sum = *sum < 0 ? part : graph_add(g, *sum, part);
    }
}

/* The derivative of node i, a function of one value. */
static int slope(struct graph *g, int i) {
    const int a = g->node[i].a, one = graph_number(g, 1);
    const int square = graph_multiply(g, i, i);
    switch (g->node[i].op) {
    case G_RECIP: return graph_multiply(g, square, graph_number(g, -1));
    case G_SQRT: // finite at 0, where max(sqrt(a), eps) multiplies it by 0
        return graph_multiply(
            g, graph_number(g, 0.5),
            graph_function(g, G_RSQRT, graph_pair(g, G_MAX, a, graph_number(g, 1e-30))));
    case G_RSQRT: return graph_multiply(g, graph_number(g, -0.5), graph_multiply(g, i, square));
    case G_EXP: return i;
    case G_LOG: return graph_function(g, G_RECIP, a);
    case G_TANH: return graph_subtract(g, one, square);
    case G_ERF: // 2 / sqrt(pi) exp(-a^2)
        return graph_multiply(
            g, graph_number(g, 1.12837916709551257390),
            graph_function(g, G_EXP, graph_subtract(g, graph_number(g, 0), graph_power(g, a, 2))));
    case G_SIGMOID: return graph_subtract(g, i, square);
    default: return graph_number(g, 0);
    }
}

/* Passes the gradient `value` of node i on to its operands. */
static void pass_back(struct gradient *d, int i, int value, enum reach reach) {
    struct graph *g = d->g;
    const struct graph_node n = g->node[i];
    switch (n.op) {
    case G_ADD: give(d, n.a, i, value, reach), give(d, n.b, i, value, reach); break;
    case G_MUL:
        give(d, n.a, i, graph_multiply(g, value, n.b), reach);
        give(d, n.b, i, graph_multiply(g, value, n.a), reach);
        break;
    case G_MAX: {
        const int first = graph_multiply(g, value, graph_pair(g, G_GREATER, n.a, n.b));
        give(d, n.a, i, first, reach);
        give(d, n.b, i, graph_subtract(g, value, first), reach);
        break;
    }
    case G_SUM_C: give(d, n.a, n.a, value, reach); break;
    case G_MAX_C: { // the largest channels share it, up to rounding, as n.a may be computed again
        const int slack = graph_multiply(g, graph_power(g, i, 2), graph_number(g, 1e-12));
        const int least = graph_subtract(g, i, graph_function(g, G_SQRT, slack));
        const int below = graph_pair(g, G_GREATER, least, n.a);
        const int largest = graph_subtract(g, graph_number(g, 1), below);
        const int count =
            graph_pair(g, G_MAX, graph_sum(g, G_SUM_C, 0, largest), graph_number(g, 1));
        give(d, n.a, n.a, graph_multiply(g, value, graph_divide(g, largest, count)), reach);
        break;
    }
    case G_MEAN_N: // of a mean over the batch, each token has an equal part
        if (reach == BATCH) give(d, n.a, n.a, value, HERE);
        break;
    case G_GREATER:
    case G_STOP: break;
    default:
        if (n.a >= 0) give(d, n.a, i, graph_multiply(g, value, slope(g, i)), reach);
    }
}

void graph_differentiate(struct graph *g, int y, int *of) {
    int of_batch[GRAPH_NODES];
    struct gradient d = {g, {of, of_batch}};
    memset(of, -1, GRAPH_NODES * sizeof *of);
    memset(of_batch, -1, sizeof of_batch);
    of[y] = graph_leaf(g, G_DY, SHAPE_FULL, 0);
    for (int i = y; i >= 0; i--)
        for (enum reach r = HERE; r <= BATCH; r++)
            if (d.of[r][i] >= 0) pass_back(&d, i, d.of[r][i], r);
}
