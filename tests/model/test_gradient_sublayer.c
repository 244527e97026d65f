/* Norms alone, and a sub-layer alone: every gradient, that of the input included, against central
   differences, in double. Sub-layers have every norm, in combinations of sites and factors that the
   table of placements does not have. */
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

struct sublayer_case {
    struct sublayer sublayer;
    struct pass pass;
    struct sublayer_scratch scratch;
    real *x, *dy;
    real *noise;
    real *embedded;        // where further streams start
    struct connection end; // of these, if there are any
    real *d;               // dy, then the gradient of y
    struct tensor_list *states;
    real *state; // before the forward
    size_t count;
};

static double sublayer_value(void *context) {
    struct sublayer_case *c = context;
    restore_values(c->states, c->state);
    sublayer_prepare(&c->sublayer);
    sublayer_forward(&c->sublayer, &c->pass, &c->scratch);
    if (!c->end.kind) return dot(c->count, c->sublayer.y, c->dy);
    norm_statistics(&c->end.norm, &c->pass.tokens, c->end.norm_in);
    c->end.kind->functions->read(&c->end, &c->pass.tokens, c->pass.rows);
    return dot(c->count, connection_u(&c->end), c->dy);
}

/* dx (B,T,C), and the gradients of what the sub-layer and the end have learned. */
static void sublayer_gradients(struct sublayer_case *c, real *dx, const struct parts *parts) {
    const struct tokens *tokens = &c->pass.tokens;
    memcpy(c->d, c->dy, c->count * sizeof(real));
    if (c->end.kind) {
        norm_gradient_statistics(&c->end.norm, tokens, c->d, c->end.norm_in);
        c->end.kind->functions->read_backward(&c->end, tokens, c->pass.rows, c->d, NULL, c->d,
                                              NULL);
        connection_gradient(&c->end, parts);
    }
    sublayer_backward(&c->sublayer, &c->pass, dx, c->d, &c->scratch);
    sublayer_gradient(&c->sublayer, parts);
}

enum { B = 2, T = 5, C = 6 };

static struct sublayer_options small_options(const struct norm_kind *norm,
                                             const struct placement *placement,
                                             const struct qkv_norm_options *qkv, size_t heads) {
    struct norm_options norms = small_norms;
    if (heads) norms.heads = (int64_t)heads; // as those of a model
    return (struct sublayer_options){
        .placement = placement,
        .norm = norm,
        .qkv_norm = *qkv,
        .ffn_norm = qkv->kind[QKV_Q],
        .norm_options = norms,
        .depth = 2,
        .initial = {initial_rules, 0.02, 0.02},
        .connection = {.kind = placement_connection(placement), .lambda_start = -1},
        .activation = activations,
        .C = C,
        .heads = heads,
        .kv_heads = heads,
        .gates = qkv->over_width  ? heads
                 : qkv->scale > 1 ? C
                                  : 0,
        .hidden = 4 * C,
        .dropout = 0.2,
        .bias = true,
        .seed = 1};
}

/* The end of the connection's streams, if it has several. */
static void attach_end(struct sublayer_case *c, const struct sublayer_options *o,
                       const struct layout *layout) {
    const struct connection_kind *kind = o->connection.kind;
    struct connection_options end = o->connection;
    end.previous = &c->sublayer.connection;
    end.end = true;
    end.C = o->C, end.layer = end.depth = 1;
    end.a = end.b = 1;
    norm_attach(&c->end.norm, kind->norm || kind->final ? o->norm : norm_find("none"),
                &o->norm_options, "end", o->C, layout);
    if (kind->streams) connection_attach(&c->end, &end, c->sublayer.y, layout);
}

