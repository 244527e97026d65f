/* y = POST(a x + drop(OUT(proj(inner(in(s PRE(x)))))))

   Backward, from dy to dx, each line one operation's:
     dsum = POST'(dy),  dout = drop(dsum),  dprojected = OUT'(dout)
     dafter = proj'(dprojected),  dbefore = inner'(dafter),  dnormed = in'(dbefore)
     dx = a dsum + PRE'(s dnormed)

   Both directions are cut into stages where a token meets others: attention, and norms that pool
   over tokens. Between two such meetings a thread takes its rows block by block through all
   operations, so that a block's values are used again while they lie in the cache. Backward goes
   slab by slab, and after each slab all threads add its part to the weights' gradients, from values
   that were just made; the sum over tokens runs from slab to slab in order. */
#include "sublayer.h"
#include "profile.h"
#include <stdio.h>

/* What the two kinds of sub-layer are called in a state dict, after "transformer.h.0.". */
struct sublayer_names {
    const char *norm, *in, *proj;
};

static const struct sublayer_names attention_names = {"ln_1", "attn.c_attn", "attn.c_proj"};
static const struct sublayer_names mlp_names = {"ln_2", "mlp.c_fc", "mlp.c_proj"};

static bool is_norm(const struct norm *norm) {
    return norm->kind->forward != NULL;
}

void sublayer_attach(struct sublayer *s, const struct sublayer_options *o, const real *x, size_t B,
                     size_t T, struct tensor_lists *lists, struct arena *arena) {
    const struct placement *placement = o->placement;
    const struct sublayer_names *names = o->heads ? &attention_names : &mlp_names;
    size_t N = B * T, C = o->C;
    char name[64];
    *s = (struct sublayer){.C = C,
                           .hidden = o->heads ? 3 * C : 4 * C,
                           .mixed = o->heads ? C : 4 * C,
                           .heads = o->heads,
                           .activation = o->activation,
                           .a = placement->a ? placement->a(o->depth) : 1,
                           .s = placement->s ? placement->s(o->layer) : 1,
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
        norm_attach(norms[i], wanted[i] ? o->norm : norm_find("none"), &o->norm_options, name, B, T,
                    C, lists, arena);
        if (wanted[i]) first = false;
    }
    snprintf(name, sizeof name, "transformer.h.%zu.%s", o->layer, names->in);
    linear_attach(&s->in, name, C, s->hidden, o->bias, 0.02 * (s->heads ? 1 : o->gain), N,
                  &lists->param, arena);
    snprintf(name, sizeof name, "transformer.h.%zu.%s", o->layer, names->proj);
    linear_attach(&s->proj, name, s->mixed, C, o->bias, o->proj_deviation, N, &lists->param, arena);

    s->before = arena_reals(arena, N * s->hidden);
    if (s->heads) {
        s->after = arena_reals(arena, N * C);
        s->logsum = arena_reals(arena, N * s->heads);
    }
    if (is_norm(&s->out)) s->projected = arena_reals(arena, N * C);
    s->sum = s->y = arena_reals(arena, N * C);
    if (is_norm(&s->post)) s->y = arena_reals(arena, N * C);
}

/* Tokens of a slab: enough blocks for all threads, and a multiple of the products' depth, so that
   their sums are cut at the same tokens whatever the number of threads. */
static size_t slab_rows(size_t threads) {
    return 256 * ((threads * ROWS + 255) / 256);
}

/* Tokens of which what backward computes again is kept: the slab in hand, and the one before, which
   other threads may still be reading. */
static size_t kept_rows(size_t threads) {
    return 2 * slab_rows(threads);
}

/* Whether PRE's output is another array than x. */
static bool has_normed(const struct sublayer *s) {
    return is_norm(&s->pre) || s->s != 1;
}

void sublayer_scratch_need(struct sublayer_scratch *w, const struct sublayer *s, size_t T) {
    size_t own = ROWS * (s->mixed + s->C);
    size_t attention = s->heads ? attention_scratch(T, s->C, s->heads) : 0;
    w->C = s->C;
    w->hidden = s->hidden;
    w->mixed = s->mixed;
    w->of_attention = s->heads > 0;
    w->needs_dsum |= is_norm(&s->post);
    w->needs_dout |= s->dropout > 0;
    w->needs_dprojected |= is_norm(&s->out);
    w->needs_dnormed |= norm_pools(&s->pre);
    w->needs_normed |= has_normed(s);
    if (own < attention) own = attention;
    if (w->own_size < own) w->own_size = (own + 15) / 16 * 16; // 64 bytes
}

