/* y = POST(a x + drop(OUT(proj(inner(in(s PRE(x))))))), inner being attention(QK()) or FFN(act())

   Backward, from dy to dx, each line one operation's:
     dsum = POST'(dy),  dout = drop(dsum),  dprojected = OUT'(dout)
     dmixed = proj'(dprojected),  dbefore = inner'(dmixed),  dnormed = in'(dbefore)
     dx = a dsum + PRE'(s dnormed)

   With a second stream r (placement.h), r += drop(OUT(...)) forward and dout = drop(dsum + dr).

   Both directions are cut into stages where a token meets others: attention, and norms that pool
   over tokens. Between two such meetings a thread takes its rows block by block through all
   operations, so that a block's values are used again while they lie in the cache. Attention wants
   a token's own sequence only: where each thread's rows are whole sequences, nobody meets for it,
   and a thread takes one sequence after the other through all stages. Backward goes slab by slab,
   and after each slab all threads add its part to the weights' gradients, from values that were
   just made; the sum over tokens runs from slab to slab in order. */
#include "model/layer/residual.h"
#include "model/math/cache.h"
#include "model/math/profile.h"
#include "model/math/reduce.h"
#include "model/sublayer.h"

static real *own_scratch(const struct sublayer_scratch *w) {
    return w->own + (size_t)omp_get_thread_num() * w->own_size;
}

/* The dropout of one of the sub-layer's two places in this pass; none in evaluation. */
static struct dropout dropout_at(const struct sublayer *s, const struct pass *pass,
                                 const char *place) {
    double p = pass->tokens.training ? s->dropout : 0;
    return dropout_make(p, p > 0 ? random_key(random_key(s->seed, place, pass->step), "", s->site)
                                 : 0);
}

/* The stages: PRE and in; QK or act; attention or FFN, and proj; OUT and the sum; POST. Each begins
   where a token may have to meet others. Backward goes through them from the last to the first. */
enum stage { IN, INNER, PROJ, SUM, Y, STAGES };

/* One call of forward or backward, with the buffers that it uses. */
struct call {
    struct sublayer *s;
    const struct pass *pass;
    const struct sublayer_scratch *w;
    struct dropout drop;
    real *own;                                 // the thread's own memory: see below
    const real *dy, *dsum, *dout, *dprojected; // backward
    real *dx;
    size_t slab, kept; // slab_rows(), kept_rows()
    bool alone;        // each thread's rows are whole sequences
};

static bool meets(const struct call *c, int stage) {
    const struct sublayer *s = c->s;
    const bool meeting[STAGES] = {[IN] = norm_pools(&s->pre),
                                  [INNER] = s->qk_norm.heads > 0,
                                  [PROJ] = s->heads ? !c->alone : norm_pools(&s->ffn_norm),
                                  [SUM] = norm_pools(&s->out),
                                  [Y] = norm_pools(&s->post)};
    return meeting[stage];
}

/* Element `offset` of a buffer, NULL of a buffer that is not there. */
static inline real *from(real *buffer, size_t offset) {
    return buffer ? buffer + offset : NULL;
}

/* Where a token's values inside the sub-layer lie: an MLP keeps those of a few tokens only. */
static inline size_t inner_row(const struct call *c, size_t n) {
    return c->s->heads ? n : n % c->kept;
}

/* The thread's own memory: (ROWS,mixed), (ROWS,C), and two more (ROWS,mixed) if there is FFN. In
   the first two lies what a stage leaves for the next, unless another stage than that wants it:
   act's output, proj's, and the gradients of what proj and in read. Attention overwrites all of it
   where its PROJ begins. */
static inline real *after(const struct call *c, size_t n) {
    return c->s->after ? c->s->after + n * c->s->mixed : c->own;
}

static inline real *projected(const struct call *c, size_t n) {
    return c->s->projected ? c->s->projected + n * c->s->C : c->own + ROWS * c->s->mixed;
}

static inline real *dmixed(const struct call *c, size_t n) {
    return c->w->dmixed ? c->w->dmixed + n * c->s->mixed : c->own;
}

static inline real *dnormed(const struct call *c, size_t n) {
    return norm_pools(&c->s->pre) ? c->w->dnormed + n * c->s->C : c->own + ROWS * c->s->mixed;
}

static inline real *spare(const struct call *c, size_t i) {
    return c->own + ROWS * ((1 + i) * c->s->mixed + c->s->C);
}

/* What each stage does with a block of M rows, from token n = rows.begin on. */

/* to (count) = s from, in place or not. */
static void scale(size_t count, real *to, real s, const real *from) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) to[i] = s * from[i];
    profile_lap(PROFILE_ELEMENTWISE);
}

