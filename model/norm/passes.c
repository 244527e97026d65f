/* Plans the passes (passes.h): which node is computed in which pass, which nodes are one step, and
   where values are. */
#include "model/norm/passes.h"
#include "data/die.h"
#include <stdlib.h>
#include <string.h>

struct planner {
    struct program *p;
    struct program_pass *pass;
    bool *known; // nodes that earlier passes have computed for good
    bool constant[GRAPH_NODES];
    bool waits[GRAPH_NODES]; // for a sum over the rows at hand
    int part[GRAPH_NODES];
    int uses[GRAPH_NODES];   // by other nodes in this pass; 0: it is not computed
    int last[GRAPH_NODES];   // the last step that reads it
    short slot[GRAPH_NODES]; // where a computed node is
    short value[GRAPH_NODES];
};

static _Noreturn void too_long(const struct program *p, const char *what) {
    die(STATUS_USAGE, "the formula needs too many %s: %s", what, p->graph.text);
}

/* ---- which nodes a pass computes ---- */

/* Counts what the node needs that is not known. */
static void count_uses(struct planner *w, int i) {
    const struct graph_node *n = &w->p->graph.node[i];
    if (w->uses[i]++ || w->known[i]) return;
    if (n->a >= 0) count_uses(w, n->a);
    if (n->b >= 0) count_uses(w, n->b);
}

/* How many means over the batch, each of which needs the one before, each node still waits for. */
static void find_levels(const struct program *p, int *level) {
    for (int i = 0; i < p->graph.count; i++) {
        const struct graph_node *n = &p->graph.node[i];
        const int a = n->a < 0 ? 0 : level[n->a], b = n->b < 0 ? 0 : level[n->b];
        level[i] = p->mean_at[i] >= 0 ? 0 : (a > b ? a : b) + (n->op == G_MEAN_N);
    }
}

/* Before the rows (0), in the rows (1), or after them (2). */
static void find_parts(struct planner *w) {
    for (int i = 0; i < w->p->graph.count; i++) {
        const struct graph_node *n = &w->p->graph.node[i];
        const bool sums = n->op == G_SUM_B || n->op == G_MEAN_N;
        w->waits[i] =
            n->op == G_SUM_B || (n->a >= 0 && w->waits[n->a]) || (n->b >= 0 && w->waits[n->b]);
        w->part[i] = sums || n->shape & SHAPE_ROW ? 1 : w->waits[i] ? 2 : 0;
    }
}

static bool is_computed(const struct planner *w, int i) {
    return w->uses[i] && !w->known[i] && !graph_is_leaf(&w->p->graph, i) && !w->constant[i];
}

/* ---- which nodes are one step ---- */

struct operands {
    int node[STEP_OPERANDS]; // -1: 1 in a product, else 0
};

/* Whether the step of another node can compute node i on the way. */
static bool is_open(const struct planner *w, int i, enum graph_op op) {
    return w->p->graph.node[i].op == op && w->uses[i] == 1 && is_computed(w, i);
}

/* The operands of node i under `op`, at most `max`: an operand that only this node needs, and that
   has the same operation and shape, is replaced by its own. */
static int gather(struct planner *w, int i, enum graph_op op, int max, int *list) {
    const struct graph *g = &w->p->graph;
    int count = 1;
    list[0] = i;
    for (int k = 0; k < count && count < max;) {
        const int n = list[k];
        if (g->node[n].op != op || w->constant[n] ||
            (n != i && !(is_open(w, n, op) && graph_shape(g, n) == graph_shape(g, i)))) {
            k++;
            continue;
        }
        if (n != i) w->uses[n] = 0;
        list[k] = g->node[n].a;
        list[count++] = g->node[n].b;
    }
    return count;
}

static void swap(int *a, int *b) {
    const int keep = *a;
    *a = *b, *b = keep;
}

