/* A sub-layer's tensors and memory. */
#include "model/sublayer.h"
#include "model/math/reduce.h"
#include <math.h>
#include <stdio.h>

/* The names of the two kinds of sub-layer in a state dict, after "transformer.h.0.". */
struct sublayer_names {
    const char *norm, *in, *proj;
};

static const struct sublayer_names attention_names = {"ln_1", "attn.c_attn", "attn.c_proj"};
static const struct sublayer_names mlp_names = {"ln_2", "mlp.c_fc", "mlp.c_proj"};

/* Standard deviations of initial weights: the rule's (initial.h), times the placement's factor. */
static double in_deviation(const struct sublayer *s, const struct sublayer_options *o) {
    const size_t out = o->heads ? s->C : s->H;
    return s->initial / s->initial_v * o->initial.rule->matrix(&o->initial, s->C, out);
}

static double proj_deviation(const struct sublayer *s, const struct sublayer_options *o) {
    const double std = o->initial.rule->matrix(&o->initial, s->H, s->C);
    if (o->placement->initial) return s->initial * std;
    return o->initial.rule->by_depth ? std / sqrt(2.0 * (double)o->depth) : std;
}

/* The factors of the initial weights. */
static void set_initial(struct sublayer *s, const struct sublayer_options *o) {
    const struct placement *placement = o->placement;
    s->initial = placement->initial ? placement->initial(o->layer, o->depth) : 1;
    s->initial_v = o->heads && !placement->initial_qk ? s->initial : 1;
}

/* Tokens of a sweep (sublayer_pass.c). A product reads its whole weight for each sweep, and a large
   weight has left the cache when the next one comes. More tokens read it less often, but their own
   values need more of the cache. Measured: PERFORMANCE.md. */
static size_t sweep_rows(size_t C) {
    return C >= 1024 ? 4 * ROWS : C >= 256 ? 2 * ROWS : ROWS;
}

/* The norms of the placement and of the connection. The first norm of a sub-layer has nanoGPT's
   name, `of`, the others say where they are. */
static void attach_norms(struct sublayer *s, const struct sublayer_options *o, const char *of,
                         const struct layout *layout) {
    const struct placement *placement = o->placement;
    char name[64];
    const char *read = o->connection.kind->norm;
    struct norm *norms[] = {&s->pre, &s->out, &s->post, &s->connection.norm};
    const bool wanted[] = {placement->pre, placement->out, placement->post, read};
    const char *const suffix[] = {"", "out", "post", read};
    bool first = true;
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "transformer.h.%zu.%s%s%s", o->layer, of, first ? "" : "_",
                 first ? "" : suffix[i]);
        norm_attach(norms[i], wanted[i] ? o->norm : norm_find("none"), &o->norm_options,
                    wanted[i] ? name : "", s->C, layout);
        if (wanted[i]) first = false;
    }
}

/* The learned factors of q and k, or of the MLP's hidden units. Adam moves the first sqrt(C) times
   as fast as a weight. */
static void attach_gain(struct sublayer *s, const struct sublayer_options *o,
                        const struct layout *layout) {
    char name[64];
    if (!o->placement->gains) return;
    size_t size = s->heads ? s->C : s->E, groups = s->heads ? 2 : 1;
    snprintf(name, sizeof name, "transformer.h.%zu.%s", o->layer, s->heads ? "sqk" : "su");
    gain_attach(&s->in_gain, name, size, groups, 1, s->heads ? sqrt((double)s->C) : 1, layout);
    s->in_gain.x = arena_reals(layout->arena, layout->B * layout->T * groups * size);
}

/* The vectors of both matrices that have a number for each channel of the stream. */
static void attach_unit(const struct sublayer *s, const struct sublayer_options *o,
                        const struct layout *layout) {
    if (!o->placement->unit) return;
    tensor_keep_unit(&layout->lists->param, s->in.weight, UNIT_ROWS);
    tensor_keep_unit(&layout->lists->param, s->proj.weight, UNIT_COLUMNS);
}