void sublayer_scratch_attach(struct sublayer_scratch *w, size_t N, size_t threads,
                             struct arena *arena) {
    size_t C = w->C, kept = kept_rows(threads) < N ? kept_rows(threads) : N;
    if (w->needs_dsum) w->dsum = arena_reals(arena, N * C);
    if (w->needs_dout) w->dout = arena_reals(arena, N * C);
    if (w->needs_dprojected) w->dprojected = arena_reals(arena, N * C);
    if (w->needs_dnormed) w->dnormed = arena_reals(arena, N * C);
    if (w->needs_normed) w->normed = arena_reals(arena, kept * C);
    if (w->of_attention)
        w->dafter = arena_reals(arena, N * C);
    else
        w->after = arena_reals(arena, kept * w->mixed);
    w->dbefore = arena_reals(arena, (w->of_attention ? N : kept) * w->hidden);
    w->own = arena_reals(arena, threads * w->own_size);
}

void sublayer_initialize(const struct sublayer *s) {
    if (!s->heads || s->gain == 1) return;
    real *v = s->in.weight.value + 2 * s->C * s->C; // (C,C), behind those of q and k
    for (size_t i = 0; i < s->C * s->C; i++) v[i] *= (real)s->gain;
}

static real *own_scratch(const struct sublayer_scratch *w) {
    return w->own + (size_t)omp_get_thread_num() * w->own_size;
}

void sublayer_prepare(const struct sublayer *s) {
    linear_prepare(&s->in);
    linear_prepare(&s->proj);
}

/* The dropout of one of the sub-layer's two places in this pass; none in evaluation. */
static struct dropout dropout_at(const struct sublayer *s, const struct pass *pass,
                                 const char *place) {
    double p = pass->tokens.training ? s->dropout : 0;
    return dropout_make(p, p > 0 ? random_key(random_key(s->seed, place, pass->step), "", s->site)
                                 : 0);
}

/* sum (count) = a x + drop(f), elements counted from `first`. */
static void residual_forward(size_t first, size_t count, real *sum, real a, const real *x,
                             const real *f, struct dropout drop) {
    if (drop.threshold) {
#pragma omp simd
        for (size_t i = 0; i < count; i++)
            sum[i] = a * x[i] + f[i] * dropout_factor(drop, first + i);
    } else {
#pragma omp simd
        for (size_t i = 0; i < count; i++) sum[i] = a * x[i] + f[i];
    }
    profile_lap(PROFILE_ELEMENTWISE);
}

/* dx (count) = a dsum + dinner. */
static void residual_backward(size_t count, real *dx, real a, const real *dsum,
                              const real *dinner) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) dx[i] = a * dsum[i] + dinner[i];
    profile_lap(PROFILE_ELEMENTWISE);
}

/* The stages: PRE and in; inner and proj; OUT and the sum; POST. Each begins where a token may have
   to meet others. Backward goes through them from the last to the first. */
enum stage { IN, PROJ, SUM, Y, STAGES };

static bool meets(const struct sublayer *s, int stage) {
    const bool meeting[STAGES] = {[IN] = norm_pools(&s->pre),
                                  [PROJ] = s->heads > 0,
                                  [SUM] = norm_pools(&s->out),
                                  [Y] = norm_pools(&s->post)};
    return meeting[stage];
}

/* One call of forward or backward, with the buffers that it uses. */
struct call {
    struct sublayer *s;
    const struct pass *pass;
    const struct sublayer_scratch *w;
    struct dropout drop;
    real *own;                                 // (ROWS,mixed), then (ROWS,C), of the thread
    const real *dy, *dsum, *dout, *dprojected; // backward
    real *dx;
    size_t slab, kept; // slab_rows(), kept_rows()
};

/* Element `offset` of a buffer, NULL of a buffer that is not there. */
static inline real *from(real *buffer, size_t offset) {
    return buffer ? buffer + offset : NULL;
}

/* Where a token's values inside the sub-layer lie: an MLP keeps those of a few tokens only. */
static inline size_t inner_row(const struct call *c, size_t n) {
    return c->s->heads ? n : n % c->kept;
}

/* Where proj's output for a block goes, and the gradient of in's input: to the thread's own memory,
   unless another stage than the next wants them. */
static inline real *projected(const struct call *c, size_t n) {
    return c->s->projected ? c->s->projected + n * c->s->C : c->own + ROWS * c->s->mixed;
}

static inline real *dnormed(const struct call *c, size_t n) {
    return norm_pools(&c->s->pre) ? c->w->dnormed + n * c->s->C : c->own + ROWS * c->s->mixed;
}

/* What each stage does with a block of M rows, from token n = rows.begin on. */

/* to (count) = s from, in place or not. */
static void scale(size_t count, real *to, real s, const real *from) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) to[i] = s * from[i];
    profile_lap(PROFILE_ELEMENTWISE);
}