/* s PRE(x) of a block: in y, or x itself. */
static const real *pre_forward(const struct call *c, struct range rows, size_t n, size_t M,
                               real *y) {
    const struct sublayer *s = c->s;
    const real *normed = norm_forward(&s->pre, &c->pass->tokens, rows, y, s->x + n * s->C);
    if (s->s == 1) return normed;
    scale(M * s->C, y, (real)s->s, normed);
    return y;
}

static void in_forward(const struct call *c, struct range rows, size_t n, size_t M) {
    const struct sublayer *s = c->s;
    const real *normed = pre_forward(c, rows, n, M, c->own);
    linear_forward(&s->in, M, s->before + n * s->hidden, normed);
    qk_norm_keep(&s->qk_norm, rows, s->before + n * s->hidden);
}

static void act_forward(const struct call *c, size_t n, size_t M, real *y) {
    const struct sublayer *s = c->s;
    s->activation->forward(M * s->hidden, y, s->before + n * s->hidden);
    profile_lap(PROFILE_ELEMENTWISE);
}

static void inner_forward(const struct call *c, struct range rows, size_t n, size_t M) {
    const struct sublayer *s = c->s;
    if (s->heads)
        qk_norm_forward(&s->qk_norm, &c->pass->tokens, rows, s->before + n * s->hidden, c->own);
    else
        act_forward(c, n, M, after(c, n));
}

static void proj_forward(const struct call *c, struct range rows, size_t n, size_t M) {
    const struct sublayer *s = c->s;
    const real *mixed =
        norm_forward(&s->ffn_norm, &c->pass->tokens, rows, spare(c, 0), after(c, n));
    linear_forward(&s->proj, M, projected(c, n), mixed);
}

static void sum_forward(const struct call *c, struct range rows, size_t n, size_t M) {
    const struct sublayer *s = c->s;
    const real *f = norm_forward(&s->out, &c->pass->tokens, rows, c->own, projected(c, n));
    size_t at = n * s->C;
    residual_forward(at, M * s->C, s->sum + at, (real)s->a, s->x + at, f, c->drop);
    if (s->dual) residual_forward(at, M * s->C, s->stream + at, 1, s->stream + at, f, c->drop);
}

static void y_forward(const struct call *c, struct range rows, size_t n, size_t M) {
    (void)M;
    const struct sublayer *s = c->s;
    norm_forward(&s->post, &c->pass->tokens, rows, s->y + n * s->C, s->sum + n * s->C);
}

static void y_backward(const struct call *c, struct range rows, size_t n, size_t M) {
    const struct sublayer *s = c->s;
    size_t at = n * s->C;
    if (c->pass->tokens.probe) s->dy_squares[n / ROWS] = row_dot(M * s->C, c->dy + at, c->dy + at);
    const real *dsum = norm_backward(&s->post, &c->pass->tokens, rows, from(c->w->dsum, at),
                                     c->dy + at, s->sum + at);
    if (s->dual) {
        real *both = c->drop.threshold ? c->own : c->w->dout + at;
        residual_backward(M * s->C, both, 1, dsum, s->dstream + at);
        dsum = both;
    }
    if (!c->drop.threshold) return;
    dropout_apply(c->drop, at, M * s->C, c->w->dout + at, dsum);
    profile_lap(PROFILE_ELEMENTWISE);
}

static void sum_backward(const struct call *c, struct range rows, size_t n, size_t M) {
    const struct sublayer *s = c->s;
    size_t at = n * s->C;
    const real *dprojected =
        norm_backward(&s->out, &c->pass->tokens, rows, from(c->w->dprojected, at), c->dout + at,
                      from(s->projected, at));
    linear_backward(&s->proj, n / ROWS, M, dmixed(c, n), dprojected);
}

/* FFN's, with its output once more, for the gradient of proj's weight. */
static void proj_backward(const struct call *c, struct range rows, size_t n, size_t M) {
    const struct sublayer *s = c->s;
    const struct tokens *tokens = &c->pass->tokens;
    if (!norm_is(&s->ffn_norm)) return;
    if (!s->after) act_forward(c, n, M, spare(c, 0));
    const real *x = s->after ? after(c, n) : spare(c, 0);
    norm_forward(&s->ffn_norm, tokens, rows, c->w->after + inner_row(c, n) * s->mixed, x);
    norm_backward(&s->ffn_norm, tokens, rows, spare(c, 1), dmixed(c, n), x);
}