static void attach_connection(struct sublayer *s, const struct sublayer_options *o, const real *x,
                              const struct layout *layout) {
    const struct placement *placement = o->placement;
    struct connection_options options = o->connection;
    options.attention = o->heads > 0;
    options.C = s->C, options.layer = o->layer, options.depth = o->depth;
    options.a = placement->a ? placement->a(o->depth) : 1;
    options.b = placement->b ? placement->b(o->layer, o->depth) : 1;
    connection_attach(&s->connection, &options, x, layout);
}

void sublayer_attach(struct sublayer *s, const struct sublayer_options *o, const real *x,
                     const struct layout *layout) {
    struct arena *arena = layout->arena;
    const struct placement *placement = o->placement;
    const struct sublayer_names *names = o->heads ? &attention_names : &mlp_names;
    size_t N = layout->B * layout->T, C = o->C;
    char name[64];
    *s = (struct sublayer){.C = C,
                           .E = o->heads ? C + 2 * (C / o->heads) * o->kv_heads + o->gates
                                         : activation_inputs(o->activation, o->hidden),
                           .H = o->heads ? C : o->hidden,
                           .sweep = sweep_rows(C),
                           .heads = o->heads,
                           .rope = o->rope,
                           .activation = o->activation,
                           .s_factor = placement->s ? placement->s(o->layer) : 1,
                           .dropout = o->dropout,
                           .seed = o->seed,
                           .site = 2 * o->layer + (o->heads ? 0 : 1)};

    s->gate = (struct gate){C, o->heads ? o->gates : 0, s->E};
    set_initial(s, o);
    attach_norms(s, o, names->norm, layout);
    snprintf(name, sizeof name, "transformer.h.%zu.%s", o->layer, names->in);
    linear_attach(&s->in, name, C, s->E, o->bias, in_deviation(s, o), layout);
    // timm's names
    snprintf(name, sizeof name, "transformer.h.%zu.attn", o->layer);
    struct qkv_norm_options qkv = o->qkv_norm;
    qkv.C = C, qkv.heads = o->heads, qkv.kv_heads = o->kv_heads, qkv.others = o->gates;
    if (o->heads) qkv_norm_attach(&s->qkv_norm, &qkv, &o->norm_options, name, layout);
    const struct norm_kind *ffn = o->heads ? norm_find("none") : o->ffn_norm;
    snprintf(name, sizeof name, "transformer.h.%zu.mlp.norm", o->layer);
    norm_attach(&s->ffn_norm, ffn, &o->norm_options, ffn->forward ? name : "", s->H, layout);
    snprintf(name, sizeof name, "transformer.h.%zu.%s", o->layer, names->proj);
    linear_attach(&s->proj, name, s->H, C, o->bias, proj_deviation(s, o), layout);

    attach_connection(s, o, x, layout);
    attach_gain(s, o, layout);
    attach_unit(s, o, layout);
    s->expanded = arena_reals(arena, N * s->E);
    if (s->heads || norm_pools(&s->ffn_norm)) s->inner = arena_reals(arena, N * s->H);
    s->attention = (struct attention){.C = C,
                                      .NH = s->heads,
                                      .KV = o->kv_heads,
                                      .others = s->gate.G,
                                      .qkv = s->expanded,
                                      .softmax = arena_reals(arena, 2 * N * s->heads),
                                      .softcap = (real)o->softcap};
    s->projected = norm_present(&s->out) ? arena_reals(arena, N * C) : s->connection.f;
    if (o->norm_options.watch) s->dy_squares = arena_reals(arena, team_row_blocks(N));
    s->connection.sum = s->y = arena_reals(arena, N * C);
    if (norm_present(&s->post)) s->y = arena_reals(arena, N * C);
}

/* The size, in reals, of the scratch that a thread needs: four sweeps of rows (stage_call()), or
   attention's with T positions, which takes their place. */
