/* What a sub-layer computes, stage by stage:

     y = POST(WRITE(streams, drop(OUT(proj(FFN(inner(in(s PRE(READ(streams))))))))))

     stage | forward                              | backward
     ------+--------------------------------------+-----------------------------------------------
     READ  | u = READ(streams)                    | dx = READ'(dsum, du)
     PRE   | expanded = in(s PRE(u))              | du = PRE'(dnormed)
     INNER | MLP: inner = act(expanded)           | MLP: dexpanded = act'(dinner)
           | attention: q, k, v = R QKV(q, k, v)  | attention: dq, dk, dv = QKV'(R' (dq, dk, dv))
           |                                      | both: dnormed = s in'(dexpanded)
       -   | attention: inner = attention(q,k,v)  | attention: dq, dk, dv = attention'(dproj_in)
     PROJ  | attention: inner = GATE inner        | MLP: dinner = FFN'(dproj_in)
           | projected = proj(FFN(inner))         |
     OUT   | f = OUT(projected)                   | dprojected = OUT'(df), dproj_in = proj'(...)
           | streams = WRITE(streams, drop(f))    | attention: dproj_in = GATE' dproj_in
     POST  | y = POST(sum)                        | dsum = POST'(dy), df = drop(WRITE'(dsum))

   READ and WRITE are the residual connection's (connection.h); sum is its main stream. Attention
   itself works on heads instead of rows: sublayer_pass.c calls it at the start of PROJ. q, k and v
   are the columns of attention's `expanded`. FFN is a norm of the MLP, QKV are norms of attention;
   the other has none there. R rotates q and k by their positions (rope.h), or is the identity.

   With learned factors g (gain.h): q, k = g R QK(q), g R QK(k), or inner = act(g expanded), and in
   backward dq = g dq and so on. */
#include "model/sublayer_stages.h"
#include "model/layer/residual.h"
#include "model/math/cache.h"
#include "model/math/profile.h"
#include <string.h>

/* ---- where a value is stored ---- */

static size_t count(struct range rows) {
    return rows.end - rows.begin;
}

/* If only the next stage reads it, one sweep in the thread's scratch is enough:

     (sweep,the wider of H and C), (sweep,C), and where there is FFN two more (sweep,H)

   A buffer has all tokens if a norm pools over them, if attention comes in between, or if backward
   reads it. Attention overwrites the thread's scratch. */

static real *inner_at(const struct sublayer_call *c, size_t n) { // (M,H)
    return c->s->inner ? c->s->inner + n * c->s->H : c->scratch;
}

static real *projected_at(const struct sublayer_call *c, size_t n) { // (M,C)
    return c->s->projected ? c->s->projected + n * c->s->C
                           : c->scratch + c->s->sweep * sublayer_widest(c->s);
}

/* The columns of the gate's z, or of its gradient, from token n on, in a matrix (B,T,E). */
static real *gate_z(const struct sublayer_call *c, real *expanded, size_t n) {
    return expanded + (n + 1) * c->s->E - c->s->gate.G;
}

static real *dproj_in_at(const struct sublayer_call *c, size_t n) { // (M,H)
    return c->w->dproj_in ? c->w->dproj_in + n * c->s->H : c->scratch;
}

static real *ffn_scratch(const struct sublayer_call *c, size_t i) { // (sweep,H) of FFN, i is 0 or 1
    return c->scratch + c->s->sweep * (sublayer_widest(c->s) + c->s->C + i * c->s->H);
}

/* Recomputed values are kept in a ring of slabs. The gradient of attention's q, k and v is there
   for all tokens. */
static size_t ring_row(const struct sublayer_call *c, size_t n) {
    return c->ring.begin + (n - c->all.begin) % count(c->ring);
}

/* Element `offset` of a buffer; NULL if the sub-layer does not use this buffer. */
static real *offset_or_null(real *buffer, size_t offset) {
    return buffer ? buffer + offset : NULL;
}

/* Operands of the gradients of the weights, from token n on: proj_in and dprojected of proj,
   s PRE(u) and dexpanded of in. They are read in place, or from the copies of linear_keep(). */

static real *proj_in_at(const struct sublayer_call *c, size_t n) {
    return c->s->heads ? c->s->inner + n * c->s->H : c->w->proj_in + ring_row(c, n) * c->s->H;
}

static const real *normed_at(const struct sublayer_call *c, size_t n) {
    return sublayer_has_normed(c->s) ? c->w->normed + ring_row(c, n) * c->s->C
                                     : connection_u(&c->s->connection) + n * c->s->C;
}

static real *dexpanded_at(const struct sublayer_call *c, size_t n) {
    return c->w->dexpanded + (c->s->heads ? n : ring_row(c, n)) * c->s->E;
}

/* ---- what several stages use ---- */

struct dropout stage_dropout(const struct sublayer *s, const struct pass *pass, const char *place,
                             size_t per_token) {
    double p = pass->tokens.training ? s->dropout : 0;
    struct dropout dropout = dropout_make(
        p, p > 0 ? random_key(random_key(s->seed, place, pass->step), "", s->site) : 0);
    dropout.first = (uint64_t)pass->first * per_token;
    return dropout;
}