static void check_sublayer(const struct norm_kind *norm, const struct placement *placement,
                           const struct qkv_norm_options *qkv, size_t heads) {
    enum { REALS = 1 << 17 };
    struct tensor tensors[3][32];
    struct arena arena = held_arena(REALS * sizeof(real));
    struct tensor_lists lists = {0};
    struct tensor_list *list[] = {&lists.param, &lists.state, &lists.fixed};
    for (int i = 0; i < 3; i++)
        *list[i] = (struct tensor_list){.tensor = tensors[i],
                                        .value = arena_reals(&arena, 2048),
                                        .grad = arena_reals(&arena, 2048)};
    struct sublayer_options options = small_options(norm, placement, qkv, heads);
    const struct parts parts = parts_one(B * T);
    gradient_case("--norm=%s, row \"%s\", %s, q %s, v %s%s", norm->name, placement->name,
                  heads ? "attention" : "MLP", qkv->kind[QKV_Q]->name, qkv->kind[QKV_V]->name,
                  qkv->over_width ? " over the width" : "");
    struct sublayer_case c = {.pass = {.tokens = {.B = B, .T = T, .training = true, .parts = parts},
                                       .rows = {0, B * T},
                                       .step = 3},
                              .count = B * T * C};
    real **streams[] = {&c.x, &c.dy, &c.d, &c.embedded};
    for (uint64_t i = 0; i < 4; i++) *streams[i] = random_reals(c.count, 11 + i);
    const struct layout layout = {B, T, &lists, &arena};
    options.connection.embedded = c.embedded;
    sublayer_attach(&c.sublayer, &options, c.x, &layout);
    attach_end(&c, &options, &layout);
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
    sublayer_gradients(&c, dx, &parts);
    double typical = fmax(largest(lists.param.size, lists.param.grad), largest(c.count, dx));
    expect_gradient("dx", sublayer_value, &c, c.count, c.x, dx, typical);
    if (c.sublayer.connection.dembedded)
        expect_gradient("dembedded", sublayer_value, &c, c.count, c.embedded,
                        c.sublayer.connection.dembedded, typical);
    for (size_t i = 0; i < lists.param.count; i++) {
        const struct tensor *t = &lists.param.tensor[i];
        expect_gradient(t->name, sublayer_value, &c, t->size, lists.param.value + t->offset,
                        lists.param.grad + t->offset, typical);
    }
}

static double more(size_t depth) {
    return 1.7;
}

static double less(size_t layer) {
    return 0.6;
}

static double half(size_t layer, size_t L) {
    return 0.5;
}

static void each_sublayer(const struct pair *pair) {
    static const struct placement rows[] = {
        {.name = "pre, out and post", .pre = true, .out = true, .post = true, .a = more, .b = half},
        {.name = "factors alone", .a = more, .b = half, .s = less},
        {.name = "all", .pre = true, .out = true, .post = true, .a = more, .b = half, .s = less},
        {.name = "out", .out = true, .b = half},
        {.name = "pre", .pre = true},
        {.name = "post", .post = true},
        {.name = "gains", .pre = true, .gains = true},
    };
    const struct norm_kind *norm = norm_kinds[pair->norm], *none = norm_find("none");
    const struct qkv_norm_options inner[] = {
        {.kind = {norm, norm, norm}},
        {.kind = {none, norm, none}, .over_width = true, .scale = 0.7},
        {.kind = {norm, none, norm}, .scale = 1.3},
        {.kind = {none, none, none}}};
    enum { COUNT = sizeof rows / sizeof *rows };
    for (int kind = 0, i = 0; connection_kinds[kind]; kind++)
        for (int row = 0; row < COUNT; row++) {
            // every row with the first connection, and each of the others with some
            if (kind && (row + kind) % 3 != 0) continue;
            struct placement placement = rows[row];
            placement.connection = connection_kinds[kind]->name;
            if (placement_refuses(&placement, connection_kinds[kind])) continue;
            for (size_t heads = 0; heads <= 2; heads += 2, i++)
                check_sublayer(norm, &placement, &inner[i / 2 % 4], heads);
        }
}

Test(gradient, sublayer) {
    every_norm(each_sublayer);
}
