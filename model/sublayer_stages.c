/* What a sub-layer computes, stage by stage:

     y = POST(a x + drop(OUT(proj(FFN(inner(in(s PRE(x))))))))

     stage | forward                              | backward
     ------+--------------------------------------+-----------------------------------------------
     PRE   | expanded = in(s PRE(x))              | dx = a dsum + PRE'(dnormed)
     INNER | MLP: inner = act(expanded)           | MLP: dexpanded = act'(dinner)
           | attention: q, k, v = R QKV(q, k, v)  | attention: dq, dk, dv = QKV'(R' (dq, dk, dv))
           |                                      | both: dnormed = s in'(dexpanded)
       -   | attention: inner = attention(q,k,v)  | attention: dq, dk, dv = attention'(dproj_in)
     PROJ  | projected = proj(FFN(inner))         | MLP: dinner = FFN'(dproj_in)
     OUT   | sum = a x + drop(OUT(projected))     | dprojected = OUT'(dout), dproj_in = proj'(...)
     POST  | y = POST(sum)                        | dsum = POST'(dy), dout = drop(dsum)

   Attention itself works on heads instead of rows: sublayer_pass.c calls it at the start of PROJ.
   q, k and v are the columns of attention's `expanded`. FFN is a norm of the MLP, QKV are
   norms of attention; the other has none there. R rotates q and k by their positions (rope.h), or is
   the identity.

   With learned factors g (gain.h): q, k = g R QK(q), g R QK(k), or inner = act(g expanded), and in
   backward dq = g dq and so on.

   With a learned lambda (lambda.h): sum = A x + B drop(OUT(projected)), dout = drop(B dsum), and
   dx = A dsum + PRE'(dnormed).

   With a second stream r (placement.h):

     SECOND | if r is read: joined = x + SECOND(r) | dr += SECOND'(djoined), with
            |   and PRE reads joined, not x        |   djoined = PRE'(dnormed)
     OUT    | sum = a x + b drop(OUT(projected)),  |
            |   r += drop(OUT(projected))          |
     POST   |                                      | dout = drop(b dsum + dr) */
#include "model/sublayer_stages.h"
#include "model/layer/residual.h"
#include "model/math/cache.h"
#include "model/math/profile.h"
#include "model/math/reduce.h"
#include <string.h>

/* The dropout of one of the sub-layer's two places, with `per_token` elements of each token. */
static struct dropout dropout_at(const struct sublayer *s, const struct pass *pass,
                                 const char *place, size_t per_token) {
    double p = pass->tokens.training ? s->dropout : 0;
    struct dropout dropout = dropout_make(
        p, p > 0 ? random_key(random_key(s->seed, place, pass->step), "", s->site) : 0);
    dropout.first = (uint64_t)pass->first * per_token;
    return dropout;
}

struct dropout sublayer_dropout(const struct sublayer *s, const struct pass *pass) {
    return dropout_at(s, pass, "residual", s->C);
}

static size_t count(struct range rows) {
    return rows.end - rows.begin;
}

/* Where a value is stored. If only the next stage reads it, one block in the thread's scratch is
   enough:

     (ROWS,H), (ROWS,C), and where there is FFN two more (ROWS,H)

   A buffer has all tokens if a norm pools over them, if attention comes in between, or if backward
   reads it. Attention overwrites the thread's scratch. */

static real *inner_at(const struct sublayer_call *c, size_t n) { // (M,H)
    return c->s->inner ? c->s->inner + n * c->s->H : c->scratch;
}

static real *projected_at(const struct sublayer_call *c, size_t n) { // (M,C)
    return c->s->projected ? c->s->projected + n * c->s->C : c->scratch + ROWS * c->s->H;
}

static real *dproj_in_at(const struct sublayer_call *c, size_t n) { // (M,H)
    return c->w->dproj_in ? c->w->dproj_in + n * c->s->H : c->scratch;
}

static real *dnormed_at(const struct sublayer_call *c, size_t n) { // (M,C)
    bool kept = sublayer_keeps_dnormed(c->s);
    return kept ? c->w->dnormed + n * c->s->C : c->scratch + ROWS * c->s->H;
}

