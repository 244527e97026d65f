/* What a sub-layer computes, stage by stage:

     y = POST(WRITE(streams, drop(OUT(proj(FFN(inner(in(s PRE(READ(streams))))))))))

     stage | forward                              | backward
     ------+--------------------------------------+-----------------------------------------------
     READ  | u = READ(streams)                    | dx = READ'(dsum, du)
     PRE   | expanded = in(s PRE(u))              | du = PRE'(dnormed)
     INNER | MLP: inner = act(expanded)           | attention: dq, dk, dv = QKV'(dq, dk, dv)
           | attention: q, k, v = R QKV(q, k, v)  | both: dnormed = s in'(dexpanded)
       -   | attention: inner = attention(q,k,v)  | attention: dq, dk, dv = attention'(dproj_in)
     PROJ  | attention: inner = GATE inner        | MLP: dexpanded = act'(FFN'(dproj_in))
           | projected = proj(FFN(inner))         | attention: dq, dk = R'(dq, dk)
     OUT   | f = OUT(projected)                   | dprojected = OUT'(df), dproj_in = proj'(...)
           | streams = WRITE(streams, drop(f))    | attention: dproj_in = GATE' dproj_in
     POST  | y = POST(sum)                        | dsum = POST'(dy), df = drop(WRITE'(dsum))

   READ and WRITE are the residual connection's (connection.h); sum is its main stream. Attention
   itself works on heads instead of rows: sublayer_pass.c calls it between the stages INNER and
   PROJ. q, k and v are the columns of attention's `expanded`. FFN is a norm of the MLP, QKV are
   norms of attention; the other has none there. R rotates q and k by their positions, and GATE
   multiplies by sigmoids, or they are the identity (attention.h).

   With learned factors g (gain.h): q, k = g R QK(q), g R QK(k), or inner = act(g expanded), and in
   backward dq = R' g dq and so on. */
#include "model/sublayer_stages.h"

static size_t count(struct range rows) {
    return rows.end - rows.begin;
}

/* The row of token n in a ring of slabs: what backward computes again. */
static size_t ring_row(const struct sublayer_call *c, size_t n) {
    return c->ring.begin + (n - c->all.begin) % count(c->ring);
}

/* The rows of a value from token n on; NULL if the sub-layer does not store it. */
static inline real *at(const struct sublayer_call *c, const struct place *p, size_t n) {
    return p->first ? p->first + (p->ring ? ring_row(c, n) : n) * p->size : NULL;
}

/* The dropout of one of the sub-layer's two places in this pass, with `per_token` elements of each
   token; none in evaluation. */
static struct dropout dropout_of(const struct sublayer *s, const struct pass *pass,
                                 const char *place, size_t per_token) {
    double p = pass->tokens.training ? s->dropout : 0;
    uint64_t key = p > 0 ? random_key(random_key(s->seed, place, pass->step), "", s->site) : 0;
    return dropout_make(p, key, (uint64_t)pass->first * per_token);
}

static struct place stored(const real *rows, size_t size) {
    return (struct place){(real *)rows, size, false};
}

/* Sets where values are. All tokens' rows are stored if a norm pools over the tokens, if attention
   comes in between, or if backward reads them. Else only the next stage reads them: those of a
   sweep are enough. */
static void set_places(struct sublayer_call *c, real *dx, const real *dy) {
    const struct sublayer *s = c->s;
    const struct sublayer_scratch *w = c->w;
    const struct connection *connection = &s->connection;
    const size_t C = s->C, H = s->H, wide = s->sweep * sublayer_widest(s);
    const bool ffn = norm_present(&s->ffn_norm);
    // sweeps in the thread's scratch, which attention overwrites
    const struct place first = stored(c->scratch, 0), second = stored(c->scratch + wide, 0),
                       third = stored(c->spare, 0), fourth = stored(c->spare + wide, 0);
    c->norm_in = stored(connection->norm_in, C);
    c->u = stored(connection_u(connection), C);
    c->normed = !sublayer_has_normed(s) ? c->u : dy ? w->normed : first;
    c->expanded = stored(s->expanded, s->E);
    c->proj_in = s->heads ? stored(s->inner, H) : dy ? w->proj_in : first;
    c->inner = s->inner ? stored(s->inner, H) : ffn ? third : c->proj_in;
    c->projected = s->projected ? stored(s->projected, C) : second;
    c->f = connection->f ? stored(connection->f, C) : first;
    c->sum = stored(connection->sum, C);
    c->y = stored(s->y, C);
    if (!dy) return;
    // the gradient of an identity is the one that comes before it
    c->dx = stored(dx, C);
    c->dy = stored(dy, C);
    c->dsum = norm_present(&s->post) ? w->dsum : c->dy;
    c->df = connection_has_df(connection, c->drop.threshold) ? w->df : c->dsum;
    c->dprojected = norm_present(&s->out) ? w->dprojected : c->df;
    c->dproj_in = w->dproj_in.first ? w->dproj_in : first;
    c->dinner = ffn ? fourth : c->dproj_in;
    c->dexpanded = w->dexpanded;
    c->dnormed = sublayer_keeps_dnormed(s) ? w->dnormed : second;
    c->du = !norm_present(&s->pre) ? c->dnormed : w->du.first ? w->du : first;
}