/* Up to `max` factors of node i, sorted: FULL, ROW, COL, ONE. `of_sum`: another step asks for them. */
static void factors(struct planner *w, int i, int max, bool of_sum, int *list) {
    const struct graph *g = &w->p->graph;
    if (of_sum && !is_open(w, i, G_MUL)) {
        list[0] = i;
        return;
    }
    if (of_sum) w->uses[i] = 0;
    const int count = gather(w, i, G_MUL, max, list);
    for (int k = 1; k < count; k++)
        for (int j = k; j > 0 && graph_shape(g, list[j]) > graph_shape(g, list[j - 1]); j--)
            swap(&list[j], &list[j - 1]);
}

/* Three terms of a sum become a b c + d e + f: products before others, and the widest first. */
static void terms(struct planner *w, int i, int *list) {
    int term[3], count = gather(w, i, G_ADD, 3, term), best = 0, most = -1;
    for (int k = 0; k < count; k++) {
        const int rank = 2 * (int)graph_shape(&w->p->graph, term[k]) + is_open(w, term[k], G_MUL);
        if (rank > most) best = k, most = rank;
    }
    swap(&term[0], &term[best]);
    if (count == 3 && is_open(w, term[2], G_MUL)) swap(&term[1], &term[2]);
    factors(w, term[0], 3, true, list);
    if (count == 2 && !is_open(w, term[1], G_MUL)) {
        list[5] = term[1];
        return;
    }
    factors(w, term[1], 2, true, list + 3);
    if (count == 3) list[5] = term[2];
}

static struct operands operands_of(struct planner *w, int i) {
    const struct graph_node *n = &w->p->graph.node[i];
    struct operands o = {{-1, -1, -1, -1, -1, -1}};
    switch (n->op) {
    case G_ADD: terms(w, i, o.node); break;
    case G_MUL: factors(w, i, 3, false, o.node); break;
    case G_SUM_C:
    case G_SUM_B:
    case G_MEAN_N: factors(w, n->a, 3, true, o.node); break;
    default: o.node[0] = n->a, o.node[1] = n->b < 0 ? n->a : n->b;
    }
    return o;
}

/* ---- where values are ---- */

static short value_at(struct planner *w, int i, enum pass_place place, int index) {
    struct program_pass *pass = w->pass;
    if (w->value[i] >= 0) return w->value[i];
    if (pass->values == PASS_VALUES) too_long(w->p, "values");
    pass->value[pass->values] = (struct pass_value){place, index, graph_shape(&w->p->graph, i)};
    return w->value[i] = (short)pass->values++;
}

/* The value of a node that is a leaf, or was computed earlier. */
static short value_of(struct planner *w, int i) {
    struct program *p = w->p;
    const struct graph_node *n = &p->graph.node[i];
    if (w->value[i] >= 0) return w->value[i];
    if (n->op == G_X) return value_at(w, i, AT_X, 0);
    if (n->op == G_DY) return value_at(w, i, AT_DY, 0);
    if (n->op == G_PARAM) return value_at(w, i, AT_PARAM, (int)n->k);
    if (n->op == G_STATE) return value_at(w, i, AT_STATE, (int)n->k);
    if (p->mean_at[i] >= 0) return value_at(w, i, AT_MEAN, p->mean_at[i]);
    if (p->saved_at[i] >= 0) return value_at(w, i, AT_SAVED, p->saved_at[i]);
    if (n->op == G_HEIGHT) return value_at(w, i, AT_HEIGHT, 0);
    if (p->number_at[i] < 0) p->number_at[i] = (short)p->numbers++;
    return value_at(w, i, AT_NUMBER, p->number_at[i]);
}

/* Where the step `number` puts node i. Its result may take the place of an operand that is read for
   the last time, since a step goes through both element by element. */
static short place_result(struct planner *w, int i, int number) {
    const struct graph *g = &w->p->graph;
    struct program_pass *pass = w->pass;
    bool taken[PASS_STEPS] = {0};
    int slot = 0;
    if (graph_shape(g, i) == SHAPE_ROW) {
        w->p->saved_at[i] = (short)w->p->saved++;
        return value_at(w, i, AT_SAVED, w->p->saved_at[i]);
    }
    if (graph_shape(g, i) != SHAPE_FULL) {
        const bool column = graph_shape(g, i) == SHAPE_COL;
        return column ? value_at(w, i, AT_COLUMN, pass->columns++)
                      : value_at(w, i, AT_SINGLE, pass->singles++);
    }
    if (i == pass->node[0]) return value_at(w, i, AT_OUT, 0);
    for (int k = 0; k < g->count; k++)
        if (w->slot[k] >= 0 && w->last[k] > number) taken[w->slot[k]] = true;
    while (taken[slot]) slot++;
    if (slot == pass->slots) pass->slots++;
    w->slot[i] = (short)slot;
    return value_at(w, i, AT_SLOT, slot);
}