static real *djoined_at(const struct sublayer_call *c, size_t n) { // (M,C)
    if (!norm_present(&c->s->pre)) return dnormed_at(c, n);        // of the identity
    return norm_pools(&c->s->second_norm) ? c->w->djoined + n * c->s->C : c->scratch;
}

static real *ffn_scratch(const struct sublayer_call *c, size_t i) { // (ROWS,H) of FFN, i is 0 or 1
    return c->scratch + ROWS * ((1 + i) * c->s->H + c->s->C);
}

/* Recomputed values are kept in a ring of two slabs; row n of the batch is row n % ring. The
   gradient of attention's q, k and v is there for all tokens. */
static size_t ring_row(const struct sublayer_call *c, size_t n) {
    return n % c->ring;
}

static size_t expanded_row(const struct sublayer_call *c, size_t n) {
    return c->s->heads ? n : ring_row(c, n);
}

/* Element `offset` of a buffer, or NULL of a buffer that the sub-layer does without. */
static real *offset_or_null(real *buffer, size_t offset) {
    return buffer ? buffer + offset : NULL;
}

/* to (count) = s from; to may be from. */
static void scale(size_t count, real *to, real s, const real *from) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) to[i] = s * from[i];
    profile_lap(PROFILE_ELEMENTWISE);
}

/* y (M,out) = linear(x) for these rows. */
static void product_forward(const struct sublayer_call *c, const struct linear *linear,
                            struct range rows, real *y, const real *x) {
    if (c->pass->shared)
        linear_forward_shared(linear, count(rows), y, x);
    else
        linear_forward(linear, count(rows), y, x);
}

/* s PRE(x): in y (M,C), or x itself where nothing changes it. */
static const real *normed_forward(const struct sublayer_call *c, struct range rows, real *y) {
    const struct sublayer *s = c->s;
    const real *normed =
        norm_forward(&s->pre, &c->pass->tokens, rows, y, sublayer_branch(s) + rows.begin * s->C);
    if (s->s_factor == 1) return normed;
    scale(count(rows) * s->C, y, (real)s->s_factor, normed);
    return y;
}

/* y (M,H) = act(expanded). */
static void act_forward(const struct sublayer_call *c, struct range rows, real *y) {
    const struct sublayer *s = c->s;
    activation_forward(s->activation, count(rows), s->H, y, s->expanded + rows.begin * s->E);
    profile_lap(PROFILE_ELEMENTWISE);
}

static struct attention attention_of(const struct sublayer_call *c) {
    const struct sublayer *s = c->s;
    size_t T = c->pass->tokens.T;
    return (struct attention){.T = T,
                              .C = s->C,
                              .NH = s->heads,
                              .KV = s->kv_heads,
                              .qkv = s->expanded,
                              .softmax = s->softmax,
                              .softcap = s->softcap,
                              .dropout = dropout_at(s, c->pass, "attention", s->heads * T),
                              .first = c->pass->rows.begin % T};
}

/* Forward. */

/* joined = x + SECOND(r) */
static void second_forward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    size_t first = rows.begin * s->C;
    if (!s->reads) return;
    const real *normed =
        norm_forward(&s->second_norm, &c->pass->tokens, rows, c->scratch, s->second_in + first);
    residual_add(count(rows) * s->C, s->joined + first, 1, s->x + first, normed);
}

/* expanded = in(s PRE(x)) */
static void pre_forward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    real *expanded = s->expanded + rows.begin * s->E;
    product_forward(c, &s->in, rows, expanded, normed_forward(c, rows, c->scratch));
    qkv_norm_keep(&s->qkv_norm, rows, expanded);
}

/* q, k = g q, g k, or expanded = g expanded; keeps what they were. */
static void in_gain_forward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    size_t width = s->in_gain.groups * s->in_gain.size, n = rows.begin, M = count(rows);
    if (!gain_present(&s->in_gain)) return;
    real *ungained = s->ungained + n * width, *expanded = s->expanded + n * s->E;
    for (size_t m = 0; m < M; m++)
        memcpy(ungained + m * width, expanded + m * s->E, width * sizeof(real));
    gain_forward(&s->in_gain, M, expanded, s->E, ungained, width);
}