/* y (M,out) = linear(x) for these rows. */
static void product_forward(const struct sublayer_call *c, const struct linear *linear,
                            struct range rows, real *y, const real *x) {
    if (c->pass->shared)
        linear_forward_shared(linear, count(rows), y, x);
    else
        linear_forward(linear, count(rows), y, x);
}

/* s PRE(u), in y (M,C) or u itself where nothing changes it. */
static const real *normed_forward(const struct sublayer_call *c, struct range rows, real *y) {
    const struct sublayer *s = c->s;
    const real *normed = norm_forward(&s->pre, &c->pass->tokens, rows, y,
                                      connection_u(&s->connection) + rows.begin * s->C);
    if (s->s_factor == 1) return normed;
    residual_scale(count(rows) * s->C, y, (real)s->s_factor, normed);
    return y;
}

/* y (M,H) = act(expanded) */
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
                              .others = s->gate.G,
                              .qkv = s->expanded,
                              .softmax = s->softmax,
                              .softcap = s->softcap,
                              .dropout = stage_dropout(s, c->pass, "attention", s->heads * T),
                              .first = c->pass->rows.begin % T};
}

static void keep_proj(const struct sublayer_call *c, size_t n, size_t M) {
    linear_keep(&c->s->proj, &c->w->proj, ring_row(c, n), M, c->dprojected + n * c->s->C,
                proj_in_at(c, n));
}

/* ---- the stages, forward and backward ---- */

/* u = READ(streams) */
static void read_forward(const struct sublayer_call *c, struct range rows) {
    const struct connection *connection = &c->s->connection;
    if (connection->kind->functions->read)
        connection->kind->functions->read(connection, &c->pass->tokens, rows);
}

/* dx = READ'(dsum, du) */
static void read_backward(const struct sublayer_call *c, struct range rows) {
    const struct connection *connection = &c->s->connection;
    size_t first = rows.begin * c->s->C;
    const real *du = du_at(c, rows.begin);
    real *scratch =
        du == c->scratch ? c->scratch + c->s->sweep * sublayer_widest(c->s) : c->scratch;
    connection->kind->functions->read_backward(connection, &c->pass->tokens, rows, c->dx + first,
                                               c->dsum + first, du, scratch);
}

/* expanded = in(s PRE(u)) */
static void pre_forward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    real *expanded = s->expanded + rows.begin * s->E;
    product_forward(c, &s->in, rows, expanded, normed_forward(c, rows, c->scratch));
    qkv_norm_keep(&s->qkv_norm, rows, expanded);
}

/* du = PRE'(dnormed) */
static void pre_backward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    norm_backward(&s->pre, &c->pass->tokens, rows, du_at(c, rows.begin), dnormed_at(c, rows.begin),
                  connection_u(&s->connection) + rows.begin * s->C);
}

/* q, k = g q, g k, or expanded = g expanded; keeps the earlier values. */
static void in_gain_forward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    size_t width = s->in_gain.groups * s->in_gain.size, n = rows.begin, M = count(rows);
    if (!gain_present(&s->in_gain)) return;
    real *ungained = s->ungained + n * width, *expanded = s->expanded + n * s->E;
    for (size_t m = 0; m < M; m++)
        memcpy(ungained + m * width, expanded + m * s->E, width * sizeof(real));
    gain_forward(&s->in_gain, M, expanded, s->E, ungained, width);
}

/* Turns the gradient of in_gain's output, in dexpanded (M,E), into that of its input, in place. */
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

/* q, k, v = R QKV(q, k, v), and with learned factors g q, g k, v; or inner = act(g expanded) */
static void inner_forward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    const struct tokens *tokens = &c->pass->tokens;
    real *expanded = s->expanded + rows.begin * s->E;
    if (s->heads) {
        qkv_norm_forward(&s->qkv_norm, tokens, rows, expanded, c->scratch);
        rope_forward(&s->rope, tokens->T, rows, s->heads + s->kv_heads, expanded, s->E);
    }
    in_gain_forward(c, rows);
    if (!s->heads) act_forward(c, rows, inner_at(c, rows.begin));
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
    if (s->s_factor != 1) residual_scale(M * s->C, dnormed, (real)s->s_factor, dnormed);
    // s PRE(u) once more: the gradient of in's weight reads it
    if (sublayer_has_normed(s)) normed_forward(c, rows, c->w->normed + ring_row(c, n) * s->C);
    linear_keep(&s->in, &c->w->in, ring_row(c, n), M, dexpanded, normed_at(c, n));
}

/* A part of the heads, where the work is shared. */
static void shared_heads(void *argument, size_t part, size_t parts, size_t thread) {
    const struct sublayer_call *c = argument;
    const struct attention attention = attention_of(c);
    attention_forward(&attention, team_part_of(part, parts, attention.NH, 1), c->s->inner,
                      c->w->threads + thread * c->w->thread_size);
}

