/* What the operations of a sub-layer compute; sublayer.c lists them in order. Formulas and their
   derivatives are in the files of norms, connections and layers that are called here. READ and
   WRITE are the residual connection's (connection.h), sum is its main stream. q, k, v and the
   gate's z are columns of one value (attention.h). */
#include "model/block/sublayer.h"

static size_t count(const struct step *step) {
    return step->rows.end - step->rows.begin;
}

/* The dropout of one of the sub-layer's two places in this pass, with `per_token` elements of each
   token; none in evaluation. */
static struct dropout dropout_of(const struct sublayer *s, const struct pass *pass,
                                 const char *place, size_t per_token) {
    double p = pass_drops(pass) ? s->dropout : 0;
    uint64_t key = p > 0 ? random_key(random_key(s->seed, place, pass->number), "", s->site) : 0;
    return dropout_make(p, key, (uint64_t)pass->first * per_token);
}

/* ---- READ and WRITE ---- */

static void read(const void *self, const struct step *step) {
    const struct connection *c = self;
    const struct connection_functions *kind = c->kind->functions;
    if (step->backward)
        kind->read_backward(c, &step->pass->tokens, step->rows, step->dx, step->dbeside, step->dy,
                            step->scratch);
    else if (kind->read)
        kind->read(c, &step->pass->tokens, step->rows);
}

static void read_pool(const void *self, const struct step *step) {
    const struct connection *c = self;
    if (step->backward)
        norm_gradient_statistics(&c->norm, &step->pass->tokens, step->dy, c->norm_in);
    else
        norm_statistics(&c->norm, &step->pass->tokens, c->norm_in);
}

static void write(const void *self, const struct step *step) {
    const struct sublayer *s = self;
    const struct connection_functions *kind = s->connection.kind->functions;
    const struct dropout drop = dropout_of(s, step->pass, "residual", s->C);
    if (step->backward)
        kind->write_backward(&s->connection, step->rows, step->dx == step->dy ? NULL : step->dx,
                             step->dy, drop);
    else
        kind->write(&s->connection, step->rows, step->x, drop);
}

/* ---- norms, products, factors ---- */

static void normalize(const void *self, const struct step *step) {
    const struct tokens *tokens = &step->pass->tokens;
    if (step->backward)
        norm_backward(self, tokens, step->rows, step->dx, step->dy, step->x);
    else
        norm_forward(self, tokens, step->rows, step->y, step->x);
}

static void normalize_pool(const void *self, const struct step *step) {
    if (step->backward)
        norm_gradient_statistics(self, &step->pass->tokens, step->dy, step->x);
    else
        norm_statistics(self, &step->pass->tokens, step->x);
}

static void multiply(const void *self, const struct step *step) {
    if (step->backward)
        linear_backward(self, step->rows.begin / ROWS, count(step), step->dx, step->dy);
    else
        linear_forward(self, count(step), step->y, step->x);
}

static void scale(const void *self, const struct step *step) {
    const struct sublayer *s = self;
    const struct range elements = {0, count(step) * s->C};
    dropout_axpby(elements, step->backward ? step->dx : step->y, 0, NULL, (real)s->s_factor,
                  step->backward ? step->dy : step->x, (struct dropout){0});
}

static void gain(const void *self, const struct step *step) {
    const struct sublayer *s = self;
    if (step->backward)
        gain_backward_kept(&s->in_gain, step->rows, step->dy, s->E);
    else
        gain_forward_kept(&s->in_gain, step->rows, step->y, s->E);
}

/* ---- attention and the MLP ---- */

static void qkv_keep(const void *self, const struct step *step) {
    if (!step->backward) qkv_norm_keep(self, step->rows, step->y);
}

static void qkv_normalize(const void *self, const struct step *step) {
    const struct tokens *tokens = &step->pass->tokens;
    if (step->backward)
        qkv_norm_backward(self, tokens, step->rows, step->dy, step->held, step->scratch);
    else
        qkv_norm_forward(self, tokens, step->rows, step->y, step->scratch);
}

static void qkv_pool(const void *self, const struct step *step) {
    if (!step->backward) return qkv_norm_statistics(self, &step->pass->tokens);
    team_barrier();
    qkv_norm_gradient_statistics(self, &step->pass->tokens, step->held, step->dy);
}

static void rotate(const void *self, const struct step *step) {
    const struct sublayer *s = self;
    rope_rotate(&s->rope, step->pass->tokens.T, step->rows, s->heads + s->attention.KV,
                step->backward ? -1 : 1, step->backward ? step->dy : step->y, s->E);
}

static void attend(const void *self, const struct step *step) {
    const struct sublayer *s = self;
    struct attention a = s->attention;
    a.T = step->pass->tokens.T;
    a.qkv = step->x;
    a.dropout = dropout_of(s, step->pass, "attention", s->heads * a.T);
    a.first = step->pass->rows.begin % a.T;
    if (step->backward)
        attention_backward(&a, step->rows, step->dx, step->dy, step->scratch);
    else
        attention_forward(&a, step->rows, step->y, step->scratch);
}

static void gate(const void *self, const struct step *step) {
    if (step->backward)
        gate_apply(self, count(step), step->dy, step->beside, step->dbeside, step->y);
    else
        gate_apply(self, count(step), step->y, step->beside, NULL, NULL);
}

static void activate(const void *self, const struct step *step) {
    const struct sublayer *s = self;
    if (step->backward)
        activation_backward(s->activation, count(step), s->H, step->dx, step->y, step->dy, step->x);
    else
        activation_forward(s->activation, count(step), s->H, step->y, step->x);
}

/* ---- the kinds ---- */

const struct op_kind op_read = {"y = READ(streams)", 0, read, read_pool};
const struct op_kind op_norm = {"y = N(x)", OP_AGAIN | OP_READS_IN, normalize, normalize_pool};
const struct op_kind op_identity = {"y = x", OP_IN_PLACE, NULL, NULL};
const struct op_kind op_scale = {"y = s x", OP_AGAIN, scale, NULL};
const struct op_kind op_linear = {"y = x W^T + b", OP_PRODUCT, multiply, NULL};
const struct op_kind op_qkv_keep = {"copies q, k, v", OP_IN_PLACE, qkv_keep, NULL};
const struct op_kind op_qkv_norm = {"q, k, v = N(q), N(k), N(v)", OP_IN_PLACE, qkv_normalize,
                                    qkv_pool};
const struct op_kind op_rope = {"q, k = R q, R k", OP_IN_PLACE, rotate, NULL};
const struct op_kind op_gain = {"x = g x", OP_IN_PLACE, gain, NULL};
const struct op_kind op_attention = {"y = attention(q, k, v)", OP_HEADS | OP_READS_IN, attend,
                                     NULL};
const struct op_kind op_gate = {"x = sigmoid(z) x", OP_IN_PLACE | OP_READS_OUT, gate, NULL};
const struct op_kind op_activation = {"y = F(x)", OP_AGAIN | OP_READS_IN | OP_MAKES_OUT, activate,
                                      NULL};
const struct op_kind op_write = {"streams = WRITE(streams, x)", 0, write, NULL};
