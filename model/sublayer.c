/* y = POST(a x + drop(OUT(proj(inner(in(PRE(x)))))))

   Backward, from dy to dx, each line one operation's:
     dsum = POST'(dy),  dout = drop(dsum),  dproj = OUT'(dout)
     dafter = proj'(dproj),  dbefore = inner'(dafter),  dnormed = in'(dbefore)
     dx = a dsum + PRE'(dnormed) */
#include "sublayer.h"
#include "blocks.h"
#include <stdio.h>

/* What the two kinds of sub-layer are called in a state dict, after "transformer.h.0.". */
struct sublayer_names {
    const char *norm, *in, *proj;
};

static const struct sublayer_names attention_names = {"ln_1", "attn.c_attn", "attn.c_proj"};
static const struct sublayer_names mlp_names = {"ln_2", "mlp.c_fc", "mlp.c_proj"};

static size_t most(size_t a, size_t b) {
    return a > b ? a : b;
}

static bool is_norm(const struct norm *norm) {
    return norm->kind->forward != NULL;
}

void sublayer_attach(struct sublayer *s, const struct sublayer_options *o, size_t B, size_t T,
                     struct tensor_lists *lists, struct arena *arena) {
    const struct placement *placement = o->placement;
    const struct sublayer_names *names = o->heads ? &attention_names : &mlp_names;
    size_t N = B * T, C = o->C;
    char name[64];
    *s = (struct sublayer){.C = C,
                           .hidden = o->heads ? 3 * C : 4 * C,
                           .mixed = o->heads ? C : 4 * C,
                           .heads = o->heads,
                           .activation = o->activation,
                           .a = placement->a,
                           .dropout = o->dropout,
                           .seed = o->seed,
                           .site = 2 * o->layer + (o->heads ? 0 : 1)};

    // The first norm of a sub-layer has nanoGPT's name, the others say where they stand.
    struct norm *norms[] = {&s->pre, &s->out, &s->post};
    const bool wanted[] = {placement->pre, placement->out, placement->post};
    const char *const suffix[] = {"", "_out", "_post"};
    bool first = true;
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "transformer.h.%zu.%s%s", o->layer, names->norm,
                 first ? "" : suffix[i]);
        norm_attach(norms[i], wanted[i] ? o->norm : norm_find("none"), &o->norm_options, name, N, C,
                    lists, arena);
        if (wanted[i]) first = false;
    }
    snprintf(name, sizeof name, "transformer.h.%zu.%s", o->layer, names->in);
    linear_attach(&s->in, name, C, s->hidden, o->bias, 0.02, &lists->param);
    snprintf(name, sizeof name, "transformer.h.%zu.%s", o->layer, names->proj);
    linear_attach(&s->proj, name, s->mixed, C, o->bias, o->proj_deviation, &lists->param);

    if (is_norm(&s->pre)) s->normed = arena_reals(arena, N * C);
    s->before = arena_reals(arena, N * s->hidden);
    s->after = arena_reals(arena, N * s->mixed);
    if (s->heads) s->logsum = arena_reals(arena, N * s->heads);
    if (is_norm(&s->out)) s->projected = arena_reals(arena, N * C);
    s->sum = arena_reals(arena, N * C);
    if (is_norm(&s->post)) s->y = arena_reals(arena, N * C);
}

size_t sublayer_scratch_size(const struct sublayer *s, size_t B, size_t T, size_t threads) {
    size_t size =
        most(linear_scratch(s->in.in, s->in.out), linear_scratch(s->proj.in, s->proj.out));
    if (s->heads) size = most(size, threads * attention_scratch(T, s->C, s->heads));
    const struct norm *norms[] = {&s->pre, &s->out, &s->post};
    for (int i = 0; i < 3; i++)
        if (norms[i]->kind->scratch) size = most(size, norms[i]->kind->scratch(B * T, s->C));
    return size;
}

/* The dropout of one of the sub-layer's two places in this pass; none in evaluation. */
static struct dropout dropout_at(const struct sublayer *s, const struct pass *pass,
                                 const char *place) {
    double p = pass->tokens.training ? s->dropout : 0;
    return dropout_make(p, p > 0 ? random_key(random_key(s->seed, place, pass->step), "", s->site)
                                 : 0);
}