/* s PRE(x) of a block: in y, or x itself. */
static const real *pre_forward(const struct call *c, struct rows rows, size_t n, size_t M,
                               real *y) {
    const struct sublayer *s = c->s;
    const real *normed = norm_forward(&s->pre, &c->pass->tokens, rows, y, s->x + n * s->C);
    if (s->s == 1) return normed;
    scale(M * s->C, y, (real)s->s, normed);
    return y;
}

static void in_forward(const struct call *c, struct rows rows, size_t n, size_t M) {
    const struct sublayer *s = c->s;
    const real *normed = pre_forward(c, rows, n, M, c->own);
    linear_forward(&s->in, M, s->before + n * s->hidden, normed);
}

static void proj_forward(const struct call *c, struct rows rows, size_t n, size_t M) {
    (void)rows;
    const struct sublayer *s = c->s;
    real *after = s->heads ? s->after + n * s->C : c->own;
    if (!s->heads) {
        s->activation->forward(M * s->hidden, after, s->before + n * s->hidden);
        profile_lap(PROFILE_ELEMENTWISE);
    }
    linear_forward(&s->proj, M, projected(c, n), after);
}

static void sum_forward(const struct call *c, struct rows rows, size_t n, size_t M) {
    const struct sublayer *s = c->s;
    const real *f = norm_forward(&s->out, &c->pass->tokens, rows, c->own, projected(c, n));
    residual_forward(n * s->C, M * s->C, s->sum + n * s->C, (real)s->a, s->x + n * s->C, f,
                     c->drop);
}

static void y_forward(const struct call *c, struct rows rows, size_t n, size_t M) {
    (void)M;
    const struct sublayer *s = c->s;
    norm_forward(&s->post, &c->pass->tokens, rows, s->y + n * s->C, s->sum + n * s->C);
}

static void y_backward(const struct call *c, struct rows rows, size_t n, size_t M) {
    const struct sublayer *s = c->s;
    size_t at = n * s->C;
    const real *dsum = norm_backward(&s->post, &c->pass->tokens, rows, from(c->w->dsum, at),
                                     c->dy + at, s->sum + at);
    if (!c->drop.threshold) return;
    dropout_apply(c->drop, at, M * s->C, c->w->dout + at, dsum);
    profile_lap(PROFILE_ELEMENTWISE);
}

static void sum_backward(const struct call *c, struct rows rows, size_t n, size_t M) {
    const struct sublayer *s = c->s;
    size_t at = n * s->C;
    const real *dprojected =
        norm_backward(&s->out, &c->pass->tokens, rows, from(c->w->dprojected, at), c->dout + at,
                      from(s->projected, at));
    real *dafter = s->heads ? c->w->dafter + at : c->own;
    linear_backward(&s->proj, n / ROWS, M, dafter, dprojected);
}

static void proj_backward(const struct call *c, struct rows rows, size_t n, size_t M) {
    const struct sublayer *s = c->s;
    size_t inner = inner_row(c, n);
    real *dbefore = c->w->dbefore + inner * s->hidden;
    if (!s->heads) {
        s->activation->backward(M * s->hidden, dbefore, c->w->after + inner * s->mixed, c->own,
                                s->before + n * s->hidden);
        profile_lap(PROFILE_ELEMENTWISE);
    }
    linear_backward(&s->in, n / ROWS, M, dnormed(c, n), dbefore);
    if (s->s != 1) scale(M * s->C, dnormed(c, n), (real)s->s, dnormed(c, n));
    // once more, for the gradient of in's weight
    if (has_normed(s)) pre_forward(c, rows, n, M, c->w->normed + n % c->kept * s->C);
}

static void in_backward(const struct call *c, struct rows rows, size_t n, size_t M) {
    const struct sublayer *s = c->s;
    size_t at = n * s->C;
    const real *dinner =
        norm_backward(&s->pre, &c->pass->tokens, rows, c->own, dnormed(c, n), s->x + at);
    residual_backward(M * s->C, c->dx + at, (real)s->a, c->dsum + at, dinner);
}

typedef void stage_function(const struct call *c, struct rows rows, size_t n, size_t M);
static stage_function *const forward_stages[STAGES] = {in_forward, proj_forward, sum_forward,
                                                       y_forward};
static stage_function *const backward_stages[STAGES] = {in_backward, proj_backward, sum_backward,
                                                        y_backward};

/* The thread's share of these rows, block by block through the stages first .. last, up or down. */
static void run_stages(const struct call *c, stage_function *const *stages, int first, int last,
                       struct rows all) {
    struct rows own = team_rows(all);
    int step = first <= last ? 1 : -1;
    for (size_t n = own.begin; n < own.end; n += ROWS) {
        struct rows rows = row_block(n, own);
        for (int stage = first; stage != last + step; stage += step)
            stages[stage](c, rows, n, rows.end - n);
    }
}

