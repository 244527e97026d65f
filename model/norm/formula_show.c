/* --show-norm: a formula, its gradient step by step, and what it computes (formula.h).

   A value that is used more than once has a step of its own, and so has every sum. The others stand
   inside the steps that use them. */
#include "model/norm/formula_show.h"
#include "data/die.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* k times powers of nodes. */
struct product {
    double k;
    int count, node[GRAPH_NODES], power[GRAPH_NODES];
};

/* Whether the node is written out, as the step itself is, and not by its name. */
static bool is_open(const struct steps *s, int i, int step) {
    return i == step || !*s->name[i];
}

static void put_factor(struct product *p, int node, int power) {
    int i = 0;
    while (i < p->count && p->node[i] != node) i++;
    if (i == p->count) p->node[p->count] = node, p->power[p->count++] = 0;
    p->power[i] += power;
}

static void multiply(const struct steps *s, struct product *p, int i, int step) {
    const struct graph_node *n = &s->g.node[i];
    if (n->op == G_NUMBER) {
        p->k *= n->k;
    } else if (n->op == G_MUL && is_open(s, i, step)) {
        multiply(s, p, n->a, step);
        multiply(s, p, n->b, step);
    } else if (n->op == G_RECIP && is_open(s, i, step)) {
        put_factor(p, n->a, -1);
    } else {
        put_factor(p, i, n->op == G_RSQRT && is_open(s, i, step) ? -1 : 1); // -1: the square root
    }
}

int show_leaf(const struct graph *g, enum graph_op op, int k) {
    for (int i = 0; i < g->count; i++)
        if (g->node[i].op == op && (int)g->node[i].k == k) return i;
    return -1;
}

/* The factors of a node. Those that are means have taken their 1/C. */
static struct product product_of(const struct steps *s, int i, int step) {
    struct product p = {.k = 1};
    multiply(s, &p, i, step);
    for (int f = 0, count = p.count; f < count; f++)
        if (s->mean[p.node[f]] && p.node[f] != step)
            put_factor(&p, show_leaf(&s->g, G_CHANNELS, 0), p.power[f]);
    return p;
}

/* ---- naming ---- */

/* A sum that a product with too few 1/C uses, or something other than a product, is no mean. */
static void find_means(struct steps *s) {
    bool inner[GRAPH_NODES] = {0};
    if (show_leaf(&s->g, G_CHANNELS, 0) < 0) return;
    for (int i = 0; i < s->g.count; i++) s->mean[i] = s->g.node[i].op == G_SUM_C && !*s->name[i];
    for (int i = 0; i < s->g.count; i++) {
        const struct graph_node *n = &s->g.node[i];
        if (!s->needed[i] || n->a < 0) continue;
        const int operand[] = {n->a, n->b < 0 ? n->a : n->b};
        for (int k = 0; k < 2; k++)
            if (n->op == G_MUL)
                inner[operand[k]] |= s->g.node[operand[k]].op == G_MUL && s->uses[operand[k]] == 1;
            else
                s->mean[operand[k]] = false;
    }
    for (int i = 0; i < s->g.count; i++) {
        if (s->g.node[i].op != G_MUL || !s->needed[i] || inner[i]) continue;
        const struct product p = product_of(s, i, i);
        bool whole = true;
        for (int f = 0; f < p.count; f++)
            whole &= s->g.node[p.node[f]].op != G_CHANNELS || p.power[f] <= 0;
        for (int f = 0; f < p.count; f++) s->mean[p.node[f]] &= whole;
    }
}

static void name_steps(struct steps *s) {
    int count = 0;
    bool step[GRAPH_NODES] = {0};
    for (int i = 0; i < s->g.count; i++) {
        const struct graph_node *n = &s->g.node[i];
        if (!s->needed[i] || graph_is_leaf(&s->g, i) || s->constant[i]) continue;
        const bool sum = n->op >= G_SUM_C, alone = s->uses[i] == 1;
        step[i] |= sum || !alone;
        if (n->op != G_MUL || s->g.node[n->a].op != G_SUM_C || s->uses[n->a] != 1) continue;
        if (s->mean[n->a] && s->g.node[n->b].op == G_RECIP) step[i] = true, step[n->a] = false;
    }
    for (int i = 0; i < s->g.count; i++)
        if (step[i] && !*s->name[i]) snprintf(s->name[i], sizeof s->name[i], "t%d", ++count);
}

/* Takes the node of a gradient, unless it is 0 or has a name. */
static void name_gradient(struct steps *s, int leaf, const char *name) {
    const int i = leaf < 0 ? -1 : s->of[leaf];
    if (i < 0) return;
    graph_mark(&s->g, i, s->needed);
    if (!*s->name[i] && !graph_is_leaf(&s->g, i))
        snprintf(s->name[i], sizeof s->name[i], "d%s", name);
}

