/* A sub-layer's tensors and memory. */
#include "model/sublayer.h"
#include <math.h>
#include <stdio.h>

/* What the two kinds of sub-layer are called in a state dict, after "transformer.h.0.". */
struct sublayer_names {
    const char *norm, *in, *proj;
};

static const struct sublayer_names attention_names = {"ln_1", "attn.c_attn", "attn.c_proj"};
static const struct sublayer_names mlp_names = {"ln_2", "mlp.c_fc", "mlp.c_proj"};

/* Standard deviations of initial weights. GPT-2's: 0.02, of projections into the stream 0.02 /
   sqrt(2L), unless the placement has a gain of its own (Radford et al. 2019, section 2.3).
   Xavier's: sqrt(2 / (in + out)), q, k and v being three matrices (Glorot and Bengio 2010, equation
   12, as a normal distribution). */
static double in_deviation(const struct sublayer *s, const struct sublayer_options *o) {
    double out = (double)(o->heads ? s->C : s->E), gain = o->heads ? 1 : o->gain;
    return gain * (o->xavier ? sqrt(2 / ((double)s->C + out)) : 0.02);
}

static double proj_deviation(const struct sublayer *s, const struct sublayer_options *o) {
    if (o->xavier) return o->gain * sqrt(2 / (double)(s->H + s->C));
    return o->placement->gain ? o->gain * 0.02 : 0.02 / sqrt(2.0 * (double)o->depth);
}

void sublayer_attach(struct sublayer *s, const struct sublayer_options *o, const real *x,
                     const struct layout *layout) {
    struct arena *arena = layout->arena;
    const struct placement *placement = o->placement;
    const struct sublayer_names *names = o->heads ? &attention_names : &mlp_names;
    size_t N = layout->B * layout->T, C = o->C;
    char name[64];
    *s = (struct sublayer){.C = C,
                           .E = o->heads ? 3 * C : 4 * C,
                           .H = o->heads ? C : 4 * C,
                           .heads = o->heads,
                           .activation = o->activation,
                           .a = placement->a ? placement->a(o->depth) : 1,
                           .s_factor = placement->s ? placement->s(o->layer) : 1,
                           .dual = placement->dual,
                           .second = o->second,
                           .dsecond = o->dsecond,
                           .gain = o->gain,
                           .dropout = o->dropout,
                           .seed = o->seed,
                           .x = x,
                           .site = 2 * o->layer + (o->heads ? 0 : 1)};

    // The first norm of a sub-layer has nanoGPT's name, the others say where they stand.
    struct norm *norms[] = {&s->pre, &s->out, &s->post};
    const bool wanted[] = {placement->pre, placement->out, placement->post};
    const char *const suffix[] = {"", "_out", "_post"};
    bool first = true;
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "transformer.h.%zu.%s%s", o->layer, names->norm,
                 first ? "" : suffix[i]);
        norm_attach(norms[i], wanted[i] ? o->norm : norm_find("none"), &o->norm_options,
                    wanted[i] ? name : "", C, layout);
        if (wanted[i]) first = false;
    }
    snprintf(name, sizeof name, "transformer.h.%zu.%s", o->layer, names->in);
    linear_attach(&s->in, name, C, s->E, o->bias, in_deviation(s, o), layout);
    // timm's names
    const struct norm_kind *none = norm_find("none");
    snprintf(name, sizeof name, "transformer.h.%zu.attn", o->layer);
    qk_norm_attach(&s->qk_norm, o->heads ? o->inner_norm : none, &o->norm_options, name, C,
                   o->heads, layout);
    snprintf(name, sizeof name, "transformer.h.%zu.mlp.norm", o->layer);
    norm_attach(&s->ffn_norm, o->heads ? none : o->inner_norm, &o->norm_options, name, s->H,
                layout);
    snprintf(name, sizeof name, "transformer.h.%zu.%s", o->layer, names->proj);
    linear_attach(&s->proj, name, s->H, C, o->bias, proj_deviation(s, o), layout);

    s->expanded = arena_reals(arena, N * s->E);
    if (s->heads || norm_pools(&s->ffn_norm)) s->inner = arena_reals(arena, N * s->H);
    if (s->heads) s->softmax = arena_reals(arena, 2 * N * s->heads);
    if (norm_present(&s->out)) s->projected = arena_reals(arena, N * C);
    if (o->norm_options.watch) s->dy_squares = arena_reals(arena, team_row_blocks(N));
    s->sum = s->y = arena_reals(arena, N * C);
    if (norm_present(&s->post)) s->y = arena_reals(arena, N * C);
}

void sublayer_scratch_need(struct sublayer_scratch *w, const struct sublayer *s, size_t T) {
    size_t size = ROWS * (s->H + s->C + (norm_present(&s->ffn_norm) ? 2 * s->H : 0));
    size_t attention = s->heads ? attention_scratch(T, s->C, s->heads) : 0;
    w->C = s->C;
    w->E = s->E;
    w->H = s->H;
    w->of_attention = s->heads > 0;
    w->needs_dsum |= norm_present(&s->post);
    w->needs_dout |= s->dropout > 0 || s->dual;
    w->needs_dprojected |= norm_present(&s->out);
    w->needs_dproj_in |= s->heads || norm_pools(&s->ffn_norm);
    w->needs_dqk |= s->qk_norm.heads > 0;
    w->needs_dnormed |= norm_pools(&s->pre);
    w->needs_normed |= sublayer_has_normed(s);
    if (size < attention) size = attention;
    if (w->thread_size < size) w->thread_size = (size + 15) / 16 * 16; // 64 bytes
}

void sublayer_scratch_attach(struct sublayer_scratch *w, size_t N, size_t threads,
                             struct arena *arena) {
    size_t C = w->C, ring = size_min(ring_rows(threads), N);
    if (w->needs_dsum) w->dsum = arena_reals(arena, N * C);
    if (w->needs_dout) w->dout = arena_reals(arena, N * C);
    if (w->needs_dprojected) w->dprojected = arena_reals(arena, N * C);
    if (w->needs_dnormed) w->dnormed = arena_reals(arena, N * C);
    if (w->needs_normed) w->normed = arena_reals(arena, ring * C);
    if (w->needs_dproj_in) w->dproj_in = arena_reals(arena, N * w->H);
    if (!w->of_attention) w->proj_in = arena_reals(arena, ring * w->H);
    for (int i = 0; w->needs_dqk && i < 2; i++) w->dqk[i] = arena_reals(arena, N * C);
    w->dexpanded = arena_reals(arena, (w->of_attention ? N : ring) * w->E);
    w->threads = arena_reals(arena, threads * w->thread_size);
}

void sublayer_initialize(const struct sublayer *s) {
    if (!s->heads || s->gain == 1) return;
    real *v = s->in.weight.value + 2 * s->C * s->C; // (C,C), after q's and k's
    for (size_t i = 0; i < s->C * s->C; i++) v[i] *= (real)s->gain;
}

void sublayer_prepare(const struct sublayer *s) {
    linear_prepare(&s->in);
    linear_prepare(&s->proj);
}

void sublayer_gradient(const struct sublayer *s, size_t N) {
    const struct norm *norms[] = {&s->pre, &s->out, &s->post, &s->ffn_norm};
    for (int i = 0; i < 4; i++) norm_gradient(norms[i], N);
    qk_norm_gradient(&s->qk_norm, N);
    linear_bias_gradient(&s->in, N);
    linear_bias_gradient(&s->proj, N);
}