static void attention_meets(const struct call *c, bool backward) {
    const struct sublayer *s = c->s;
    const struct tokens *tokens = &c->pass->tokens;
    struct dropout drop = dropout_at(s, c->pass, "attention");
    team_barrier();
    if (backward)
        attention_backward(tokens->B, tokens->T, s->C, s->heads, c->w->dbefore, c->w->dafter,
                           s->logsum, s->before, drop, c->own);
    else
        attention_forward(tokens->B, tokens->T, s->C, s->heads, c->pass->rows.begin % tokens->T,
                          s->after, s->logsum, s->before, drop, c->own);
    team_barrier();
}

/* The meeting at the begin of a stage, all threads together. */
static void meet_forward(const struct call *c, int stage) {
    const struct sublayer *s = c->s;
    const struct tokens *tokens = &c->pass->tokens;
    if (stage == IN) norm_statistics(&s->pre, tokens, s->x);
    if (stage == PROJ && s->heads) attention_meets(c, false);
    if (stage == SUM) norm_statistics(&s->out, tokens, s->projected);
    if (stage == Y) norm_statistics(&s->post, tokens, s->sum);
}

static void meet_backward(const struct call *c, int stage) {
    const struct sublayer *s = c->s;
    const struct tokens *tokens = &c->pass->tokens;
    if (stage == Y) norm_gradient_statistics(&s->post, tokens, c->dy, s->sum);
    if (stage == SUM) norm_gradient_statistics(&s->out, tokens, c->dout, s->projected);
    if (stage == PROJ && s->heads) attention_meets(c, true);
    if (stage == IN) norm_gradient_statistics(&s->pre, tokens, c->w->dnormed, s->x);
}

/* The slab's part of the weights' gradients, as far as the stages first .. last made them known. */
static void weight_gradients(const struct call *c, int first, int last, struct rows slab) {
    const struct sublayer *s = c->s;
    bool proj = first >= SUM && SUM >= last, in = first >= PROJ && PROJ >= last;
    if (!proj && !in) return;
    team_barrier();
    size_t n = slab.begin, M = slab.end - n, inner = inner_row(c, n);
    const real *after = s->heads ? s->after : c->w->after;
    const real *normed = has_normed(s) ? c->w->normed + n % c->kept * s->C : s->x + n * s->C;
    if (proj)
        linear_gradient(&s->proj, M, c->dprojected + n * s->C, s->C, after + inner * s->mixed);
    if (in) linear_gradient(&s->in, M, c->w->dbefore + inner * s->hidden, s->hidden, normed);
}

void sublayer_forward(struct sublayer *s, const struct pass *pass,
                      const struct sublayer_scratch *w) {
    struct call c = {.s = s, .pass = pass, .w = w, .drop = dropout_at(s, pass, "residual")};
    c.own = own_scratch(w);
    for (int first = IN, last; first < STAGES; first = last + 1) {
        for (last = first; last + 1 < STAGES && !meets(s, last + 1);) last++;
        meet_forward(&c, first);
        run_stages(&c, forward_stages, first, last, pass->rows);
    }
}

void sublayer_backward(struct sublayer *s, const struct pass *pass, real *dx, const real *dy,
                       const struct sublayer_scratch *w) {
    struct call c = {.s = s, .pass = pass, .w = w, .drop = dropout_at(s, pass, "residual")};
    size_t N = pass->tokens.B * pass->tokens.T;
    c.own = own_scratch(w);
    c.dy = dy;
    c.dsum = is_norm(&s->post) ? w->dsum : dy;
    c.dout = c.drop.threshold ? w->dout : c.dsum;
    c.dprojected = is_norm(&s->out) ? w->dprojected : c.dout;
    c.dx = dx;
    c.slab = slab_rows((size_t)omp_get_num_threads());
    c.kept = kept_rows((size_t)omp_get_num_threads());
    for (int first = Y, last; first >= IN; first = last - 1) {
        for (last = first; last - 1 >= IN && !meets(s, last - 1);) last--;
        meet_backward(&c, first);
        for (size_t n = 0; n < N; n += c.slab) {
            struct rows slab = {n, n + c.slab < N ? n + c.slab : N};
            run_stages(&c, backward_stages, first, last, slab);
            weight_gradients(&c, first, last, slab);
        }
    }
}

void sublayer_gradient(const struct sublayer *s, size_t N) {
    const struct norm *norms[] = {&s->pre, &s->out, &s->post};
    for (int i = 0; i < 3; i++) norm_gradient(norms[i], N);
    linear_bias_gradient(&s->in, N);
    linear_bias_gradient(&s->proj, N);
}
