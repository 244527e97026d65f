/* What forward does not store, because the next operation reads it at once, is computed again, which
   gives the same bits: a norm uses the statistics that it saved. */
#include "model/lab/dump.h"
#include "data/die.h"
#include "model/head.h"
#include "model/lab/checkpoint.h"
#include "model/model_pass.h"
#include <stdlib.h>
#include <string.h>

void dump_free(struct dump *d) {
    for (size_t i = 0; i < d->next; i++) free((void *)d->file.arrays[i].data);
    safetensors_close(&d->file);
}

/* The pass's part of the next array (B,T,...), which is named SITE and then PART. Its shape
   continues with `heads` and `width`, each only if it is not 0. */
static void *take(struct dump *d, enum stored_type type, size_t heads, size_t width,
                  const char *site, const char *part) {
    const struct batch *batch = d->pass->batch;
    struct stored like = {.type = type, .dimensions = 2, .shape = {batch->B, batch->T}};
    if (heads) like.shape[like.dimensions++] = heads;
    if (width) like.shape[like.dimensions++] = width;
    if (d->next == d->file.array_count) {
        like.name = memory_text("%s%s", site, part);
        like.data = memory_take(stored_bytes(&like), 1, "a dump");
        safetensors_add(&d->file, like);
    }
    char *data = (char *)d->file.arrays[d->next++].data; // of all sequences
    return data + d->pass->part.first * stored_bytes(&like) / batch->B;
}

static size_t tokens_of(const struct dump *d) { // of the pass
    return d->tokens.B * d->tokens.T;
}

static real *take_reals(struct dump *d, size_t width, const char *site, const char *part) {
    return take(d, stored_real(), 0, width, site, part);
}

static void put(struct dump *d, size_t width, const char *site, const char *part, const real *x) {
    memcpy(take_reals(d, width, site, part), x, tokens_of(d) * width * sizeof(real));
}

static void put_batch(struct dump *d, const struct batch *batch) {
    int64_t *ids = take(d, STORED_I64, 0, 0, "ids", "");
    int64_t *targets = take(d, STORED_I64, 0, 0, "targets", "");
    int64_t *valid = take(d, STORED_I64, 0, 0, "valid", "");
    for (size_t n = 0; n < tokens_of(d); n++) {
        ids[n] = batch->ids[n];
        targets[n] = batch->targets[n];
        valid[n] = !batch->valid || batch->valid[n];
    }
}

/* Input and output of a norm of the pass's tokens. Returns the output. */
static const real *put_norm(struct dump *d, const struct norm *norm, const real *x) {
    if (!norm->name[0]) return x;
    size_t N = tokens_of(d), C = norm->C;
    put(d, C, norm->name, ".input", x);
    real *y = take_reals(d, C, norm->name, ".output");
    const real *from = norm_forward(norm, &d->tokens, (struct range){0, N}, y, x);
    if (from != y) memcpy(y, from, N * C * sizeof *y);
    return y;
}

/* The norms of queries, keys and values, of rows by head or over the full width. */
static void put_qkv_norm(struct dump *d, const struct qkv_norm *qkv) {
    size_t N = tokens_of(d);
    for (enum qkv i = QKV_Q; i < QKV_COUNT; i++) {
        size_t heads = qkv->over_width ? 0 : qkv->columns[i].heads;
        const struct norm *norm = &qkv->norm[i];
        if (!norm->name[0]) continue;
        real *x = take(d, stored_real(), heads, norm->C, norm->name, ".input");
        real *y = take(d, stored_real(), heads, norm->C, norm->name, ".output");
        memcpy(x, qkv->raw[i], N * qkv->columns[i].width * sizeof *x);
        qkv_norm_one_forward(qkv, i, &d->tokens, (struct range){0, N}, y);
    }
}

/* What an operation reads and writes, x and y, if the file has it. */
static void put_operation(struct dump *d, const struct op *op, size_t layer, const real *x,
                          const real *y) {
    const struct norm *norm = op->self;
    char site[TENSOR_NAME];
    if (op->kind == &op_qkv_norm) put_qkv_norm(d, op->self);
    if (op->kind == &op_attention) {
        snprintf(site, sizeof site, "transformer.h.%zu.attn", layer);
        put(d, op->in->gradient.width, site, ".qkv", x);
        put(d, op->out->gradient.width, site, ".output", y);
    }
    if (op->kind != &op_norm && op->kind != &op_identity) return;
    put(d, norm->C, norm->name, ".input", x);
    put(d, norm->C, norm->name, ".output", y);
}

static void put_sublayer(struct dump *d, const struct sublayer *s, size_t layer) {
    const size_t N = tokens_of(d);
    const struct pass pass = {.tokens = d->tokens, .rows = {0, N}};
    struct step step = {.pass = &pass, .rows = pass.rows};
    real *made = NULL;
    put_norm(d, &s->connection.norm, s->connection.norm_in);
    for (const struct op *op = s->chain.op; op < s->chain.op + s->chain.ops; op++) {
        real *before = made, *stored = op->out->place[FORWARD].first;
        step.x = op->in->place[FORWARD].first ? op->in->place[FORWARD].first : made;
        step.y = op->out == op->in ? step.x : stored;
        if (!step.y) {
            step.y = made = memory_take(N * op->out->place[FORWARD].width, sizeof *made, "a dump");
            op->kind->run(op->self, &step);
        }
        put_operation(d, op, layer, step.x, step.y);
        if (made != before) free(before);
    }
    free(made);
}

static void put_stream(struct dump *d, size_t C, size_t number, const real *x) {
    char name[32];
    snprintf(name, sizeof name, "stream.%zu", number);
    put(d, C, name, "", x);
}

void dump_pass(struct dump *d, const struct passes *p) {
    struct model *m = p->model;
    d->next = 0;
    d->pass = p;
    d->tokens = model_tokens(m, &p->part, p->training);
    put_batch(d, &p->part);
    put_norm(d, &m->embedding_norm, m->embedded);
    put_stream(d, m->C, 0, m->stream_in);
    for (size_t l = 0; l < m->L; l++) {
        put_sublayer(d, &m->layer[l].attention, l);
        put_stream(d, m->C, 2 * l + 1, m->layer[l].attention.y);
        put_sublayer(d, &m->layer[l].mlp, l);
        put_stream(d, m->C, 2 * l + 2, m->layer[l].mlp.y);
    }
    put_norm(d, &m->end.norm, m->end.norm_in);
    put_norm(d, &m->final, model_final_in(m));
    put(d, m->C, "head_in", "", m->head_in);
    real *logits = take_reals(d, m->V, "logits", "");
    for (size_t n = 0; n < tokens_of(d); n++)
        memcpy(logits + n * m->V, head_logits(m, n), m->V * sizeof *logits);
}