static void inner_backward(const struct call *c, struct range rows, size_t n, size_t M) {
    const struct sublayer *s = c->s;
    size_t inner = inner_row(c, n);
    real *dbefore = c->w->dbefore + inner * s->hidden;
    if (s->heads)
        qk_norm_backward(&s->qk_norm, &c->pass->tokens, rows, dbefore, c->w->dqk, c->own);
    else {
        bool normed = norm_is(&s->ffn_norm);
        s->activation->backward(M * s->hidden, dbefore,
                                normed ? spare(c, 0) : c->w->after + inner * s->mixed,
                                normed ? spare(c, 1) : dmixed(c, n), s->before + n * s->hidden);
        profile_lap(PROFILE_ELEMENTWISE);
    }
    linear_backward(&s->in, n / ROWS, M, dnormed(c, n), dbefore);
    if (s->s != 1) scale(M * s->C, dnormed(c, n), (real)s->s, dnormed(c, n));
    // once more, for the gradient of in's weight
    if (sublayer_has_normed(s)) pre_forward(c, rows, n, M, c->w->normed + n % c->kept * s->C);
}

static void in_backward(const struct call *c, struct range rows, size_t n, size_t M) {
    const struct sublayer *s = c->s;
    size_t at = n * s->C;
    const real *dinner =
        norm_backward(&s->pre, &c->pass->tokens, rows, c->own, dnormed(c, n), s->x + at);
    residual_backward(M * s->C, c->dx + at, (real)s->a, c->dsum + at, dinner);
}

typedef void stage_function(const struct call *c, struct range rows, size_t n, size_t M);
static stage_function *const forward_stages[STAGES] = {in_forward, inner_forward, proj_forward,
                                                       sum_forward, y_forward};
static stage_function *const backward_stages[STAGES] = {in_backward, inner_backward, proj_backward,
                                                        sum_backward, y_backward};

/* Attention of some (sequence, head), those of sequence b from b NH on. */
static void attend(const struct call *c, bool backward, struct range heads) {
    const struct sublayer *s = c->s;
    size_t T = c->pass->tokens.T;
    struct attention a = {.T = T,
                          .C = s->C,
                          .NH = s->heads,
                          .qkv = s->before,
                          .softmax = s->softmax,
                          .dropout = dropout_at(s, c->pass, "attention"),
                          .first = c->pass->rows.begin % T};
    if (backward)
        attention_backward(&a, heads, c->w->dbefore, c->w->dmixed, c->own);
    else
        attention_forward(&a, heads, s->after, c->own);
}

static void run_blocks(const struct call *c, stage_function *const *stages, int first, int last,
                       struct range own) {
    int step = first <= last ? 1 : -1;
    for (size_t n = own.begin; n < own.end; n += ROWS) {
        struct range rows = team_row_block(n, own);
        for (int stage = first; stage != last + step; stage += step)
            stages[stage](c, rows, n, rows.end - n);
    }
}

/* The thread's share of these rows, block by block through the stages first .. last, up or down. If
   attention is among them, which comes before PROJ both ways, the blocks are those of a few whole
   sequences at a time. */
static void run_stages(const struct call *c, stage_function *const *stages, int first, int last,
                       struct range all) {
    struct range own = team_part_rows(all);
    bool backward = first > last;
    bool attends = backward ? first >= SUM && last <= PROJ : first <= INNER && last >= PROJ;
    if (!c->s->heads || !attends) {
        run_blocks(c, stages, first, last, own);
        return;
    }
    size_t T = c->pass->tokens.T, heads = c->s->heads, chunk = T;
    while (chunk % ROWS) chunk += T;
    for (size_t n = own.begin, end; n < own.end; n = end) {
        end = n + chunk < own.end ? n + chunk : own.end;
        struct range rows = {n, end};
        if (backward) cache_fetch((end - n) * c->s->hidden, c->s->before + n * c->s->hidden);
        run_blocks(c, stages, first, backward ? SUM : INNER, rows);
        attend(c, backward, (struct range){n / T * heads, end / T * heads});
        run_blocks(c, stages, PROJ, last, rows);
    }
}

static void attention_meets(const struct call *c, bool backward) {
    team_barrier();
    attend(c, backward, team_part(c->pass->tokens.B * c->s->heads, 1));
    team_barrier();
}

/* The meeting at the begin of a stage, all threads together. */
static void meet_forward(const struct call *c, int stage) {
    const struct sublayer *s = c->s;
    const struct tokens *tokens = &c->pass->tokens;
    if (stage == IN) norm_statistics(&s->pre, tokens, s->x);
    if (stage == INNER) qk_norm_statistics(&s->qk_norm, tokens);
    if (stage == PROJ && s->heads) attention_meets(c, false);
    if (stage == PROJ) norm_statistics(&s->ffn_norm, tokens, s->after);
    if (stage == SUM) norm_statistics(&s->out, tokens, s->projected);
    if (stage == Y) norm_statistics(&s->post, tokens, s->sum);
}