void stage_call(struct sublayer_call *c, const struct sublayer *s, const struct pass *pass,
                const struct sublayer_scratch *w, real *dx, const real *dy) {
    const size_t T = pass->tokens.T;
    *c = (struct sublayer_call){.s = s, .pass = pass, .w = w, .backward = dy};
    c->drop = dropout_of(s, pass, "residual", s->C);
    c->scratch = w->threads + (size_t)omp_get_thread_num() * w->thread_size;
    c->spare = c->scratch + s->sweep * (sublayer_widest(s) + s->C);
    if (s->heads) {
        c->attention = s->attention;
        c->attention.T = T;
        c->attention.dropout = dropout_of(s, pass, "attention", s->heads * T);
        c->attention.first = pass->rows.begin % T;
        c->attention.scratch_row = w->thread_size;
    }
    set_places(c, dx, dy);
    c->in = (struct stage_product){&s->in, &w->in, &c->dexpanded, &c->normed};
    c->proj = (struct stage_product){&s->proj, &w->proj, &c->dprojected, &c->proj_in};
    // READ applies its norm itself
    c->norm[STAGE_READ] = (struct stage_norm){&s->connection.norm, .x = &c->norm_in, .dy = &c->du};
    c->norm[STAGE_PRE] = (struct stage_norm){&s->pre, &c->u, &c->normed, &c->dnormed, &c->du};
    c->norm[STAGE_PROJ] =
        (struct stage_norm){&s->ffn_norm, &c->inner, &c->proj_in, &c->dproj_in, &c->dinner};
    c->norm[STAGE_OUT] = (struct stage_norm){&s->out, &c->projected, &c->f, &c->df, &c->dprojected};
    c->norm[STAGE_POST] = (struct stage_norm){&s->post, &c->sum, &c->y, &c->dy, &c->dsum};
}

/* ---- what several stages use ---- */

/* The norm of a stage: returns its output. */
static const real *normalize(const struct sublayer_call *c, enum stage stage, struct range rows) {
    const struct stage_norm *n = &c->norm[stage];
    return norm_forward(n->norm, &c->pass->tokens, rows, at(c, n->y, rows.begin),
                        at(c, n->x, rows.begin));
}

static const real *normalize_backward(const struct sublayer_call *c, enum stage stage,
                                      struct range rows) {
    const struct stage_norm *n = &c->norm[stage];
    return norm_backward(n->norm, &c->pass->tokens, rows, at(c, n->dx, rows.begin),
                         at(c, n->dy, rows.begin), at(c, n->x, rows.begin));
}

/* to = s from; to may be from. Returns `to`, or `from` if s is 1. */
static const real *scale(const struct sublayer_call *c, struct range rows, real *to,
                         const real *from) {
    const struct range elements = {0, count(rows) * c->s->C};
    if (c->s->s_factor == 1) return from;
    dropout_axpby(elements, to, 0, NULL, (real)c->s->s_factor, from, (struct dropout){0});
    return to;
}

/* s PRE(u) */
static const real *normed_forward(const struct sublayer_call *c, struct range rows) {
    return scale(c, rows, at(c, &c->normed, rows.begin), normalize(c, STAGE_PRE, rows));
}

/* inner = act(expanded) */
static void act_forward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    activation_forward(s->activation, count(rows), s->H, at(c, &c->inner, rows.begin),
                       at(c, &c->expanded, rows.begin));
}

/* The operands of a weight gradient are read in place, or from copies. */
static void keep_operands(const struct sublayer_call *c, const struct stage_product *p,
                          struct range rows) {
    const size_t n = rows.begin;
    linear_keep(p->linear, p->kept, ring_row(c, n), count(rows), at(c, p->dy, n), at(c, p->x, n));
}

void stage_weight_gradient(const struct sublayer_call *c, const struct stage_product *p,
                           struct range slab) {
    const size_t n = slab.begin;
    const bool kept = p->kept->dy.data;
    linear_weight_gradient(p->linear, &c->parts, slab,
                           kept ? matrix_from(p->kept->dy, ring_row(c, n))
                                : matrix_of(at(c, p->dy, n), p->linear->out),
                           kept ? matrix_from(p->kept->x, ring_row(c, n))
                                : matrix_of(at(c, p->x, n), p->linear->in));
}

/* ---- the stages, forward and backward ---- */

static void read_forward(const struct sublayer_call *c, struct range rows) {
    const struct connection *connection = &c->s->connection;
    if (connection->kind->functions->read)
        connection->kind->functions->read(connection, &c->pass->tokens, rows);
}

