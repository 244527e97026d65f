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
#include "model/math/profile.h"
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

/* y (M,out) = linear(x) for these rows. */
static void product_forward(const struct sublayer_call *c, const struct linear *linear,
                            struct range rows, real *y, const real *x) {
    if (c->pass->shared)
        linear_forward_shared(linear, count(rows), y, x);
    else
        linear_forward(linear, count(rows), y, x);
}

const real *stage_normed(const struct sublayer_call *c, struct range rows, real *y) {
    const struct sublayer *s = c->s;
    const real *normed = norm_forward(&s->pre, &c->pass->tokens, rows, y,
                                      connection_u(&s->connection) + rows.begin * s->C);
    if (s->s_factor == 1) return normed;
    residual_scale(count(rows) * s->C, y, (real)s->s_factor, normed);
    return y;
}

void stage_act(const struct sublayer_call *c, struct range rows, real *y) {
    const struct sublayer *s = c->s;
    activation_forward(s->activation, count(rows), s->H, y, s->expanded + rows.begin * s->E);
    profile_lap(PROFILE_ELEMENTWISE);
}

struct attention stage_attention(const struct sublayer_call *c) {
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
                              .dropout = dropout_at(s, c->pass, "attention", s->heads * T),
                              .first = c->pass->rows.begin % T};
}

/* u = READ(streams) */
static void read_forward(const struct sublayer_call *c, struct range rows) {
    const struct connection *connection = &c->s->connection;
    if (connection->kind->functions->read)
        connection->kind->functions->read(connection, &c->pass->tokens, rows);
}

/* expanded = in(s PRE(u)) */
static void pre_forward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    real *expanded = s->expanded + rows.begin * s->E;
    product_forward(c, &s->in, rows, expanded, stage_normed(c, rows, c->scratch));
    qkv_norm_keep(&s->qkv_norm, rows, expanded);
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
    stage_act(c, rows, inner_at(c, rows.begin));
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
    struct shared_attention all = {c, stage_attention(c)};
    if (c->pass->shared)
        team_share(shared_heads, &all, c->s->heads); // of the one sequence
    else
        attention_forward(&all.attention, heads, c->s->inner, c->scratch);
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

/* f = OUT(projected), streams = WRITE(streams, drop(f)) */
static void out_forward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    const struct connection *connection = &s->connection;
    real *kept = offset_or_null(connection->f, rows.begin * s->C);
    const real *f = norm_forward(&s->out, &c->pass->tokens, rows, kept ? kept : c->scratch,
                                 projected_at(c, rows.begin));
    connection->kind->functions->write(connection, rows, f, c->drop);
}

/* y = POST(sum) */
static void post_forward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    size_t first = rows.begin * s->C;
    norm_forward(&s->post, &c->pass->tokens, rows, s->y + first, s->connection.sum + first);
}

stage_function *const stage_forward[STAGES] = {
    [STAGE_READ] = read_forward, [STAGE_PRE] = pre_forward, [STAGE_INNER] = inner_forward,
    [STAGE_PROJ] = proj_forward, [STAGE_OUT] = out_forward, [STAGE_POST] = post_forward};
