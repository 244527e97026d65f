/* The formulas of this process, and the kinds of those that were typed (formula.h). */
#include "model/norm/formula.h"
#include "data/die.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 400 }; // characters of a formula

/* ---- training and evaluation ---- */

/* Marks the means over the batch that y depends on and no other mean does: those that evaluation
   replaces by running averages. */
static void mark_outer_means(const struct formula *f, bool *mean) {
    const struct graph *g = &f->graph;
    bool needed[GRAPH_NODES] = {0};
    needed[f->y] = true;
    for (int i = f->y; i >= 0; i--) { // a node before its operands
        const struct graph_node *n = &g->node[i];
        mean[i] = needed[i] && n->op == G_MEAN_N;
        if (!needed[i] || mean[i] || graph_is_leaf(g, i)) continue;
        needed[n->a] = true;
        if (n->b >= 0) needed[n->b] = true;
    }
}

/* Both programs. In evaluation, means over the batch are running averages. */
static void compile(struct formula *f, const char *option) {
    struct graph *evaluation = memory_take(1, sizeof *evaluation, "a formula");
    int map[GRAPH_NODES];
    bool mean[GRAPH_NODES] = {0};
    evaluation->text = f->graph.text;
    memset(map, -1, sizeof map);
    mark_outer_means(f, mean);
    for (int i = 0; i < f->graph.count; i++) {
        const struct graph_node *n = &f->graph.node[i];
        if (!mean[i]) continue;
        if (f->states == NORM_TENSORS - 1)
            die(STATUS_USAGE, "--%s: has more than %d means over the batch: %s", option,
                NORM_TENSORS - 1, f->graph.text);
        f->state_of[f->states] = i;
        f->state[f->states] = (enum graph_mean)n->k;
        map[i] = graph_leaf(evaluation, G_STATE, n->shape, f->states++);
    }
    const int y = graph_copy(evaluation, &f->graph, f->y, map);
    program_compile(&f->training, &f->graph, f->y, f->states, f->state_of);
    program_compile(&f->evaluation, evaluation, y, 0, NULL);
    free(evaluation);
}

/* ---- the formulas of this process ---- */

static const struct formula *make(const struct norm_kind *kind, struct norm_kind *typed,
                                  const char *option) {
    struct formula *f = memory_take(1, sizeof *f, "a formula");
    f->kind = kind;
    formula_read(f, typed, option);
    compile(f, option);
    return f;
}

const struct formula *formula_of(const struct norm_kind *kind) {
    static struct {
        const struct norm_kind *kind;
        const struct formula *formula;
    } made[NORM_KINDS_MAX];
    int i = 0;
    if (kind->typed || !kind->formula) return kind->typed;
    while (made[i].kind && made[i].kind != kind) i++;
    if (!made[i].kind) made[i].formula = make(kind, NULL, "norm"), made[i].kind = kind;
    return made[i].formula;
}

/* What the kind of a typed formula declares for its means over the batch. */
static void pool_over_batch(const struct formula *f, struct norm_kind *kind) {
    static const char *const names[] = {"running_mean", "running_var", "running_square"};
    static const char *const again[][NORM_TENSORS] = {
        {"running_mean_2", "running_mean_3", "running_mean_4"},
        {"running_var_2", "running_var_3", "running_var_4"},
        {"running_square_2", "running_square_3", "running_square_4"}};
    int before[GRAPH_MEANS] = {0}, options = 0;
    for (int i = 0; i < f->states; i++) {
        const char *name = names[f->state[i]];
        const int number = ++before[f->state[i]];
        if (number > 1) name = again[f->state[i]][number - 2];
        kind->state[i] = (struct norm_tensor){.name = name, .start = f->state[i] != MEAN_OF_VALUES};
    }
    kind->state[f->states] = (struct norm_tensor){"num_batches_tracked", .counts = true};
    while (kind->options[options]) options++;
    kind->options[options] = &norm_momentum;
    kind->by_parts = true;
    kind->statistics = formula_statistics;
    kind->gradient_statistics = formula_gradient_statistics;
}

/* The text without blanks at its ends, and with single ones between words. */
static char *without_blanks(const char *text) {
    char *copy = memory_text("%s", text), *to = copy;
    for (; *text; text++)
        if (!isspace((unsigned char)*text))
            *to++ = *text;
        else if (to > copy && to[-1] != ' ')
            *to++ = ' ';
    while (to > copy && to[-1] == ' ') to--;
    *to = 0;
    return copy;
}

struct norm_kind *formula_kind(const char *option, const char *text) {
    struct norm_kind *kind = memory_take(1, sizeof *kind, "a formula");
    if (strlen(text) > TEXT_MAX)
        die(STATUS_USAGE, "--%s: a formula has at most %d characters", option, TEXT_MAX);
    *kind = (struct norm_kind){.source = "a formula", COMPUTED_BY_FORMULA};
    kind->name = kind->formula = without_blanks(text);
    const struct formula *f = kind->typed = make(kind, kind, option);
    if (f->training.curve.outputs && !f->groups) kind->saturated = formula_saturated;
    if (f->states) pool_over_batch(f, kind);
    formula_find_terms(kind);
    return kind;
}

void formula_free(struct norm_kind *kind) {
    for (int i = 0; kind->param[i].name; i++)
        if (kind->param[i].role == NORM_OTHER) free((char *)kind->param[i].name);
    free((char *)kind->formula);
    free((struct formula *)kind->typed);
    free(kind);
}

const char *formula_add(const char *option, const char *text) {
    int last = 0;
    const char *end = text + strspn(text, " ");
    end += strcspn(end, "()*/+^; ");
    if (!end[strspn(end, " ")]) return NULL; // a word: the name of a kind
    struct norm_kind *kind = formula_kind(option, text);
    while (norm_kinds[last] && strcmp(norm_kinds[last]->name, kind->name) != 0) last++;
    if (last == NORM_KINDS_MAX) die(STATUS_USAGE, "--%s: too many different formulas", option);
    if (norm_kinds[last])
        formula_free(kind); // it was added before
    else
        norm_kinds[last] = kind;
    return norm_kinds[last]->name;
}

size_t formula_groups(const struct norm *norm) {
    return norm->formula->groups ? (size_t)norm_option(norm, &norm_groups).integer : 1;
}

/* Option i of the norm as a number; in an attention sub-layer that of --NAME-attn, if it is given. */
double formula_option(const struct norm *norm, int i) {
    const struct option *const *options = norm->kind->options;
    char name[64];
    snprintf(name, sizeof name, "%s-attn", options[i]->name);
    for (int k = 0; norm->attention && options[k]; k++)
        if (!strcmp(options[k]->name, name) && norm->option[k].real >= 0) i = k;
    return options[i]->kind == OPTION_REAL ? norm->option[i].real : (double)norm->option[i].integer;
}

void formula_constants(const struct norm *norm, const struct graph *g, double *value) {
    double option[KIND_OPTIONS] = {0};
    for (int i = 0; norm->kind->options[i]; i++) option[i] = formula_option(norm, i);
    graph_constants(g, (double)(norm->C / formula_groups(norm)), option, value);
}

double formula_start(const struct norm *norm, int i) {
    const struct formula *f = norm->formula;
    double value[GRAPH_NODES];
    if (f->start_of[i] < 0) return norm->kind->param[i].role == NORM_GAMMA;
    formula_constants(norm, &f->start, value);
    return value[f->start_of[i]];
}