static void read_backward(const struct sublayer_call *c, struct range rows) {
    const struct connection *connection = &c->s->connection;
    const size_t n = rows.begin;
    connection->kind->functions->read_backward(connection, &c->pass->tokens, rows, at(c, &c->dx, n),
                                               at(c, &c->dsum, n), at(c, &c->du, n), c->spare);
}

static void pre_forward(const struct sublayer_call *c, struct range rows) {
    real *expanded = at(c, &c->expanded, rows.begin);
    linear_forward(&c->s->in, count(rows), expanded, normed_forward(c, rows));
    qkv_norm_keep(&c->s->qkv_norm, rows, expanded);
}

static void pre_backward(const struct sublayer_call *c, struct range rows) {
    normalize_backward(c, STAGE_PRE, rows);
}

static void inner_forward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    const struct tokens *tokens = &c->pass->tokens;
    real *expanded = at(c, &c->expanded, rows.begin);
    if (s->heads) {
        qkv_norm_forward(&s->qkv_norm, tokens, rows, expanded, c->scratch);
        rope_rotate(&s->rope, tokens->T, rows, s->heads + s->attention.KV, 1, expanded, s->E);
    }
    gain_forward_kept(&s->in_gain, rows, expanded, s->E);
    if (!s->heads) act_forward(c, rows);
}

static void inner_backward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    const size_t n = rows.begin, M = count(rows);
    real *dexpanded = at(c, &c->dexpanded, n), *dnormed = at(c, &c->dnormed, n);
    if (s->heads)
        qkv_norm_backward(&s->qkv_norm, &c->pass->tokens, rows, dexpanded, c->w->dqkv.first,
                          c->scratch);
    linear_backward(&s->in, n / ROWS, M, dnormed, dexpanded);
    scale(c, rows, dnormed, dnormed);
    normed_forward(c, rows); // once more, for the gradient of in's weight
    keep_operands(c, &c->in, rows);
}

static void proj_forward(const struct sublayer_call *c, struct range rows) {
    const size_t n = rows.begin;
    gate_apply(&c->s->attention, count(rows), at(c, &c->inner, n), at(c, &c->expanded, n), NULL,
               NULL);
    linear_forward(&c->s->proj, count(rows), at(c, &c->projected, n),
                   normalize(c, STAGE_PROJ, rows));
}

static void proj_backward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    const size_t n = rows.begin;
    real *dexpanded = at(c, &c->dexpanded, n);
    if (norm_present(&s->ffn_norm)) {
        if (!s->inner) act_forward(c, rows); // once more, and so is proj_in
        normalize(c, STAGE_PROJ, rows);
        normalize_backward(c, STAGE_PROJ, rows);
    }
    if (!s->heads) // makes inner once more
        activation_backward(s->activation, count(rows), s->H, dexpanded, at(c, &c->inner, n),
                            at(c, &c->dinner, n), at(c, &c->expanded, n));
    gain_backward_kept(&s->in_gain, rows, dexpanded, s->E);
    if (s->heads)
        rope_rotate(&s->rope, c->pass->tokens.T, rows, s->heads + s->attention.KV, -1, dexpanded,
                    s->E);
    keep_operands(c, &c->proj, rows);
}

static void out_forward(const struct sublayer_call *c, struct range rows) {
    const struct connection *connection = &c->s->connection;
    const real *f = normalize(c, STAGE_OUT, rows);
    connection->kind->functions->write(connection, rows, f, c->drop);
}

static void out_backward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    const size_t n = rows.begin, M = count(rows);
    real *dproj_in = at(c, &c->dproj_in, n);
    linear_backward(&s->proj, n / ROWS, M, dproj_in, normalize_backward(c, STAGE_OUT, rows));
    gate_apply(&s->attention, M, dproj_in, at(c, &c->expanded, n), at(c, &c->dexpanded, n),
               at(c, &c->inner, n));
}

static void post_forward(const struct sublayer_call *c, struct range rows) {
    normalize(c, STAGE_POST, rows);
}

static void post_backward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    const size_t n = rows.begin;
    if (c->pass->tokens.probe) sublayer_squares(rows, s->C, s->dy_squares, at(c, &c->dy, n));
    const real *dsum = normalize_backward(c, STAGE_POST, rows);
    real *df = connection_has_df(&s->connection, c->drop.threshold) ? at(c, &c->df, n) : NULL;
    s->connection.kind->functions->write_backward(&s->connection, rows, df, dsum, c->drop);
}

stage_function *const stage_forward[STAGES] = {
    [STAGE_READ] = read_forward, [STAGE_PRE] = pre_forward, [STAGE_INNER] = inner_forward,
    [STAGE_PROJ] = proj_forward, [STAGE_OUT] = out_forward, [STAGE_POST] = post_forward};
stage_function *const stage_backward[STAGES] = {
    [STAGE_READ] = read_backward, [STAGE_PRE] = pre_backward, [STAGE_INNER] = inner_backward,
    [STAGE_PROJ] = proj_backward, [STAGE_OUT] = out_backward, [STAGE_POST] = post_backward};
