/* The language of norms:

     norm    = sum { ";" ( name [ "[1]" ] "=" sum | "groups" ) }
     sum     = product { ("+" | "-") product }
     product = factor { ("*" | "/") factor }
     factor  = "-" factor | atom [ "^" [ "-" ] number ]
     atom    = number | name | function "(" sum [ "," sum ] ")" | "(" sum ")"

   A name is x, C, an option of norms (eps is --norm-eps, bhyt_kappa is --bhyt-kappa), or a parameter.
   gamma starts at 1 and beta at 0; every other parameter is declared after a semicolon, with its
   initial value, so that a mistyped name is an error. It has one number for each channel, or with [1]
   a single one. */
#include "data/die.h"
#include "model/norm/formula.h"
#include "model/options/options.h"
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 64 }; // of parentheses

struct parser {
    const char *option, *at; // of which the text is a value; what comes next
    struct formula *f;
    struct norm_kind *typed; // the kind, if its parameters follow from the text; or NULL
    struct graph *g;
    bool start; // of a parameter's initial value
    int depth;
    bool used[NORM_TENSORS]; // parameters
};

/* ---- messages ---- */

static _Noreturn __attribute__((format(printf, 3, 4))) void
fail(const struct parser *p, const char *at, const char *format, ...) {
    char what[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    const char *text = p->f->graph.text;
    const int character = (int)(at - text) + 1;
    if (*at)
        die(STATUS_USAGE, "--%s: %s: character %d, \"%.16s\", of %s", p->option, what, character,
            at, text);
    die(STATUS_USAGE, "--%s: %s: after %s", p->option, what, text);
}

static const struct function {
    const char *name;
    int values;
    enum graph_op op; // if it is one node
} functions[] = {
    {"sqrt", 1, G_SQRT},  {"exp", 1, G_EXP},         {"log", 1, G_LOG},   {"tanh", 1, G_TANH},
    {"erf", 1, G_ERF},    {"sigmoid", 1, G_SIGMOID}, {"stop", 1, G_STOP}, {"max_c", 1, G_MAX_C},
    {"max", 2, G_MAX},    {"min", 2, G_OPS},         {"abs", 1, G_OPS},   {"relu", 1, G_OPS},
    {"sum_c", 1, G_OPS},  {"mean_c", 1, G_OPS},      {"var_c", 1, G_OPS}, {"rms_c", 1, G_OPS},
    {"mean_n", 1, G_OPS}, {"var_n", 1, G_OPS},       {"rms_n", 1, G_OPS}, {0}};

/* "did you mean ...?" for a mistyped function, or a mistyped value; otherwise all there are. */
static const char *names_near(const struct parser *p, const char *name, bool function) {
    static struct suggestions found;
    static const char *const values[] = {"x", "C", "eps", "gamma", "beta"};
    found = (struct suggestions){0};
    for (const struct function *f = functions; function && f->name; f++)
        suggestions_consider(&found, name, "", f->name);
    for (size_t i = 0; !function && i < sizeof values / sizeof *values; i++)
        suggestions_consider(&found, name, "", values[i]);
    for (int i = 0; !function && p->f->kind->param[i].name; i++)
        suggestions_consider(&found, name, "", formula_symbol(p->f->kind, i));
    return suggestions_text(
        &found,
        function ? "functions are sqrt exp log tanh erf sigmoid abs relu min max stop; over a "
                   "token's channels mean_c sum_c var_c rms_c max_c; over the batch mean_n var_n "
                   "rms_n"
                 : "names are x, gamma, beta, eps, C, and what is declared as in "
                   "alpha * x; alpha = 1");
}

/* ---- words ---- */

static char next(struct parser *p) {
    while (*p->at == ' ') p->at++;
    return *p->at;
}

static bool take(struct parser *p, char c) {
    if (next(p) != c) return false;
    p->at++;
    return true;
}

static void expect(struct parser *p, char c, const char *why) {
    if (!take(p, c)) fail(p, p->at, "expected %c%s", c, why);
}

/* A name, or "" if none comes next. */
struct word {
    const char *at;
    char text[32];
};

static struct word word_at(struct parser *p) {
    struct word w = {.at = (next(p), p->at)};
    size_t n = 0;
    while (isalnum((unsigned char)w.at[n]) || w.at[n] == '_') n++;
    if (isdigit((unsigned char)*w.at)) n = 0;
    if (n >= sizeof w.text) fail(p, w.at, "a name has at most %zu characters", sizeof w.text - 1);
    memcpy(w.text, w.at, n);
    p->at += n;
    return w;
}

static double number(struct parser *p) {
    char *end;
    const double k = strtod((next(p), p->at), &end);
    if (end == p->at || !isfinite(k)) fail(p, p->at, "expected a number, such as 0.5");
    if (isalnum((unsigned char)*end) || *end == '_' || *end == '.')
        fail(p, p->at, "this is no number (a product is written 2 * x)");
    p->at = end;
    return k;
}

/* ---- names ---- */

const char *formula_symbol(const struct norm_kind *kind, int i) {
    const struct norm_tensor *t = &kind->param[i];
    if (t->symbol) return t->symbol;
    return t->role == NORM_GAMMA ? "gamma" : t->role == NORM_BETA ? "beta" : t->name;
}

/* The parameter of this name, or -1. */
static int parameter(const struct parser *p, const char *name) {
    for (int i = 0; p->f->kind->param[i].name; i++)
        if (!strcmp(formula_symbol(p->f->kind, i), name)) return i;
    return -1;
}

static int add_parameter(const struct parser *p, const struct word *w, bool scalar) {
    const bool gamma = !strcmp(w->text, "gamma"), beta = !strcmp(w->text, "beta");
    int i = parameter(p, w->text);
    if (!p->typed || i >= 0) return i;
    for (i = 0; p->typed->param[i].name;) i++;
    if (i == NORM_TENSORS) fail(p, w->at, "a norm has at most %d parameters", NORM_TENSORS);
    p->typed->param[i] = (struct norm_tensor){.name = gamma  ? "weight"
                                                      : beta ? "bias"
                                                             : memory_text("%s", w->text),
                                              .role = gamma  ? NORM_GAMMA
                                                      : beta ? NORM_BETA
                                                             : NORM_OTHER,
                                              .scalar = scalar,
                                              .dimensions = scalar};
    return i;
}

/* Whether this is the name of the option, with _ for -, or eps. */
static bool names_option(const char *name, const struct option *option) {
    const char *of = option->name;
    if (!strcmp(name, "eps")) return option == &norm_eps;
    for (; *name && (*name == *of || (*name == '_' && *of == '-')); name++, of++) {
    }
    return !*name && !*of && (option->kind == OPTION_REAL || option->kind == OPTION_INT);
}

/* Adds the option, and --NAME-attn if there is one, to those of a typed formula. Returns its place. */
static int use_option(const struct parser *p, const struct option *option) {
    const struct option *const *list = norm_option_list();
    const size_t length = strlen(option->name);
    int i = 0, count = 0;
    while (p->typed->options[count]) count++;
    while (i < count && p->typed->options[i] != option) i++;
    if (i < count) return i;
    p->typed->options[count++] = option;
    for (; *list; list++)
        if (!strncmp((*list)->name, option->name, length) &&
            !strcmp((*list)->name + length, "-attn") && count < KIND_OPTIONS)
            p->typed->options[count++] = *list;
    if (count >= KIND_OPTIONS) fail(p, p->at, "a norm has too many options");
    return i;
}

/* The place of the option of this name in those of the kind, or -1. */
static int option_of(const struct parser *p, const char *name) {
    const struct option *const *list = norm_option_list();
    int i = 0;
    for (; p->f->kind->options[i]; i++)
        if (names_option(name, p->f->kind->options[i])) return i;
    while (*list && !names_option(name, *list)) list++;
    if (!p->typed || !*list) return -1;
    return use_option(p, *list);
}

/* ---- functions ---- */

static int mean_c(struct graph *g, int a) {
    return graph_divide(g, graph_sum(g, G_SUM_C, 0, a), graph_leaf(g, G_CHANNELS, SHAPE_ONE, 0));
}

static int mean_n(struct graph *g, int a, enum graph_mean mean) {
    return graph_sum(g, G_MEAN_N, mean, a);
}

/* (a - m)^2. The sum of these has no gradient through the mean m, as deviations add up to 0. */
static int deviation(struct graph *g, int a, int m) {
    return graph_power(g, graph_subtract(g, a, graph_function(g, G_STOP, m)), 2);
}

static int call(struct parser *p, const struct function *f, int a, int b) {
    struct graph *g = p->g;
    const char *is = f->name;
    const int zero = graph_number(g, 0), minus = graph_number(g, -1);
    const int eps =
        strncmp(is, "rms", 3) ? zero : graph_leaf(g, G_OPTION, SHAPE_ONE, option_of(p, "eps"));
    if (f->op == G_MAX) return graph_pair(g, G_MAX, a, b);
    if (f->op != G_OPS) return graph_function(g, f->op, a);
    if (!strcmp(is, "min")) {
        a = graph_multiply(g, a, minus), b = graph_multiply(g, b, minus);
        return graph_multiply(g, graph_pair(g, G_MAX, a, b), minus);
    }
    if (!strcmp(is, "relu")) return graph_pair(g, G_MAX, a, zero);
    if (!strcmp(is, "abs")) { // its slope at 0 is 0
        const int sign =
            graph_subtract(g, graph_pair(g, G_GREATER, a, zero), graph_pair(g, G_GREATER, zero, a));
        return graph_multiply(g, a, sign);
    }
    if (!strcmp(is, "sum_c")) return graph_sum(g, G_SUM_C, 0, a);
    if (!strcmp(is, "mean_c")) return mean_c(g, a);
    if (!strcmp(is, "var_c")) return mean_c(g, deviation(g, a, mean_c(g, a)));
    if (!strcmp(is, "mean_n")) return mean_n(g, a, MEAN_OF_VALUES);
    if (!strcmp(is, "var_n"))
        return mean_n(g, deviation(g, a, mean_n(g, a, MEAN_OF_VALUES)), MEAN_OF_VARIANCE);
    const int square = graph_power(g, a, 2);
    const int mean = !strcmp(is, "rms_c") ? mean_c(g, square) : mean_n(g, square, MEAN_OF_SQUARES);
    return graph_function(g, G_SQRT, graph_add(g, mean, eps));
}

/* ---- the grammar ---- */

static int sum(struct parser *p);

static int function_call(struct parser *p, const struct word *w) {
    const struct function *f = functions;
    while (f->name && strcmp(f->name, w->text)) f++;
    if (!f->name)
        fail(p, w->at, "there is no function %s (%s)", w->text, names_near(p, w->text, true));
    expect(p, '(', "");
    const int a = sum(p);
    if (f->values == 2) expect(p, ',', " and a second value");
    const int b = f->values == 2 ? sum(p) : -1;
    if (next(p) == ',') fail(p, p->at, "%s takes %s", f->name, b < 0 ? "one value" : "two values");
    expect(p, ')', " or an operator");
    return call(p, f, a, b);
}

static int name(struct parser *p, const struct word *w) {
    struct graph *g = p->g;
    const bool affine = !strcmp(w->text, "gamma") || !strcmp(w->text, "beta");
    int i;
    if (!strcmp(w->text, "C")) return graph_leaf(g, G_CHANNELS, SHAPE_ONE, 0);
    if ((i = option_of(p, w->text)) >= 0) return graph_leaf(g, G_OPTION, SHAPE_ONE, i);
    if (p->start) fail(p, w->at, "an initial value consists of numbers, options and C");
    if (!strcmp(w->text, "x")) return graph_leaf(g, G_X, SHAPE_FULL, 0);
    for (const struct function *f = functions; f->name; f++)
        if (!strcmp(w->text, f->name)) fail(p, p->at, "expected ( after the function %s", f->name);
    i = affine ? add_parameter(p, w, false) : parameter(p, w->text);
    if (i < 0)
        fail(p, w->at, "there is no value %s (%s; \"; %s = 1\" at the end declares it)", w->text,
             names_near(p, w->text, false), w->text);
    p->used[i] = true;
    return graph_leaf(g, G_PARAM, p->f->kind->param[i].scalar ? SHAPE_ONE : SHAPE_COL, i);
}

static int atom(struct parser *p) {
    const char c = next(p);
    if (take(p, '(')) {
        const int a = sum(p);
        expect(p, ')', " or an operator");
        return a;
    }
    if (isdigit((unsigned char)c) || c == '.') return graph_number(p->g, number(p));
    const struct word w = word_at(p);
    if (!*w.text)
        fail(p, w.at, "expected a value, such as x, 2 or mean_c(x)%s",
             c == '*'   ? " (a power is x^2)"
             : c == '|' ? " (an absolute value is abs(x))"
                        : "");
    return next(p) == '(' ? function_call(p, &w) : name(p, &w);
}

static int factor(struct parser *p) {
    if (++p->depth > DEPTH) fail(p, p->at, "too many parentheses and signs inside one another");
    int a = 0;
    if (take(p, '-')) {
        a = graph_multiply(p->g, factor(p), graph_number(p->g, -1));
    } else {
        a = atom(p);
        if (take(p, '^')) {
            const bool negative = take(p, '-');
            const double exponent = number(p);
            a = graph_power(p->g, a, negative ? -exponent : exponent);
        }
    }
    p->depth--;
    return a;
}

static int product(struct parser *p) {
    int a = factor(p);
    for (;;)
        if (take(p, '*'))
            a = graph_multiply(p->g, a, factor(p));
        else if (take(p, '/'))
            a = graph_divide(p->g, a, factor(p));
        else
            return a;
}

static int sum(struct parser *p) {
    int a = product(p);
    for (;;)
        if (take(p, '+'))
            a = graph_add(p->g, a, product(p));
        else if (take(p, '-'))
            a = graph_subtract(p->g, a, product(p));
        else
            return a;
}

/* Whether the name is that of gamma, beta or a running average in a model's file. */
static bool is_tensor(const char *name) {
    return !strcmp(name, "weight") || !strcmp(name, "bias") ||
           !strcmp(name, "num_batches_tracked") || !strncmp(name, "running_", 8);
}

/* What stands after the first semicolon, or the end if nothing does. */
static void declarations(struct parser *p) {
    struct formula *f = p->f;
    while (take(p, ';')) {
        const struct word w = word_at(p);
        const bool groups = !strcmp(w.text, "groups"), scalar = !groups && take(p, '[');
        if (!*w.text) fail(p, w.at, "expected a parameter, as in ; alpha = 1, or ; groups");
        if (groups && p->typed) use_option(p, &norm_groups);
        f->groups |= groups;
        if (groups) continue;
        if (scalar && (number(p) != 1 || next(p) != ']')) fail(p, p->at, "expected [1]");
        if (scalar) take(p, ']');
        for (const struct function *of = functions; of->name; of++)
            if (!strcmp(of->name, w.text)) fail(p, w.at, "%s is a function", w.text);
        if (!strcmp(w.text, "x") || !strcmp(w.text, "C") || !strcmp(w.text, "eps"))
            fail(p, w.at, "%s is no parameter", w.text);
        if (is_tensor(w.text))
            fail(p, w.at, "%s is the name of another tensor in a model's file", w.text);
        const int i = add_parameter(p, &w, scalar);
        if (i < 0 || f->start_of[i] >= 0 || f->kind->param[i].scalar != scalar)
            fail(p, w.at, "%s is declared twice", w.text);
        expect(p, '=', " and an initial value");
        f->start_of[i] = sum(p);
    }
    if (next(p)) fail(p, p->at, "expected ; or an operator");
}

/* ---- a formula ---- */

static void check(struct parser *p, const char *end) {
    const struct formula *f = p->f;
    const struct graph *g = &f->graph;
    if (*p->at == ')') fail(p, p->at, "this ) closes nothing");
    if (p->at != end) fail(p, p->at, "expected an operator, or ; before a declaration");
    for (int i = 0; f->kind->param[i].name; i++)
        if (!p->used[i])
            fail(p, g->text, "the parameter %s is not used", formula_symbol(f->kind, i));
    for (int i = 0; i < g->count; i++)
        if (g->node[i].op == G_NUMBER && !isfinite(g->node[i].k))
            fail(p, g->text, "a part of it that is constant has no finite value");
    for (int i = 0; f->groups && i < g->count; i++)
        if (g->node[i].op == G_MEAN_N)
            fail(p, end, "groups cannot be combined with mean_n, var_n and rms_n");
    if (graph_shape(g, f->y) != SHAPE_FULL)
        fail(p, g->text,
             graph_shape(g, f->y) & SHAPE_ROW
                 ? "the result is one number for each token, not one for each channel"
                 : "the result does not depend on x");
}

void formula_read(struct formula *f, struct norm_kind *typed, const char *option) {
    struct parser p = {.option = option, .f = f, .typed = typed};
    const char *text = f->kind->formula, *end = text + strcspn(text, ";");
    f->graph.text = f->start.text = text;
    memset(f->start_of, -1, sizeof f->start_of);
    p.at = end, p.g = &f->start, p.start = true;
    declarations(&p);
    p.at = text, p.g = &f->graph, p.start = false;
    f->y = sum(&p);
    check(&p, end);
}