void stage_attention_forward(const struct sublayer_call *c, struct range heads) {
    const struct attention attention = attention_of(c);
    if (c->pass->shared)
        team_share(shared_heads, (void *)c, c->s->heads); // of the one sequence
    else
        attention_forward(&attention, heads, c->s->inner, c->scratch);
}

void stage_attention_backward(const struct sublayer_call *c, struct range heads) {
    const struct attention attention = attention_of(c);
    attention_backward(&attention, heads, c->w->dexpanded, c->w->dproj_in, c->scratch);
}

/* inner = GATE inner, projected = proj(FFN(inner)) */
static void proj_forward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    gate_forward(&s->gate, count(rows), inner_at(c, rows.begin),
                 gate_z(c, s->expanded, rows.begin));
    const real *proj_in = norm_forward(&s->ffn_norm, &c->pass->tokens, rows, ffn_scratch(c, 0),
                                       inner_at(c, rows.begin));
    product_forward(c, &s->proj, rows, projected_at(c, rows.begin), proj_in);
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

/* f = OUT(projected), streams = WRITE(streams, drop(f)) */
static void out_forward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    const struct connection *connection = &s->connection;
    real *kept = offset_or_null(connection->f, rows.begin * s->C);
    const real *f = norm_forward(&s->out, &c->pass->tokens, rows, kept ? kept : c->scratch,
                                 projected_at(c, rows.begin));
    connection->kind->functions->write(connection, rows, f, c->drop);
}

/* dprojected = OUT'(df), dproj_in = GATE' proj'(dprojected), and the gradient of the gate's z */
static void out_backward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    size_t first = rows.begin * s->C;
    const real *dprojected =
        norm_backward(&s->out, &c->pass->tokens, rows, offset_or_null(c->w->dprojected, first),
                      c->df + first, offset_or_null(s->projected, first));
    linear_backward(&s->proj, rows.begin / ROWS, count(rows), dproj_in_at(c, rows.begin),
                    dprojected);
    if (!s->heads) return;
    keep_proj(c, rows.begin, count(rows));
    gate_backward(&s->gate, count(rows), dproj_in_at(c, rows.begin),
                  gate_z(c, c->w->dexpanded, rows.begin), proj_in_at(c, rows.begin),
                  gate_z(c, s->expanded, rows.begin));
}

/* y = POST(sum) */
static void post_forward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    size_t first = rows.begin * s->C;
    norm_forward(&s->post, &c->pass->tokens, rows, s->y + first, s->connection.sum + first);
}

/* dsum = POST'(dy), df = drop(WRITE'(dsum)) */
static void post_backward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    const struct connection *connection = &s->connection;
    size_t first = rows.begin * s->C;
    const real *dy = c->dy + first;
    if (c->pass->tokens.probe) residual_squares(rows, s->C, s->dy_squares, dy);
    const real *dsum =
        norm_backward(&s->post, &c->pass->tokens, rows, offset_or_null(c->w->dsum, first), dy,
                      connection->sum + first);
    real *df = connection_has_df(connection, c->drop) ? c->w->df + first : NULL;
    connection->kind->functions->write_backward(connection, rows, df, dsum, c->drop);
}

stage_function *const stage_forward[STAGES] = {
    [STAGE_READ] = read_forward, [STAGE_PRE] = pre_forward, [STAGE_INNER] = inner_forward,
    [STAGE_PROJ] = proj_forward, [STAGE_OUT] = out_forward, [STAGE_POST] = post_forward};
stage_function *const stage_backward[STAGES] = {
    [STAGE_READ] = read_backward, [STAGE_PRE] = pre_backward, [STAGE_INNER] = inner_backward,
    [STAGE_PROJ] = proj_backward, [STAGE_OUT] = out_backward, [STAGE_POST] = post_backward};

/* dW += the slab's part, from operands that linear_keep() kept, or from dy and x in place. */
static void weight_gradient(const struct sublayer_call *c, const struct linear *linear,
                            const struct linear_operands *kept, struct range slab, const real *dy,
                            const real *x) {
    const struct parts *parts = &c->parts;
    if (kept->dy)
        linear_kept_gradient(linear, kept, parts, slab, ring_row(c, slab.begin));
    else
        linear_weight_gradient(linear, parts, slab, dy, linear->out, x);
}

void stage_proj_gradient(const struct sublayer_call *c, struct range slab) {
    const struct sublayer *s = c->s;
    real *proj_in = proj_in_at(c, slab.begin);
    if (s->heads && !c->w->proj.dy)
        cache_fetch(count(slab) * s->H, proj_in); // forward wrote it, long ago
    weight_gradient(c, &s->proj, &c->w->proj, slab, c->dprojected + slab.begin * s->C, proj_in);
}

void stage_in_gradient(const struct sublayer_call *c, struct range slab) {
    weight_gradient(c, &c->s->in, &c->w->in, slab, dexpanded_at(c, slab.begin),
                    normed_at(c, slab.begin));
}
