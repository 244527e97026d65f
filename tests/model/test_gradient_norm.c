/* Norms alone: every gradient, that of the input included, against central differences, in
   double. */
#include "tests/support.h"

struct norm_case {
    struct lone_norm lone;
    real *x, *y, *dy;
    real *state; // before the forward
    size_t count;
};

static double norm_value(void *context) {
    struct norm_case *c = context;
    restore_values(&c->lone.lists.state, c->state);
    lone_norm_forward(&c->lone, c->y, c->x);
    return dot(c->count, c->y, c->dy);
}

/* B sequences of T tokens, each of several rows of C numbers, as heads are. */
struct size {
    size_t B, T, rows, C;
};

static void check_norm_with(const struct norm_kind *kind, const struct norm_options *options,
                            struct size size, const unsigned char *valid, bool training) {
    if (!kind->forward) return; // the identity has no gradient of its own: see test_norm.c
    struct norm_case c = {.count = size.B * size.T * size.rows * size.C};
    c.lone = lone_norm_with(kind, options, size.B, size.T * size.rows, size.C);
    c.lone.tokens.rows_per_token = size.rows;
    c.x = random_reals(c.count, 1);
    c.y = random_reals(c.count, 2);
    c.dy = random_reals(c.count, 3);
    real *dx = random_reals(c.count, 4), *noise = random_reals(c.lone.lists.param.size, 5);
    for (size_t i = 0; i < c.lone.lists.param.size; i++)
        c.lone.lists.param.value[i] += (real)0.2 * noise[i];
    c.lone.tokens.valid = valid;
    lone_norm_forward(&c.lone, c.y, c.x); // so that running statistics are not the initial ones
    c.state = copy_values(&c.lone.lists.state);
    c.lone.tokens.training = training;
    norm_value(&c);
    lone_norm_backward(&c.lone, dx, c.dy, c.x);
    expect_gradient("dx", norm_value, &c, c.count, c.x, dx, 1);
    for (int i = 0; kind->param[i].name; i++)
        expect_gradient(kind->param[i].name, norm_value, &c, c.lone.norm.param[i].size,
                        c.lone.norm.param[i].value, c.lone.norm.param[i].grad, 1);
}

/* Some positions have one valid token or none; and more than two row blocks, the first all pads. */
static const unsigned char *pads(size_t tokens) {
    static unsigned char few[3 * 7], many[10 * 7];
    for (size_t n = 0; n < sizeof few; n++) few[n] = n % 7 < 4 + n / 7;
    for (size_t n = 0; n < sizeof many; n++) many[n] = n >= ROWS && n % 7 != 3;
    return tokens == sizeof few ? few : many;
}

static void check_norm(const struct norm_kind *kind, const struct norm_options *options, size_t B,
                       size_t rows, size_t C) {
    for (int padded = 0; padded < 2; padded++)
        for (int training = 0; training < 2; training++)
            check_norm_with(kind, options, (struct size){B, 7, rows, C},
                            padded ? pads(B * 7) : NULL, training);
}

static void each_norm(const struct pair *pair) {
    const struct norm_kind *kind = norm_kinds[pair->norm];
    const struct norm_options options = small_norms();
    check_norm(kind, &options, 3, 1, 11);
    check_norm(kind, &options, 3, 1, 22);
    check_norm(kind, &options, 10, 1, 17);
    check_norm(kind, &options, 3, 2, 11);
    check_norm_with(kind, &options, (struct size){2, 2, 1, 1}, NULL, true);
    cr_expect(kind->name != NULL);
}

Test(gradient, norm) {
    every_norm(each_norm);
}

/* Kinds with options that change their formula. With an epsilon of 3.2, in the middle of the
   lengths of 11 normal numbers, some tokens are shorter than the least length, others longer. */
Test(gradient, norm_with_options) {
    static const struct {
        const char *norm, *option;
        double value;
        size_t C; // --pn-group-scaling needs a multiple of the heads
    } cases[] = {{"bn", "bn-axis", BN_AXIS_BATCH, 11},
                 {"bn", "bn-shards", 4, 11}, // with 3 sequences more than these
                 {"rms", "rms-fraction", 0.4, 17},
                 {"rms", "rms-fraction", 0, 11},
                 {"ts", "ts-prior-count", 0, 12},
                 {"scale", "norm-eps", 3.2, 11},
                 {"l2", "norm-eps", 3.2, 11},
                 {"pn", "pn-group-scaling", 1, 12},
                 {"pn", "pn-group-scaling", 0, 11}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct norm_options options = small_norms();
        options.heads = cases[i].C % 3 ? 1 : 3;
        norms_set(&options, cases[i].option, cases[i].value);
        gradient_case("%s, %s %g", cases[i].norm, cases[i].option, cases[i].value);
        check_norm(norm_find(cases[i].norm), &options, 3, 1, cases[i].C);
        check_norm(norm_find(cases[i].norm), &options, 10, 1, cases[i].C);
        let_go();
    }
}

static void each_choice(const struct norm_kind *kind, const struct option *option) {
    const int switches = option->kind == OPTION_SWITCH ? 2 : 0;
    for (int value = 0; switches ? value < switches : option->names && option->names[value];
         value++) {
        struct norm_options options = small_norms();
        norms_set(&options, option->name, value);
        gradient_case("%s, %s %d", kind->name, option->name, value);
        check_norm(kind, &options, 3, 1, 12);
        let_go();
    }
}

/* Each kind at each value of its choices. Without the gradient through a statistic there is nothing
   to compare with. */
Test(gradient, norm_at_each_choice) {
    int choices = 0;
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++)
        for (const struct option *const *option = (*kind)->options; *option; option++) {
            if (!strncmp((*option)->name, "norm-detach", strlen("norm-detach"))) continue;
            if ((*option)->kind != OPTION_SWITCH && (*option)->kind != OPTION_CHOICE) continue;
            each_choice(*kind, *option);
            choices++;
        }
    cr_expect(choices > 2);
}