/* q, k, v = R QKV(q, k, v), and with learned factors g q, g k, v */
static void qkv_forward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    const struct tokens *tokens = &c->pass->tokens;
    real *qkv = s->expanded + rows.begin * s->E;
    qkv_norm_forward(&s->qkv_norm, tokens, rows, qkv, c->scratch);
    rope_forward(&s->rope, tokens->T, rows, s->heads + s->kv_heads, qkv, s->E);
    in_gain_forward(c, rows);
}

/* The same, or inner = act(g expanded). */
static void inner_forward(const struct sublayer_call *c, struct range rows) {
    if (c->s->heads) {
        qkv_forward(c, rows);
        return;
    }
    in_gain_forward(c, rows);
    act_forward(c, rows, inner_at(c, rows.begin));
}

/* The job of stage_attention_forward() where the work is shared. */
struct shared_attention {
    const struct sublayer_call *c;
    struct attention attention;
};

static void shared_heads(void *argument, size_t part, size_t parts, size_t thread) {
    const struct shared_attention *s = argument;
    const struct sublayer_scratch *w = s->c->w;
    attention_forward(&s->attention, team_part_of(part, parts, s->attention.NH, 1), s->c->s->inner,
                      w->threads + thread * w->thread_size);
}

/* inner = attention(q, k, v) */
void stage_attention_forward(const struct sublayer_call *c, struct range heads) {
    struct shared_attention all = {c, attention_of(c)};
    if (c->pass->shared)
        team_share(shared_heads, &all, c->s->heads); // of the one sequence
    else
        attention_forward(&all.attention, heads, c->s->inner, c->scratch);
}

/* projected = proj(FFN(inner)) */
static void proj_forward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    const real *proj_in = norm_forward(&s->ffn_norm, &c->pass->tokens, rows, ffn_scratch(c, 0),
                                       inner_at(c, rows.begin));
    product_forward(c, &s->proj, rows, projected_at(c, rows.begin), proj_in);
}

/* sum = a x + b drop(OUT(projected)), r += drop(OUT(projected)) */
static void out_forward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    size_t first = rows.begin * s->C, size = count(rows) * s->C;
    real *normed = s->lambda.f ? s->lambda.f + first : c->scratch;
    const real *f =
        norm_forward(&s->out, &c->pass->tokens, rows, normed, projected_at(c, rows.begin));
    if (s->dual)
        residual_forward(first, size, s->second + first, 1, s->second_in + first, f, c->drop);
    if (s->lambda.form != LAMBDA_NONE) {
        lambda_forward(&s->lambda, rows, s->sum + first, s->x + first, f, c->drop);
        return;
    }
    if (s->b != 1) {
        scale(size, c->scratch, (real)s->b, f);
        f = c->scratch;
    }
    residual_forward(first, size, s->sum + first, (real)s->a, s->x + first, f, c->drop);
}

/* y = POST(sum) */
static void post_forward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    size_t first = rows.begin * s->C;
    norm_forward(&s->post, &c->pass->tokens, rows, s->y + first, s->sum + first);
}

void stage_forward(const struct sublayer_call *c, enum stage stage, struct range rows) {
    switch (stage) {
    case STAGE_SECOND: second_forward(c, rows); break;
    case STAGE_PRE: pre_forward(c, rows); break;
    case STAGE_INNER: inner_forward(c, rows); break;
    case STAGE_PROJ: proj_forward(c, rows); break;
    case STAGE_OUT: out_forward(c, rows); break;
    case STAGE_POST: post_forward(c, rows); break;
    case STAGES: break;
    }
}

/* Backward. */

/* What the gradients of the weights read, from token n on: proj_in and dprojected of proj, s PRE(x)
   and dexpanded of in. They read it in place, or from the copies that linear_keep() made. */

static real *proj_in_at(const struct sublayer_call *c, size_t n) {
    return c->s->heads ? c->s->inner + n * c->s->H : c->w->proj_in + ring_row(c, n) * c->s->H;
}

static const real *normed_at(const struct sublayer_call *c, size_t n) {
    return sublayer_has_normed(c->s) ? c->w->normed + ring_row(c, n) * c->s->C
                                     : sublayer_branch(c->s) + n * c->s->C;
}

static real *dexpanded_at(const struct sublayer_call *c, size_t n) {
    return c->w->dexpanded + expanded_row(c, n) * c->s->E;
}