static struct steps *steps_of(const struct formula *f) {
    struct steps *s = memory_take(1, sizeof *s, "a formula");
    s->g = f->graph, s->y = f->y, s->kind = f->kind, s->formula = f;
    graph_differentiate(&s->g, s->y, s->of);
    graph_find_constants(&s->g, s->constant);
    graph_mark(&s->g, s->y, s->needed);
    if (!graph_is_leaf(&s->g, s->y)) strcpy(s->name[s->y], "y");
    name_gradient(s, show_leaf(&s->g, G_X, 0), "x");
    for (int i = 0; s->kind->param[i].name; i++)
        name_gradient(s, show_leaf(&s->g, G_PARAM, i), formula_symbol(s->kind, i));
    for (int i = 0; i < s->g.count; i++) {
        if (!s->needed[i]) continue;
        if (s->g.node[i].a >= 0) s->uses[s->g.node[i].a]++;
        if (s->g.node[i].b >= 0) s->uses[s->g.node[i].b]++;
    }
    find_means(s);
    name_steps(s);
    return s;
}

/* ---- printing ---- */

const char *show_option(const struct norm_kind *kind, int i) {
    static char name[64];
    snprintf(name, sizeof name, "%s", kind->options[i]->name);
    for (char *c = name; *c; c++) *c = *c == '-' ? '_' : *c;
    return kind->options[i] == &norm_eps ? "eps" : name;
}

static void print_leaf(const struct steps *s, const struct graph_node *n) {
    const int k = (int)n->k;
    switch (n->op) {
    case G_PARAM:
        printf(s->torch ? "self.%s" : "%s",
               s->torch ? show_attribute(s->kind, k) : formula_symbol(s->kind, k));
        break;
    case G_OPTION: printf(s->torch ? "self.%s" : "%s", show_option(s->kind, k)); break;
    case G_NUMBER: printf("%.*g", s->torch ? 15 : 6, n->k); break;
    default:
        fputs(n->op == G_CHANNELS ? "C"
              : n->op == G_HEIGHT ? "N"
              : n->op == G_X      ? "x"
                                  : "dy",
              stdout);
    }
}

/* Which running average a mean over the batch has. */
static void print_running(const struct steps *s, int i) {
    for (int k = 0; k < s->formula->states; k++)
        if (s->formula->state_of[k] == i)
            printf(", \"%s\", %s", s->kind->state[k].name,
                   s->formula->state[k] == MEAN_OF_VARIANCE ? "True" : "False");
}

static void print_factor(const struct steps *s, int i, int step) {
    static const char *const names[G_OPS] = {
        [G_MAX] = "max",         [G_GREATER] = "greater", [G_RECIP] = "1 / ",  [G_SQRT] = "sqrt",
        [G_RSQRT] = "sqrt",      [G_EXP] = "exp",         [G_LOG] = "log",     [G_TANH] = "tanh",
        [G_ERF] = "erf",         [G_STOP] = "stop",       [G_ADD] = "",        [G_MUL] = "",
        [G_SIGMOID] = "sigmoid", [G_SUM_C] = "sum_c",     [G_MAX_C] = "max_c", [G_SUM_B] = "sum_n",
        [G_MEAN_N] = "mean_n"};
    const struct graph_node *n = &s->g.node[i];
    if (graph_is_leaf(&s->g, i)) {
        print_leaf(s, n);
    } else if (!is_open(s, i, step)) {
        fputs(s->name[i], stdout);
    } else {
        const bool greater = n->op == G_GREATER && !s->torch;
        printf("%s(", s->mean[i] ? "mean_c" : greater ? "" : names[n->op]);
        show_sum(s, n->op == G_ADD || n->op == G_MUL ? i : n->a, n->op == G_ADD ? step : -1);
        if (n->op == G_MAX || n->op == G_GREATER) {
            fputs(greater ? " > " : ", ", stdout);
            show_sum(s, n->b, -1);
        }
        if (s->torch && n->op == G_MEAN_N) print_running(s, i);
        putchar(')');
    }
}

static void print_product(const struct steps *s, const struct product *p, int step) {
    const char *before = "";
    bool above = false;
    for (int f = 0; f < p->count; f++) above |= p->power[f] > 0;
    if (fabs(p->k) != 1 || !above) printf("%.*g", s->torch ? 15 : 6, fabs(p->k)), before = " * ";
    for (int sign = 1; sign >= -1; sign -= 2)
        for (int f = 0; f < p->count; f++) {
            const int power = p->power[f] * sign;
            if (power <= 0) continue;
            fputs(sign > 0 ? before : " / ", stdout);
            before = " * ";
            print_factor(s, p->node[f], step);
            if (power > 1) printf(s->torch ? "**%d" : "^%d", power);
        }
}

/* Prints the terms of one sign; returns whether there were any. */
static bool print_terms(const struct steps *s, int i, int step, bool negative, bool any) {
    const struct graph_node *n = &s->g.node[i];
    if (n->op == G_ADD && is_open(s, i, step)) {
        any = print_terms(s, n->a, step, negative, any);
        return print_terms(s, n->b, step, negative, any);
    }
    const struct product p = product_of(s, i, step);
    if ((p.k < 0) != negative) return any;
    fputs(negative ? (any ? " - " : "-") : any ? " + " : "", stdout);
    print_product(s, &p, step);
    return true;
}