static void emit(struct planner *w, int i, const struct operands *o, int number) {
    const struct graph *g = &w->p->graph;
    const struct graph_node *n = &g->node[i];
    const bool sums = n->op == G_SUM_C || n->op == G_MAX_C || n->op == G_SUM_B || n->op == G_MEAN_N;
    const enum graph_shape over = sums ? graph_shape(g, n->a) : n->shape;
    struct pass_step *step = &w->pass->step[number];
    *step = (struct pass_step){n->op == G_MUL      ? G_ADD
                               : n->op == G_MEAN_N ? G_SUM_B
                                                   : n->op,
                               over, .y = -1};
    for (int k = 0; k < STEP_OPERANDS; k++) {
        const bool factor = k < 3 || (k == 4 && o->node[3] >= 0);
        step->x[k] = o->node[k] < 0 ? factor : value_of(w, o->node[k]);
        enum graph_shape of = o->node[k] < 0 ? SHAPE_ONE : graph_shape(g, o->node[k]);
        if (!(over & SHAPE_COL) && of == SHAPE_ROW) of = SHAPE_COL;
        step->of[k] = of;
        if (of & SHAPE_ROW) step->vary |= (int)of << 2 * k;
    }
    step->y = place_result(w, i, number);
}

/* ---- a pass ---- */

/* Plans the pass of these outputs, of which the first is `out` of the pass if it is FULL. */
static void plan(struct program *p, struct program_pass *pass, bool *known) {
    struct graph *g = &p->graph;
    struct planner w = {.p = p, .pass = pass, .known = known};
    struct operands operands[GRAPH_NODES];
    int order[PASS_STEPS], steps = 0;
    memset(w.last, -1, sizeof w.last);
    memset(w.slot, -1, sizeof w.slot);
    memset(w.value, -1, sizeof w.value);
    value_of(&w, graph_number(g, 0)); // value 0 is 0, value 1 is 1
    value_of(&w, graph_number(g, 1));
    graph_find_constants(g, w.constant);
    find_parts(&w);
    for (int k = 0; k < pass->outputs; k++) count_uses(&w, pass->node[k]);
    for (int k = 0; k < pass->outputs; k++) w.uses[pass->node[k]]++; // computed on its own
    for (int i = g->count - 1; i >= 0; i--)
        if (is_computed(&w, i)) operands[i] = operands_of(&w, i);
    for (int part = 0; part < 3; part++) {
        pass->part[part] = steps;
        for (int i = 0; i < g->count; i++) {
            if (!is_computed(&w, i) || w.part[i] != part) continue;
            if (steps == PASS_STEPS) too_long(p, "steps");
            for (int k = 0; k < STEP_OPERANDS; k++)
                if (operands[i].node[k] >= 0) w.last[operands[i].node[k]] = steps;
            order[steps++] = i;
        }
    }
    pass->part[3] = steps;
    for (int s = 0; s < steps; s++) emit(&w, order[s], &operands[order[s]], s);
    for (int s = 0; s < steps; s++) // rows' values and means are there for later passes
        if (graph_shape(g, order[s]) == SHAPE_ROW || g->node[order[s]].op == G_MEAN_N)
            known[order[s]] = true;
    for (int k = 0; k < pass->outputs; k++) pass->result[k] = value_of(&w, pass->node[k]);
    pass->writes = graph_shape(g, pass->node[0]) == SHAPE_FULL;
}

/* Plans the passes of outputs: first those of the means over the batch that they wait for. Returns
   the number of these. */