static void keep_proj(const struct sublayer_call *c, size_t n, size_t M) {
    linear_keep(&c->s->proj, &c->w->proj, ring_row(c, n), M, c->dprojected + n * c->s->C,
                proj_in_at(c, n));
}

/* dsum = POST'(dy), dout = drop(b dsum + dr) */
static void post_backward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    size_t first = rows.begin * s->C, size = count(rows) * s->C;
    const real *dy = c->dy + first;
    if (c->pass->tokens.probe) s->dy_squares[rows.begin / ROWS] = row_dot(size, dy, dy);
    const real *dsum = norm_backward(&s->post, &c->pass->tokens, rows,
                                     offset_or_null(c->w->dsum, first), dy, s->sum + first);
    if (s->lambda.form != LAMBDA_NONE)
        lambda_backward(&s->lambda, (c->pass->first + rows.begin) / ROWS, rows,
                        offset_or_null(c->w->dout, first), dsum, s->x + first, c->drop);
    if (lambda_scales_branch(&s->lambda)) return; // lambda_backward() made dout
    if (s->dual) {
        real *both = c->drop.threshold ? c->scratch : c->w->dout + first;
        residual_add(size, both, (real)s->b, dsum, s->dsecond + first);
        dsum = both;
    }
    if (!c->drop.threshold) return;
    dropout_apply(c->drop, first, size, c->w->dout + first, dsum);
    profile_lap(PROFILE_ELEMENTWISE);
}

/* dprojected = OUT'(dout), dproj_in = proj'(dprojected) */
static void out_backward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    size_t first = rows.begin * s->C;
    const real *dprojected =
        norm_backward(&s->out, &c->pass->tokens, rows, offset_or_null(c->w->dprojected, first),
                      c->dout + first, offset_or_null(s->projected, first));
    linear_backward(&s->proj, rows.begin / ROWS, count(rows), dproj_in_at(c, rows.begin),
                    dprojected);
    if (s->heads) keep_proj(c, rows.begin, count(rows));
}

/* dinner = FFN'(dproj_in), in ffn_scratch(1). Also makes what later stages read: inner in
   ffn_scratch(0), unless it was kept, and proj_in, for the gradient of proj's weight. */
static void proj_backward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    const struct tokens *tokens = &c->pass->tokens;
    if (!norm_present(&s->ffn_norm)) return;
    if (!s->inner) act_forward(c, rows, ffn_scratch(c, 0));
    const real *inner = s->inner ? inner_at(c, rows.begin) : ffn_scratch(c, 0);
    norm_forward(&s->ffn_norm, tokens, rows, proj_in_at(c, rows.begin), inner);
    norm_backward(&s->ffn_norm, tokens, rows, ffn_scratch(c, 1), dproj_in_at(c, rows.begin), inner);
}

/* dq, dk, dv = attention'(dproj_in) */
void stage_attention_backward(const struct sublayer_call *c, struct range heads) {
    const struct attention attention = attention_of(c);
    attention_backward(&attention, heads, c->w->dexpanded, c->w->dproj_in, c->scratch);
}

/* In dexpanded (M,E), the gradient of what in_gain made becomes that of what it was made from. */
static void in_gain_backward(const struct sublayer_call *c, struct range rows, real *dexpanded) {
    const struct sublayer *s = c->s;
    size_t width = s->in_gain.groups * s->in_gain.size, n = rows.begin;
    if (gain_present(&s->in_gain))
        gain_backward(&s->in_gain, n / ROWS, count(rows), dexpanded, s->E, s->ungained + n * width,
                      width);
}

/* dq, dk = R' g dq, R' g dk, in dexpanded (M,E) */
static void qk_backward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    real *dqkv = c->w->dexpanded + rows.begin * s->E;
    in_gain_backward(c, rows, dqkv);
    rope_backward(&s->rope, c->pass->tokens.T, rows, s->heads + s->kv_heads, dqkv, s->E);
}

void stage_qkv_statistics_backward(const struct sublayer_call *c, struct range own) {
    const struct sublayer *s = c->s;
    for (size_t n = own.begin; n < own.end; n += ROWS) qk_backward(c, team_row_block(n, own));
    team_barrier();
    qkv_norm_gradient_statistics(&s->qkv_norm, &c->pass->tokens, c->w->dqkv, c->w->dexpanded);
}