/* sum (count) = a x + drop(f). */
static void residual_forward(size_t count, real *sum, real a, const real *x, const real *f,
                             struct dropout drop) {
    if (drop.threshold) {
#pragma omp parallel for
        for (size_t begin = 0; begin < count; begin += BLOCK) {
            size_t end = block_end(begin, count);
#pragma omp simd
            for (size_t i = begin; i < end; i++) sum[i] = a * x[i] + f[i] * dropout_factor(drop, i);
        }
    } else {
#pragma omp parallel for
        for (size_t begin = 0; begin < count; begin += BLOCK) {
            size_t end = block_end(begin, count);
#pragma omp simd
            for (size_t i = begin; i < end; i++) sum[i] = a * x[i] + f[i];
        }
    }
}

/* dx (count) = a dsum + dinner. */
static void residual_backward(size_t count, real *dx, real a, const real *dsum,
                              const real *dinner) {
#pragma omp parallel for
    for (size_t begin = 0; begin < count; begin += BLOCK) {
        size_t end = block_end(begin, count);
#pragma omp simd
        for (size_t i = begin; i < end; i++) dx[i] = a * dsum[i] + dinner[i];
    }
}

static void inner_forward(struct sublayer *s, const struct pass *pass, real *scratch) {
    size_t B = pass->tokens.B, T = pass->tokens.T;
    if (s->heads)
        attention_forward(B, T, s->C, s->heads, s->after, s->logsum, s->before,
                          dropout_at(s, pass, "attention"), scratch);
    else
        s->activation->forward(B * T * s->hidden, s->after, s->before);
}

static void inner_backward(struct sublayer *s, const struct pass *pass, real *dbefore,
                           const real *dafter, real *scratch) {
    size_t B = pass->tokens.B, T = pass->tokens.T;
    if (s->heads)
        attention_backward(B, T, s->C, s->heads, dbefore, dafter, s->after, s->logsum, s->before,
                           dropout_at(s, pass, "attention"), scratch);
    else
        s->activation->backward(B * T * s->hidden, dbefore, dafter, s->before);
}

real *sublayer_forward(struct sublayer *s, const struct pass *pass, real *x,
                       const struct sublayer_scratch *w) {
    const struct tokens *tokens = &pass->tokens;
    size_t N = tokens->B * tokens->T;
    s->x = x;
    real *normed = norm_forward(&s->pre, tokens, s->normed, x, w->scratch);
    linear_forward(&s->in, N, s->before, normed, w->scratch);
    inner_forward(s, pass, w->scratch);
    real *projected = s->projected ? s->projected : w->stream[0];
    linear_forward(&s->proj, N, projected, s->after, w->scratch);
    real *out = norm_forward(&s->out, tokens, w->stream[1], projected, w->scratch);
    residual_forward(N * s->C, s->sum, (real)s->a, x, out, dropout_at(s, pass, "residual"));
    return norm_forward(&s->post, tokens, s->y, s->sum, w->scratch);
}

void sublayer_backward(struct sublayer *s, const struct pass *pass, real *dx, real *dy,
                       const struct sublayer_scratch *w) {
    const struct tokens *tokens = &pass->tokens;
    size_t N = tokens->B * tokens->T;
    struct dropout drop = dropout_at(s, pass, "residual");
    real *dsum = norm_backward(&s->post, tokens, w->stream[0], dy, s->sum, w->scratch);
    real *dout = dsum;
    if (drop.threshold) dropout_apply(drop, N * s->C, dout = w->stream[1], dsum);
    real *dprojected = norm_backward(&s->out, tokens, w->stream[2], dout, s->projected, w->scratch);
    linear_backward(&s->proj, N, w->wide[0], dprojected, s->after, w->scratch);
    inner_backward(s, pass, w->wide[1], w->wide[0], w->scratch);
    real *dnormed = w->stream[1], *normed = s->normed ? s->normed : s->x;
    linear_backward(&s->in, N, dnormed, w->wide[1], normed, w->scratch);
    real *dinner = norm_backward(&s->pre, tokens, w->stream[2], dnormed, s->x, w->scratch);
    residual_backward(N * s->C, dx, (real)s->a, dsum, dinner);
}
