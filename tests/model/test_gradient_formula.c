/* Norms that are formulas: against the kernels of the kinds whose formula they are, and against
   central differences, of random formulas too. In double. */
#include "model/norm/formula.h"
#include "tests/support.h"
#include <stdlib.h>
#include <string.h>

struct norm_case {
    struct lone_norm lone;
    real *x, *y, *dy, *dx, *state;
    size_t count;
};

/* Forward and backward of x from a stream of its key. */
static struct norm_case run_case(const struct norm_kind *kind, const struct norm_options *options,
                                 size_t B, size_t C, const unsigned char *valid, bool training) {
    struct norm_case c = {.count = B * 7 * C};
    c.lone = lone_norm_with(kind, options, B, 7, C);
    c.x = random_reals(c.count, 1), c.dy = random_reals(c.count, 3);
    c.y = random_reals(c.count, 2), c.dx = random_reals(c.count, 4);
    for (int i = 0; kind->param[i].name; i++) { // by name, as kinds order them differently
        struct param *p = &c.lone.norm.param[i];
        const char *symbol = formula_symbol(kind, i);
        const real *noise = random_reals(p->size, 5 + (uint64_t)symbol[0] * 256 + symbol[1]);
        for (size_t k = 0; k < p->size; k++) p->value[k] += (real)0.2 * noise[k];
    }
    c.lone.tokens.valid = valid;
    lone_norm_forward(&c.lone, c.y, c.x); // so that running statistics are not the initial ones
    c.state = copy_values(&c.lone.lists.state);
    c.lone.tokens.training = training;
    lone_norm_forward(&c.lone, c.y, c.x);
    lone_norm_backward(&c.lone, c.dx, c.dy, c.x);
    return c;
}

/* Some tokens at the ends of sequences are pads; or in row blocks, of which the first has no other. */
static const unsigned char *pads(size_t B) {
    static unsigned char few[3 * 7], many[10 * 7];
    for (size_t n = 0; n < sizeof few; n++) few[n] = n % 7 < 4 + n / 7;
    for (size_t n = 0; n < sizeof many; n++) many[n] = n >= ROWS && n % 7 != 3;
    return B == 3 ? few : many;
}

static int parameter_of(const struct norm_kind *kind, const char *symbol) {
    int i = 0;
    while (strcmp(formula_symbol(kind, i), symbol)) i++;
    return i;
}

static void compare(const struct norm_kind *kind, const struct norm_kind *formula, size_t B,
                    size_t C, bool padded, bool training) {
    const struct norm_options options = small_norms();
    const struct norm_case a = run_case(kind, &options, B, C, padded ? pads(B) : NULL, training);
    const struct norm_case b = run_case(formula, &options, B, C, padded ? pads(B) : NULL, training);
    expect_close("y", a.count, b.y, a.y, 1e-12);
    expect_close("dx", a.count, b.dx, a.dx, 1e-11);
    for (int i = 0; kind->param[i].name; i++) {
        const struct param *p = &a.lone.norm.param[i];
        const int of = parameter_of(formula, formula_symbol(kind, i));
        expect_close(kind->param[i].name, p->size, b.lone.norm.param[of].grad, p->grad, 1e-11);
    }
    for (int i = 0; a.lone.norm.state[i]; i++)
        expect_close("running", C, b.lone.norm.state[i], a.lone.norm.state[i], 1e-12);
}

/* What --list-norms prints is what a kernel computes. */
Test(gradient, kernels_compute_their_formulas) {
    int compared = 0;
    for (int k = 0; norm_kinds[k]; k++) {
        const struct norm_kind *kind = norm_kinds[k];
        if (!kind->formula || !kind->forward || kind->by_formula) continue;
        struct norm_kind *formula = formula_kind("norm", kind->formula);
        for (int i = 0; i < 16; i++) {
            gradient_case("%s, case %d", kind->name, i);
            compare(kind, formula, i & 1 ? 10 : 3, i & 2 ? 11 : 18, i & 4, i & 8);
            let_go();
        }
        formula_free(formula);
        compared++;
    }
    cr_expect(compared >= 4);
}