static int plan_levels(struct program *p, struct program_pass *pass, const int *output, int outputs,
                       bool *known) {
    const struct graph *g = &p->graph;
    bool needed[GRAPH_NODES] = {0};
    int level[GRAPH_NODES], levels = 0, done = 0;
    find_levels(p, level);
    for (int k = 0; k < outputs; k++) {
        graph_mark(g, output[k], needed);
        if (level[output[k]] > levels) levels = level[output[k]];
    }
    if (levels >= PASSES) too_long(p, "means over the batch inside one another");
    for (; done < levels; done++, pass++) {
        for (int i = 0; i < g->count; i++) {
            if (!needed[i] || g->node[i].op != G_MEAN_N || level[i] != 1) continue;
            if (pass->outputs == PASS_OUTPUTS) too_long(p, "means over the batch");
            pass->shape[pass->outputs] = graph_shape(g, i);
            pass->node[pass->outputs++] = i;
        }
        plan(p, pass, known);
        for (int k = 0; k < pass->outputs; k++) p->mean_at[pass->node[k]] = (short)p->means++;
        find_levels(p, level);
    }
    memcpy(pass->node, output, (size_t)outputs * sizeof *output);
    pass->outputs = outputs;
    plan(p, pass, known);
    return levels;
}

/* A node that a step computes, with the value of node i for every row and channel. */
static int written(struct graph *g, int i) {
    const bool computed = graph_shape(g, i) == SHAPE_FULL && !graph_is_leaf(g, i);
    return computed ? i : graph_fill(g, i);
}

/* The one node that is tanh or erf of each number, or -1. */
static int curve_of(const struct graph *g, int y) {
    bool needed[GRAPH_NODES] = {0};
    int curve = -1, curves = 0;
    graph_mark(g, y, needed);
    for (int i = 0; i < g->count; i++)
        if (needed[i] && graph_shape(g, i) == SHAPE_FULL &&
            (g->node[i].op == G_TANH || g->node[i].op == G_ERF))
            curve = i, curves++;
    return curves == 1 ? curve : -1;
}

void program_compile(struct program *p, const struct graph *graph, int y, int states,
                     const int *tracked) {
    struct graph *g = memory_take(1, sizeof *g, "a formula");
    struct graph *to = &p->graph;
    int of[GRAPH_NODES], map[GRAPH_NODES], output[PASS_OUTPUTS], outputs = 1;
    enum graph_shape shape[PASS_OUTPUTS] = {SHAPE_ONE};
    bool known[GRAPH_NODES] = {0}, forgotten[GRAPH_NODES] = {0};
    *p = (struct program){0};
    *g = *graph;
    to->text = g->text;
    memset(map, -1, sizeof map);
    memset(p->saved_at, -1, sizeof p->saved_at);
    memset(p->mean_at, -1, sizeof p->mean_at);
    memset(p->number_at, -1, sizeof p->number_at);
    graph_differentiate(g, y, of);
    const int zero = graph_number(g, 0);
    const int result = written(to, graph_copy(to, g, y, map));
    for (int k = 0; k < PASS_OUTPUTS; k++) output[k] = graph_copy(to, g, zero, map);
    for (int i = 0; i < graph->count; i++) {
        if (graph->node[i].op != G_X && graph->node[i].op != G_PARAM) continue;
        const int k = graph->node[i].op == G_X ? 0 : 1 + (int)graph->node[i].k;
        if (of[i] >= 0) output[k] = graph_copy(to, g, of[i], map);
        if (k >= outputs) outputs = k + 1;
        shape[k] = graph->node[i].shape;
    }
    output[0] = written(to, output[0]);
    p->forward_levels = plan_levels(p, p->forward, &result, 1, known);
    for (int i = 0; i < states; i++) p->tracked[i] = p->mean_at[map[tracked[i]]];
    p->backward_levels = plan_levels(p, p->backward, output, outputs, known);
    memcpy(p->backward[p->backward_levels].shape, shape, sizeof shape);
    p->curve.node[0] = p->means ? -1 : curve_of(to, result);
    p->curve.outputs = p->curve.node[0] >= 0;
    if (p->curve.outputs) plan(p, &p->curve, forgotten);
    free(g);
}
