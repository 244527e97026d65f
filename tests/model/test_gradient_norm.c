/* Norms alone: every gradient, that of the input included, against central differences, in double. */
#include "tests/support.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* The norm, its options that are not the usual ones, and the size. */
static void name_case(const struct norm_kind *kind, const struct norm_options *options, size_t B,
                      size_t T, size_t C) {
    struct model_config config = small_config(norm_index(kind->name), 0);
    config.norms = *options;
    gradient_case("%s, B %zu, T %zu, C %zu", model_words(&config), B, T, C);
}

static void check_norm_with(const struct norm_kind *kind, const struct norm_options *options,
                            size_t B, size_t T, size_t C, const unsigned char *valid,
                            bool training) {
    if (!kind->forward) return; // the identity has no gradient of its own: see test_norm.c
    struct norm_case c = {.count = B * T * C};
    name_case(kind, options, B, T, C);
    c.lone = lone_norm_with(kind, options, B, T, C);
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
        expect_gradient(kind->param[i].name, norm_value, &c, norm_param_size(&c.lone.norm, i),
                        c.lone.norm.param[i].value, c.lone.norm.param[i].grad, 1);
}

static void check_norm(const struct norm_kind *kind, size_t B, size_t T, size_t C,
                       const unsigned char *valid, bool training) {
    check_norm_with(kind, &small_norms, B, T, C, valid, training);
}

static void each_norm(const struct pair *pair) {
    const struct norm_kind *kind = norm_kinds[pair->norm];
    unsigned char valid[3 * 7];
    for (size_t n = 0; n < sizeof valid; n++) valid[n] = n % 7 < 4 + n / 7;
    check_norm(kind, 3, 7, 11, NULL, true);
    check_norm(kind, 3, 7, 11, valid, true);
    check_norm(kind, 3, 7, 11, NULL, false);
    unsigned char sparse[10 * 7]; // more than two row blocks, the first all pads
    for (size_t n = 0; n < sizeof sparse; n++) sparse[n] = n >= ROWS && n % 7 != 3;
    check_norm(kind, 10, 7, 17, NULL, true);
    check_norm(kind, 10, 7, 17, sparse, true);
    check_norm(kind, 10, 7, 17, sparse, false);
    check_norm(kind, 2, 2, 1, NULL, true);
    check_norm(kind, 3, 7, 22, valid, true);
    cr_expect(kind->name != NULL);
}

Test(gradient, norm) {
    every_norm(each_norm);
}

/* Kinds with options that change their formula. */
Test(gradient, batchnorm_by_position) {
    const struct norm_kind *kind = norm_find("bn");
    struct norm_options options = small_norms;
    norms_set(&options, "bn-axis", BN_AXIS_BATCH);
    unsigned char valid[3 * 7], sparse[10 * 7];
    for (size_t n = 0; n < sizeof valid; n++)
        valid[n] = n % 7 < 4 + n / 7; // some positions have one valid token or none
    for (size_t n = 0; n < sizeof sparse; n++) sparse[n] = n >= ROWS && n % 7 != 3;
    check_norm_with(kind, &options, 3, 7, 11, NULL, true);
    check_norm_with(kind, &options, 3, 7, 11, valid, true);
    check_norm_with(kind, &options, 3, 7, 11, valid, false);
    check_norm_with(kind, &options, 10, 7, 17, sparse, true);
}

Test(gradient, batchnorm_by_shards) {
    const struct norm_kind *kind = norm_find("bn");
    struct norm_options options = small_norms;
    unsigned char sparse[10 * 7];
    for (size_t n = 0; n < sizeof sparse; n++) sparse[n] = n >= ROWS && n % 7 != 3;
    norms_set(&options, "bn-shards", 4);
    check_norm_with(kind, &options, 10, 7, 17, NULL, true);
    check_norm_with(kind, &options, 10, 7, 17, sparse, true);
    check_norm_with(kind, &options, 10, 7, 17, NULL, false);
    check_norm_with(kind, &options, 3, 7, 11, NULL, true); // fewer sequences than parts
}

Test(gradient, partial_rms_norm) {
    struct norm_options options = small_norms;
    norms_set(&options, "rms-fraction", 0.4);
    check_norm_with(norm_find("rms"), &options, 10, 7, 17, NULL, true);
    check_norm_with(norm_find("rms"), &options, 3, 7, 1, NULL, true);
    norms_set(&options, "rms-fraction", 0);
    check_norm_with(norm_find("rms"), &options, 3, 7, 11, NULL, true);
}

/* Tokens that are shorter than epsilon, and longer. */
Test(gradient, lengths_below_the_minimum) {
    struct norm_options options = small_norms;
    norms_set(&options, "norm-eps", 3.2); // of 11 normal numbers, near the middle
    check_norm_with(norm_find("scale"), &options, 3, 7, 11, NULL, true);
    check_norm_with(norm_find("l2"), &options, 3, 7, 11, NULL, true);
}

Test(gradient, power_norm_with_heads_and_without) {
    struct norm_options options = small_norms;
    options.heads = 3;
    check_norm_with(norm_find("pn"), &options, 6, 7, 12, NULL, true);
    check_norm_with(norm_find("pn"), &options, 6, 7, 12, NULL, false);
    norms_set(&options, "pn-group-scaling", 0);
    check_norm_with(norm_find("pn"), &options, 6, 7, 11, NULL, true);
    check_norm_with(norm_find("pn"), &options, 6, 7, 11, NULL, false);
}