/* A model whose norms, of queries, keys and values too, are of one kind, and its gradient of a batch
   of 20 sequences, some of which end with pads. Weights follow from their names. */
static struct model model_of(int norm, bool over_width, double *loss) {
    struct model_config config = small_config(norm, 0);
    struct batch batch = make_batch(20, 32, SMALL_V, 1);
    config.block_size = 32;
    config.micro_batch_tokens = 1; // as few as there may be
    config.qk_norm = config.v_norm = INNER_NORM_KINDS + norm;
    config.qk_norm_over = over_width ? EXTENT_WIDTH : EXTENT_HEAD;
    batch.valid = batch.marks;
    for (size_t n = 0; n < 20 * 32; n++) {
        batch.valid[n] = n % 32 < 1 + 3 * (n / 32) % 40;
        if (!batch.valid[n]) batch.targets[n] = -1;
    }
    struct model model = held_model(&config, SMALL_V, 20, 1);
    struct tensor_list *param = &model.lists.param;
    for (size_t i = 0; i < param->count; i++) {
        const struct tensor *t = &param->tensor[i];
        uint64_t key = 0;
        for (const char *c = t->name; *c; c++) key = key * 31 + (unsigned char)*c;
        const real *noise = random_reals(t->size, key);
        for (size_t k = 0; k < t->size; k++) param->value[t->offset + k] += (real)0.3 * noise[k];
    }
    param->version++;
    model_zero_grad(&model);
    *loss = model_gradient(&model, &batch, 0, 1);
    return model;
}

static const struct tensor *tensor_named(const struct tensor_list *list, const char *name) {
    const struct tensor *t = list->tensor;
    while (strcmp(t->name, name) != 0) t++;
    return t;
}

Test(gradient, kernels_compute_their_formulas_in_models) {
    int compared = 0;
    for (int k = 0; norm_kinds[k]; k++) {
        const struct norm_kind *kind = norm_kinds[k];
        if (!kind->formula || !kind->forward || kind->by_formula) continue;
        const int formula = norm_index(formula_add("norm", kind->formula));
        for (int over_width = 0; over_width < 2; over_width++) {
            double loss[2];
            gradient_case("%s, over_width %d", kind->name, over_width);
            const struct model a = model_of(k, over_width, &loss[0]);
            const struct model b = model_of(formula, over_width, &loss[1]);
            cr_expect(a.rows == b.rows && fabs(loss[0] - loss[1]) < 1e-12);
            for (size_t i = 0; i < a.lists.param.count; i++) {
                const struct tensor *t = &a.lists.param.tensor[i];
                const struct tensor *of = tensor_named(&b.lists.param, t->name);
                const double off = difference(t->size, b.lists.param.grad + of->offset,
                                              a.lists.param.grad + t->offset);
                cr_expect(off < 1e-13, "%s: off by %g", t->name, off); // some are 0
            }
            compared += a.rows < 20 * 32;
            let_go();
        }
    }
    cr_expect(compared >= 4, "%d in micro-batches", compared);
}

/* ---- random formulas ---- */

static uint64_t draws;

static int draw(int below) {
    draws = draws * 6364136223846793005u + 1442695040888963407u;
    return (int)(draws >> 33) % below;
}

/* Appends a random expression, of functions without poles. */
static void expression(char *text, int depth) {
    static const char *const leaves[] = {"x", "x", "gamma", "beta", "alpha", "s", "0.7", "1.5"};
    static const char *const forms[] = {"(A + A)",
                                        "(A - A)",
                                        "A * A",
                                        "A / (1 + (A)^2)",
                                        "tanh(A)",
                                        "sigmoid(A)",
                                        "erf(A)",
                                        "exp(-(A)^2)",
                                        "log(1.5 + (A)^2)",
                                        "sqrt(0.5 + (A)^2)",
                                        "mean_c(A)",
                                        "sum_c(A) / C",
                                        "var_c(A)",
                                        "A / rms_c(A)",
                                        "max(A, B)",
                                        "min(A, B)",
                                        "abs(A)",
                                        "relu(A)",
                                        "max_c(A)",
                                        "mean_n(A)",
                                        "var_n(A)",
                                        "A / rms_n(1 + A)",
                                        "(0.5 + sigmoid(A))^1.5",
                                        "(1 + sigmoid(A))^-2.2"};
    const char *form = depth ? forms[draw(sizeof forms / sizeof *forms)] : leaves[draw(8)];
    for (; *form; form++) {
        char c[2] = {*form};
        if (*form == 'A' || *form == 'B')
            expression(text, depth - 1);
        else
            strcat(text, c);
    }
}