void show_sum(const struct steps *s, int i, int step) {
    print_terms(s, i, step, true, print_terms(s, i, step, false, false));
}

/* The line of a gradient that is 0, or the value of another step. */
static void print_gradient(const struct steps *s, int leaf, const char *name) {
    const int i = leaf < 0 ? -1 : s->of[leaf];
    if (i >= 0 && *s->name[i] == 'd' && !strcmp(s->name[i] + 1, name)) return;
    printf("  d%s = ", name);
    if (i < 0)
        putchar('0');
    else
        print_factor(s, i, -1);
    putchar('\n');
}

static void print_steps(const struct steps *s) {
    puts("\nforward");
    if (!*s->name[s->y]) puts("  y = x");
    for (int i = 0; i < s->g.count; i++) {
        if (*s->name[i]) {
            printf("  %s = ", s->name[i]);
            show_sum(s, i, i);
            putchar('\n');
        }
        if (i == s->y) puts("\nbackward, from dy; sum_n is over the tokens of the batch");
    }
    print_gradient(s, show_leaf(&s->g, G_X, 0), "x");
    for (int i = 0; s->kind->param[i].name; i++)
        print_gradient(s, show_leaf(&s->g, G_PARAM, i), formula_symbol(s->kind, i));
}

/* ---- the formula, and what it computes ---- */

bool show_learns(const struct norm_tensor *t, const struct norm_options *options) {
    return t->role == NORM_OTHER || (options->affine && (options->bias || t->role != NORM_BETA));
}

static void print_values(const struct norm *norm, const struct norm_options *options) {
    const struct norm_kind *kind = norm->kind;
    size_t learned = 0;
    for (int i = 0; kind->param[i].name; i++) {
        const struct norm_tensor *t = &kind->param[i];
        const size_t size = t->scalar ? 1 : norm->C;
        printf("  %s: %zu %s, %s %g\n", formula_symbol(kind, i), size,
               size == 1 ? "number" : "numbers",
               show_learns(t, options) ? "learned, initially" : "always", formula_start(norm, i));
        if (show_learns(t, options)) learned += size;
    }
    for (int i = 0; kind->options[i]; i++) {
        const struct option *o = kind->options[i];
        if (show_leaf(&norm->formula->graph, G_OPTION, i) < 0 &&
            show_leaf(&norm->formula->start, G_OPTION, i) < 0 && o != &norm_groups)
            continue;
        printf(o->kind == OPTION_REAL ? "  --%s=%g\n" : "  --%s=%.0f\n", o->name,
               formula_option(norm, i));
    }
    printf("  %zu learned numbers in each norm of %zu channels (--n-embd)\n", learned, norm->C);
}

static void print_properties(const struct norm *norm) {
    static const struct {
        enum formula_change change;
        const char *name;
    } rows[] = {{SHIFT_OF_TOKEN, "a number added to a token's channels"},
                {SCALE_OF_TOKEN, "a token multiplied by a positive number"},
                {SHIFT_OF_CHANNEL, "a number added to a channel of all tokens"},
                {SCALE_OF_CHANNEL, "a channel multiplied by a positive number"}};
    static const char *const effects[] = {[EFFECT_NONE] = "changes nothing",
                                          [EFFECT_OF_EPS] = "changes nothing, up to eps",
                                          [EFFECT_SOME] = "changes the output",
                                          [EFFECT_UNKNOWN] = "unknown: the output is no number"};
    const struct formula *f = norm->formula;
    puts("\nproperties");
    printf("  %-42s  %s\n", "a token's output depends on",
           f->states ? "every token of the batch: later ones of its sequence, and other sequences; "
                       "in evaluation on running averages instead"
                     : "no other token");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        printf("  %-42s  %s\n", rows[i].name, effects[formula_effect(norm, rows[i].change)]);
    printf("  %-42s  %d forward, %d backward\n", "passes over the data",
           f->training.forward_levels + 1, f->training.backward_levels + 1);
}

void formula_show(const struct norm_kind *kind, const struct norm_options *options, size_t C,
                  bool torch) {
    struct norm norm = {.kind = kind, .formula = formula_of(kind), .name = "--show-norm", .C = C};
    if (!norm.formula && torch)
        die(STATUS_USAGE, "--as=pytorch: %s has no formula (--list-norms prints those that have)",
            kind->name);
    if (!norm.formula) {
        printf("%s: has no formula whose gradient could be shown: %s\n", kind->name,
               kind->words ? kind->words : kind->source);
        return;
    }
    for (int i = 0; kind->options[i]; i++) norm.option[i] = norm_setting(options, kind->options[i]);
    if (norm.formula->groups) norm_check_groups(&norm);
    struct steps *s = steps_of(norm.formula);
    if (torch) {
        s->torch = true;
        show_module(&norm, options, s);
        free(s);
        return;
    }
    printf("y = %s\n", kind->formula);
    print_values(&norm, options);
    print_steps(s);
    if (norm.formula->groups) puts("  where sum_c, mean_c and C are those of a group of channels");
    print_properties(&norm);
    free(s);
}