static size_t thread_scratch(const struct sublayer *s, size_t T) {
    size_t sweeps = s->sweep * (3 * sublayer_widest(s) + s->C);
    struct attention of = s->attention;
    of.T = T;
    return size_max(sweeps, s->heads ? attention_scratch(&of) : 0);
}

static void need(struct place *place, bool needed, size_t size, bool ring) {
    if (needed) *place = (struct place){.size = size, .ring = ring};
}

void sublayer_scratch_need(struct sublayer_scratch *w, const struct sublayer *s, size_t T) {
    const size_t C = s->C, H = s->H, E = s->E, scratch = thread_scratch(s, T);
    const bool pools = s->heads && qkv_norm_pools(&s->qkv_norm);
    need(&w->dsum, norm_present(&s->post), C, false);
    need(&w->df, s->dropout > 0 || s->connection.has_df, C, false);
    need(&w->dprojected, norm_present(&s->out), C, false);
    need(&w->dproj_in, s->heads || norm_pools(&s->ffn_norm), H, false);
    need(&w->proj_in, !s->heads, H, true);
    need(&w->dexpanded, true, E, !s->heads);
    need(&w->dqkv, pools, E - s->gate.G, false);
    need(&w->dnormed, sublayer_keeps_dnormed(s), C, false);
    need(&w->du, norm_pools(&s->connection.norm), C, false);
    need(&w->normed, sublayer_has_normed(s), C, true);
    w->C = C, w->E = E, w->H = H;
    w->thread_size = size_max(w->thread_size, (scratch + 15) / 16 * 16); // 64 bytes
}

void sublayer_scratch_attach(struct sublayer_scratch *w, size_t N, size_t threads,
                             struct arena *arena) {
    const size_t ring = size_min(ring_rows(threads), N);
    struct place *const places[] = {&w->dsum,    &w->df,        &w->dprojected, &w->dproj_in,
                                    &w->proj_in, &w->dexpanded, &w->dqkv,       &w->dnormed,
                                    &w->du,      &w->normed};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (places[i]->size)
            places[i]->first = arena_reals(arena, (places[i]->ring ? ring : N) * places[i]->size);
    linear_operands_attach(&w->in, w->C, w->E, ring, arena);
    linear_operands_attach(&w->proj, w->H, w->C, ring, arena);
    w->threads = arena_reals(arena, threads * w->thread_size);
}

void sublayer_initialize(const struct sublayer *s) {
    if (s->initial_v == 1) return;
    const struct qkv_columns *at = &s->qkv_norm.at[QKV_V]; // rows of the weight, after q's and k's
    real *v = s->in.weight.value + at->first * s->C;
    for (size_t i = 0; i < at->width * s->C; i++) v[i] *= (real)s->initial_v;
}

void sublayer_prepare(const struct sublayer *s) {
    linear_prepare(&s->in);
    linear_prepare(&s->proj);
    connection_prepare(&s->connection);
}

void sublayer_gradient(const struct sublayer *s, const struct parts *parts) {
    const struct norm *norms[] = {&s->pre, &s->out, &s->post, &s->ffn_norm};
    for (int i = 0; i < 4; i++) norm_gradient(norms[i], parts);
    if (s->heads) qkv_norm_gradient(&s->qkv_norm, parts);
    linear_join(&s->in, parts);
    linear_join(&s->proj, parts);
    linear_bias_gradient(&s->in, parts);
    linear_bias_gradient(&s->proj, parts);
    gain_gradient(&s->in_gain, parts);
    connection_gradient(&s->connection, parts);
}

void sublayer_squares(struct range rows, size_t C, real *squares, const real *x) {
    for (size_t n = rows.begin, size; n < rows.end; n += ROWS, x += size) {
        size = (team_row_block(n, rows).end - n) * C;
        squares[n / ROWS] = row_dot(size, x, x);
    }
}