static char *random_formula(int seed) {
    static char text[4000], used[100];
    draws = (uint64_t)seed;
    strcpy(text, "x + x * ");
    expression(text, 1 + draw(3));
    strcat(text, " + gamma * ");
    expression(text, draw(3));
    used[0] = 0;
    if (strstr(text, "alpha")) strcat(used, "; alpha = 0.6");
    for (char *s = text; (s = strchr(s, 's')); s++)
        if ((s == text || strchr(" (", s[-1])) && strchr(" ),;^", s[1])) {
            strcat(used, "; s[1] = 0.4");
            break;
        }
    return strcat(text, used);
}

static double norm_value(void *context) {
    struct norm_case *c = context;
    restore_values(&c->lone.lists.state, c->state);
    lone_norm_forward(&c->lone, c->y, c->x);
    return dot(c->count, c->y, c->dy);
}

/* The least distance of two values whose larger one the formula takes: near 0 it has a kink. */
static double nearest_kink(const struct formula *f, const struct norm_case *c) {
    const size_t N = c->lone.tokens.B * 7, C = c->lone.norm.C;
    double option[] = {1e-5}, least = 1, *value = hold(GRAPH_NODES * N * C * sizeof *value);
    struct graph_input in = {N, C, (double *)c->x, (double *)c->dy, .option = option};
    for (int i = 0; f->kind->param[i].name; i++)
        in.param[i] = (double *)c->lone.norm.param[i].value;
    graph_values(&f->graph, &in, value);
    for (int i = 0; i < f->graph.count; i++) {
        const struct graph_node *n = &f->graph.node[i];
        for (size_t e = 0; e < N * C; e++) {
            const double *of = value + e;
            double gap = 1;
            if (n->op == G_MAX || n->op == G_GREATER)
                gap = fabs(of[(size_t)n->a * N * C] - of[(size_t)n->b * N * C]);
            if (n->op == G_MAX_C) {
                gap = fabs(of[(size_t)i * N * C] - of[(size_t)n->a * N * C]);
                if (gap == 0) gap = 1;
            }
            if (gap < least) least = gap;
        }
    }
    if (c->lone.tokens.training)
        expect_close("y by its graph", c->count, c->y, (real *)value + (size_t)f->y * N * C, 1e-9);
    return least;
}

static bool check_random(int seed, bool training) {
    const struct norm_options options = small_norms();
    const char *text = random_formula(seed);
    if (strlen(text) > 390) return false;
    struct norm_kind *kind = formula_kind("norm", text);
    gradient_case("%s (seed %d)", text, seed);
    struct norm_case c = run_case(kind, &options, 3, 5, NULL, training);
    const bool smooth = nearest_kink(formula_of(kind), &c) > 1e-4;
    norm_value(&c);
    if (smooth) expect_gradient("dx", norm_value, &c, c.count, c.x, c.dx, 1);
    for (int i = 0; smooth && kind->param[i].name; i++)
        expect_gradient(kind->param[i].name, norm_value, &c, c.lone.norm.param[i].size,
                        c.lone.norm.param[i].value, c.lone.norm.param[i].grad, 1);
    formula_free(kind);
    let_go();
    return smooth;
}

Test(gradient, random_formulas) {
    const int formulas = SANITIZED ? 100 : sweep() ? 20000 : 1000;
    int checked = 0;
    for (int seed = 0; checked < formulas; seed++) checked += check_random(seed, seed % 4 > 0);
}
