/* A sub-layer alone: every gradient against central differences, in double, for every norm, in
   combinations of sites and factors that the table of placements does not have. */
#include "tests/support.h"
#include <criterion/parameterized.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct sublayer_case {
    struct sublayer sublayer;
    struct pass pass;
    struct sublayer_scratch scratch;
    real *x, *dy;
    real *noise;
    real *r, *dr; // the second stream, and the gradient of what the sub-layer makes of it
    struct tensor_list *states;
    real *state; // before the forward
    size_t count;
};

static double sublayer_value(void *context) {
    struct sublayer_case *c = context;
    restore_values(c->states, c->state);
    sublayer_prepare(&c->sublayer);
    sublayer_forward(&c->sublayer, &c->pass, &c->scratch);
    double value = dot(c->count, c->sublayer.y, c->dy);
    return c->sublayer.dual ? value + dot(c->count, c->sublayer.second, c->dr) : value;
}

static void case_free(struct sublayer_case *c) {
    real *owned[] = {c->x, c->dy, c->r, c->dr, c->state, c->noise};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
}

enum { B = 2, T = 5, C = 6 };

static struct sublayer_options small_options(const struct norm_kind *norm,
                                             const struct placement *placement,
                                             const struct qkv_norm_options *qkv, size_t heads) {
    return (struct sublayer_options){.placement = placement,
                                     .norm = norm,
                                     .qkv_norm = *qkv,
                                     .ffn_norm = qkv->kind[QKV_Q],
                                     .norm_options = small_norms,
                                     .depth = 2,
                                     .lambda_start = -1,
                                     .initial = {initial_rules, 0.02},
                                     .activation = activations,
                                     .C = C,
                                     .heads = heads,
                                     .kv_heads = heads,
                                     .hidden = 4 * C,
                                     .dropout = 0.2,
                                     .bias = true,
                                     .seed = 1};
}

static void check_sublayer(const struct norm_kind *norm, const struct placement *placement,
                           const struct qkv_norm_options *qkv, size_t heads) {
    enum { REALS = 1 << 17 };
    struct tensor tensors[3][32];
    struct arena arena = {.base = calloc(REALS, sizeof(real))};
    struct tensor_lists lists = {0};
    struct tensor_list *list[] = {&lists.param, &lists.state, &lists.fixed};
    for (int i = 0; i < 3; i++)
        *list[i] = (struct tensor_list){.tensor = tensors[i],
                                        .value = arena_reals(&arena, 2048),
                                        .grad = arena_reals(&arena, 2048)};
    struct sublayer_options options = small_options(norm, placement, qkv, heads);
    const struct parts parts = parts_one(B * T);
    struct sublayer_case c = {.pass = {.tokens = {.B = B, .T = T, .training = true, .parts = parts},
                                       .rows = {0, B * T},
                                       .step = 3},
                              .count = B * T * C};
    real **streams[] = {&c.x, &c.dy, &c.r, &c.dr};
    for (uint64_t i = 0; i < 4; i++) *streams[i] = random_reals(c.count, 11 + i);
    options.second_in = c.r;
    options.second = arena_reals(&arena, c.count);
    options.dsecond = arena_reals(&arena, c.count);
    sublayer_attach(&c.sublayer, &options, c.x, &(struct layout){B, T, &lists, &arena});
    sublayer_scratch_need(&c.scratch, &c.sublayer, T);
    sublayer_scratch_attach(&c.scratch, B * T, 1, &arena);
    real *dx = arena_reals(&arena, c.count);
    cr_assert(arena.used < REALS * sizeof(real) && lists.param.size < 2048);
    for (int i = 0; i < 3; i++) tensor_initialize(list[i], 1);
    c.noise = random_reals(lists.param.size, 3);
    for (size_t i = 0; i < lists.param.size; i++) lists.param.value[i] += (real)0.3 * c.noise[i];
    c.states = &lists.state;
    sublayer_prepare(&c.sublayer);
    sublayer_forward(&c.sublayer, &c.pass, &c.scratch);
    c.state = copy_values(&lists.state);
    sublayer_value(&c);
    memcpy(options.dsecond, c.dr, c.count * sizeof(real));
    sublayer_backward(&c.sublayer, &c.pass, dx, c.dy, &c.scratch);
    sublayer_gradient(&c.sublayer, &parts);
    double typical = fmax(largest(lists.param.size, lists.param.grad), largest(c.count, dx));
    expect_gradient("dx", sublayer_value, &c, c.count, c.x, dx, typical);
    if (placement->dual)
        expect_gradient("dr", sublayer_value, &c, c.count, c.r, options.dsecond, typical);
    for (size_t i = 0; i < lists.param.count; i++) {
        const struct tensor *t = &lists.param.tensor[i];
        expect_gradient(t->name, sublayer_value, &c, t->size, lists.param.value + t->offset,
                        lists.param.grad + t->offset, typical);
    }
    case_free(&c);
    free(arena.base);
}

static double more(size_t depth) {
    return 1.7;
}

static double less(size_t depth) {
    return 0.6;
}

#define LAMBDA(kind, is_vector)                                                                    \
    { .form = (kind), .vector = (is_vector), .name = {"one", "two"}, .start = half }

static double third(size_t width) {
    return 1 / 3.0;
}

static double half(size_t layer, size_t L) {
    return 0.5;
}

ParameterizedTestParameters(gradient, sublayer) {
    return every_norm();
}

ParameterizedTest(struct pair *pair, gradient, sublayer) {
    static const struct placement rows_of_its_own[] = {
        {.name = "all", .pre = true, .out = true, .post = true, .a = more, .s = less},
        {.name = "out", .out = true, .a = less},
        {.name = "pre and out", .pre = true, .out = true},
        {.name = "factors alone", .a = less, .s = more},
        {.name = "all, two streams",
         .pre = true,
         .out = true,
         .post = true,
         .dual = true,
         .reads = true,
         .a = more,
         .b = less,
         .s = less},
        {.name = "reads without pre", .dual = true, .reads = true, .b = more},
        {.name = "adds", .post = true, .dual = true, .b = less},
        {.name = "branch", .pre = true, .a = less, .lambda = LAMBDA(LAMBDA_BRANCH, false)},
        {.name = "branches", .pre = true, .out = true, .lambda = LAMBDA(LAMBDA_BRANCH, true)},
        {.name = "mix", .out = true, .post = true, .lambda = LAMBDA(LAMBDA_MIX, true)},
        {.name = "mix of one", .post = true, .lambda = LAMBDA(LAMBDA_MIX, false)},
        {.name = "stream", .out = true, .post = true, .lambda = LAMBDA(LAMBDA_STREAM, true)},
        {.name = "gains", .pre = true, .gains = true},
        {.name = "scaled mix",
         .out = true,
         .gains = true,
         .lambda = {LAMBDA_MIX, true, {"one", "two"}, half, .scale = third}},
    };
    const struct norm_kind *norm = norm_kinds[pair->norm], *none = norm_find("none");
    const struct qkv_norm_options inner[] = {
        {.kind = {norm, norm, norm}},
        {.kind = {none, norm, none}, .over_width = true, .scale = 0.7},
        {.kind = {norm, none, norm}, .scale = 1.3},
        {.kind = {none, none, none}}};
    enum { COUNT = sizeof rows_of_its_own / sizeof *rows_of_its_own };
    for (int row = 0; row < COUNT; row++)
        for (size_t heads = 0; heads <= 2; heads += 2)
            check_sublayer(norm, &rows_of_its_own[row], &inner[row % 4], heads);
}