static void meet_backward(const struct call *c, int stage) {
    const struct sublayer *s = c->s;
    const struct tokens *tokens = &c->pass->tokens;
    if (stage == Y) norm_gradient_statistics(&s->post, tokens, c->dy, s->sum);
    if (stage == SUM) norm_gradient_statistics(&s->out, tokens, c->dout, s->projected);
    if (stage == PROJ) norm_gradient_statistics(&s->ffn_norm, tokens, c->w->dmixed, s->after);
    if (stage == PROJ && s->heads) attention_meets(c, true);
    if (stage == INNER) qk_norm_gradient_statistics(&s->qk_norm, tokens, c->w->dqk, c->w->dbefore);
    if (stage == IN) norm_gradient_statistics(&s->pre, tokens, c->w->dnormed, s->x);
}

/* The slab's part of the weights' gradients, as far as the stages first .. last made them known. */
static void weight_gradients(const struct call *c, int first, int last, struct range slab) {
    const struct sublayer *s = c->s;
    int known = s->heads ? SUM : INNER; // where proj's input and its output's gradient are
    bool proj = first >= known && known >= last, in = first >= INNER && INNER >= last;
    if (!proj && !in) return;
    // Besides this slab's values, what backward's turns rely on: no thread is more than a slab
    // ahead, and those who meet next (qk_norm) find every thread's rows done.
    team_barrier();
    size_t n = slab.begin, M = slab.end - n, inner = inner_row(c, n);
    const real *mixed = s->heads ? s->after : c->w->after;
    const real *normed =
        sublayer_has_normed(s) ? c->w->normed + n % c->kept * s->C : s->x + n * s->C;
    if (proj && s->heads) cache_fetch(M * s->mixed, mixed + n * s->mixed); // of long ago
    if (proj)
        linear_weight_gradient(&s->proj, M, c->dprojected + n * s->C, s->C,
                               mixed + inner * s->mixed);
    if (in) linear_weight_gradient(&s->in, M, c->w->dbefore + inner * s->hidden, s->hidden, normed);
}

void sublayer_forward(struct sublayer *s, const struct pass *pass,
                      const struct sublayer_scratch *w) {
    struct call c = {.s = s, .pass = pass, .w = w, .drop = dropout_at(s, pass, "residual")};
    c.own = own_scratch(w);
    c.alone = team_parts_whole(pass->rows, pass->tokens.T);
    cache_fetch(s->in.in * s->in.padded, s->in.transposed);
    cache_fetch(s->proj.in * s->proj.padded, s->proj.transposed);
    for (int first = IN, last; first < STAGES; first = last + 1) {
        for (last = first; last + 1 < STAGES && !meets(&c, last + 1);) last++;
        meet_forward(&c, first);
        run_stages(&c, forward_stages, first, last, pass->rows);
    }
}

static struct range slab_at(size_t n, size_t slab, size_t N) {
    return (struct range){n, n + slab < N ? n + slab : N};
}

void sublayer_backward(struct sublayer *s, const struct pass *pass, real *dx, const real *dy,
                       const struct sublayer_scratch *w) {
    struct call c = {.s = s, .pass = pass, .w = w, .drop = dropout_at(s, pass, "residual")};
    size_t N = pass->tokens.B * pass->tokens.T;
    c.own = own_scratch(w);
    c.dy = dy;
    c.dsum = norm_is(&s->post) ? w->dsum : dy;
    c.dout = c.drop.threshold || s->dual ? w->dout : c.dsum;
    c.dprojected = norm_is(&s->out) ? w->dprojected : c.dout;
    c.dx = dx;
    c.slab = slab_rows((size_t)omp_get_num_threads());
    c.kept = kept_rows((size_t)omp_get_num_threads());
    cache_fetch(s->proj.in * s->proj.out, s->proj.weight.value);
    cache_fetch(s->in.in * s->in.out, s->in.weight.value);
    c.alone = true;
    for (size_t n = 0; n < N; n += c.slab)
        c.alone &= team_parts_whole(slab_at(n, c.slab, N), pass->tokens.T);
    for (int first = Y, last; first >= IN; first = last - 1) {
        for (last = first; last - 1 >= IN && !meets(&c, last - 1);) last--;
        meet_backward(&c, first);
        for (size_t n = 0; n < N; n += c.slab) {
            struct range slab = slab_at(n, c.slab, N);
            run_stages(&c, backward_stages, first, last, slab);
            weight_gradients(&c, first, last, slab);
        }
    }
}