/* dq, dk, dv = QKV'(dq, dk, dv), or dexpanded = g act'(dinner); then dnormed = s in'(dexpanded) */
static void inner_backward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    size_t n = rows.begin, M = count(rows);
    real *dexpanded = dexpanded_at(c, n), *dnormed = dnormed_at(c, n);
    if (s->heads) {
        if (!qkv_norm_pools(&s->qkv_norm)) qk_backward(c, rows); // else it is done
        qkv_norm_backward(&s->qkv_norm, &c->pass->tokens, rows, dexpanded, c->w->dqkv, c->scratch);
    } else {
        bool has_ffn = norm_present(&s->ffn_norm); // else inner is what proj reads, and made here
        activation_backward(
            s->activation, M, s->H, dexpanded, has_ffn ? ffn_scratch(c, 0) : proj_in_at(c, n),
            has_ffn ? ffn_scratch(c, 1) : dproj_in_at(c, n), s->expanded + n * s->E);
        profile_lap(PROFILE_ELEMENTWISE);
        in_gain_backward(c, rows, dexpanded);
        keep_proj(c, n, M);
    }
    linear_backward(&s->in, n / ROWS, M, dnormed, dexpanded);
    if (s->s_factor != 1) scale(M * s->C, dnormed, (real)s->s_factor, dnormed);
    // s PRE(x) once more: the gradient of in's weight reads it
    if (sublayer_has_normed(s)) normed_forward(c, rows, c->w->normed + ring_row(c, n) * s->C);
    linear_keep(&s->in, &c->w->in, ring_row(c, n), M, dexpanded, normed_at(c, n));
}

/* dx = a dsum + PRE'(dnormed) */
static void pre_backward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    size_t first = rows.begin * s->C;
    const real *dbranch = norm_backward(&s->pre, &c->pass->tokens, rows, djoined_at(c, rows.begin),
                                        dnormed_at(c, rows.begin), sublayer_branch(s) + first);
    if (s->lambda.form != LAMBDA_NONE)
        lambda_backward_stream(&s->lambda, rows, c->dx + first, c->dsum + first, dbranch);
    else
        residual_add(count(rows) * s->C, c->dx + first, (real)s->a, c->dsum + first, dbranch);
}

/* dr += SECOND'(djoined) */
static void second_backward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    size_t first = rows.begin * s->C;
    if (!s->reads) return;
    const real *djoined = djoined_at(c, rows.begin);
    real *unused = djoined == c->scratch ? c->scratch + ROWS * s->H : c->scratch;
    const real *dsecond = norm_backward(&s->second_norm, &c->pass->tokens, rows, unused, djoined,
                                        s->second_in + first);
    residual_add(count(rows) * s->C, s->dsecond + first, 1, s->dsecond + first, dsecond);
}

void stage_backward(const struct sublayer_call *c, enum stage stage, struct range rows) {
    switch (stage) {
    case STAGE_SECOND: second_backward(c, rows); break;
    case STAGE_PRE: pre_backward(c, rows); break;
    case STAGE_INNER: inner_backward(c, rows); break;
    case STAGE_PROJ: proj_backward(c, rows); break;
    case STAGE_OUT: out_backward(c, rows); break;
    case STAGE_POST: post_backward(c, rows); break;
    case STAGES: break;
    }
}

void stage_proj_gradient(const struct sublayer_call *c, struct range slab) {
    const struct sublayer *s = c->s;
    size_t n = slab.begin, M = count(slab);
    const bool kept = c->w->proj.dy;
    if (s->heads && !kept) cache_fetch(M * s->H, proj_in_at(c, n)); // forward wrote it, long ago
    if (kept)
        linear_kept_gradient(&s->proj, &c->w->proj, ring_row(c, n), M);
    else
        linear_weight_gradient(&s->proj, M, c->dprojected + n * s->C, s->C, proj_in_at(c, n));
}

void stage_in_gradient(const struct sublayer_call *c, struct range slab) {
    const struct sublayer *s = c->s;
    size_t n = slab.begin, M = count(slab);
    if (c->w->in.dy)
        linear_kept_gradient(&s->in, &c->w->in, ring_row(c, n), M);
    else
        linear_weight_gradient(&s->in, M, dexpanded_at(c, n), s->E, normed_at(c, n));
}
