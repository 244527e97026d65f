/* The backward of a sub-layer's stages: the right column of the table in sublayer_stages.c. */
#include "model/layer/residual.h"
#include "model/math/cache.h"
#include "model/math/profile.h"
#include "model/math/reduce.h"
#include "model/sublayer_stages.h"

static void keep_proj(const struct sublayer_call *c, size_t n, size_t M) {
    linear_keep(&c->s->proj, &c->w->proj, ring_row(c, n), M, c->dprojected + n * c->s->C,
                proj_in_at(c, n));
}

/* The sums of squares that probe.h reads. */
static void probe_dy(const struct sublayer_call *c, struct range rows, const real *dy) {
    for (size_t n = rows.begin; n < rows.end; n += ROWS) {
        size_t size = count(team_row_block(n, rows)) * c->s->C;
        const real *at = dy + (n - rows.begin) * c->s->C;
        c->s->dy_squares[n / ROWS] = row_dot(size, at, at);
    }
}

/* dsum = POST'(dy), df = drop(WRITE'(dsum)) */
static void post_backward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    const struct connection *connection = &s->connection;
    size_t first = rows.begin * s->C;
    const real *dy = c->dy + first;
    if (c->pass->tokens.probe) probe_dy(c, rows, dy);
    const real *dsum =
        norm_backward(&s->post, &c->pass->tokens, rows, offset_or_null(c->w->dsum, first), dy,
                      connection->sum + first);
    real *df = connection_has_df(connection, c->drop) ? c->w->df + first : NULL;
    connection->kind->functions->write_backward(connection, rows, df, dsum, c->drop);
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

/* dinner = FFN'(dproj_in), in ffn_scratch(1). Also makes what later stages read: inner in
   ffn_scratch(0), unless it was kept, and proj_in, for the gradient of proj's weight. */
static void proj_backward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    const struct tokens *tokens = &c->pass->tokens;
    if (!norm_present(&s->ffn_norm)) return;
    if (!s->inner) stage_act(c, rows, ffn_scratch(c, 0));
    const real *inner = s->inner ? inner_at(c, rows.begin) : ffn_scratch(c, 0);
    norm_forward(&s->ffn_norm, tokens, rows, proj_in_at(c, rows.begin), inner);
    norm_backward(&s->ffn_norm, tokens, rows, ffn_scratch(c, 1), dproj_in_at(c, rows.begin), inner);
}

/* dq, dk, dv = attention'(dproj_in) */
void stage_attention_backward(const struct sublayer_call *c, struct range heads) {
    const struct attention attention = stage_attention(c);
    attention_backward(&attention, heads, c->w->dexpanded, c->w->dproj_in, c->scratch);
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
    if (sublayer_has_normed(s)) stage_normed(c, rows, c->w->normed + ring_row(c, n) * s->C);
    linear_keep(&s->in, &c->w->in, ring_row(c, n), M, dexpanded, normed_at(c, n));
}

/* du = PRE'(dnormed) */
static void pre_backward(const struct sublayer_call *c, struct range rows) {
    const struct sublayer *s = c->s;
    norm_backward(&s->pre, &c->pass->tokens, rows, du_at(c, rows.begin), dnormed_at(c, rows.begin),
                  connection_u(&s->connection) + rows.begin * s->C);
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
