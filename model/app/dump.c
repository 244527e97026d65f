/* What operations compute is copied as the executor shows it (op_observer, block/op.h), by one
   thread; what forward stores of all tokens, after the pass. */
#include "model/app/dump.h"
#include "data/die.h"
#include "model/app/checkpoint.h"
#include "model/head.h"
#include "model/instruments/watch.h"
#include "model/model_pass.h"
#include <stdlib.h>
#include <string.h>

void dump_free(struct dump *d) {
    for (size_t i = 0; i < d->taken; i++) free((void *)d->file.arrays[i].data);
    safetensors_close(&d->file);
}

/* Token n of the batch in the array (B,T,...) that is named SITE and then PART. Its shape continues
   with `heads` and `width`, each only if it is not 0. */
static void *take(struct dump *d, enum stored_type type, size_t heads, size_t width, size_t n,
                  const char *site, const char *part) {
    struct stored new = {.type = type, .dimensions = 2, .shape = {d->batch->B, d->batch->T}};
    char name[NAME_SIZE];
    size_t i = 0;
    snprintf(name, sizeof name, "%s%s", site, part);
    while (i < d->taken && strcmp(d->file.arrays[i].name, name) != 0) i++;
    if (i == d->taken) {
        if (heads) new.shape[new.dimensions++] = heads;
        if (width) new.shape[new.dimensions++] = width;
        new.name = memory_text("%s", name);
        new.data = memory_take(stored_bytes(&new), 1, "a dump");
        safetensors_add(&d->file, new);
        d->taken++;
    }
    const struct stored *array = &d->file.arrays[i];
    return (char *)array->data + n * stored_bytes(array) / (d->batch->B * d->batch->T);
}

/* x (count,width) of the tokens from n on. */
static void put(struct dump *d, size_t n, size_t count, size_t width, const char *site,
                const char *part, const real *x) {
    memcpy(take(d, stored_real(), 0, width, n, site, part), x, count * width * sizeof(real));
}

/* ---- what the executor shows ---- */

/* norm_observer. The output is computed again, since READ, queries, keys and values do not keep it. */
static void see(void *dump, const struct norm *norm, const struct step *step,
                const struct tokens *tokens, const real *x, const real *dy) {
    const size_t n = step->pass->first + step->rows.begin, heads = tokens->rows_per_token;
    const struct range rows = watch_rows(step, tokens);
    const size_t bytes = (rows.end - rows.begin) * norm->C * sizeof *x;
    if (step->backward || !norm->name[0]) return;
    memcpy(take(dump, stored_real(), heads, norm->C, n, norm->name, ".input"), x, bytes);
    real *y = take(dump, stored_real(), heads, norm->C, n, norm->name, ".output");
    const real *from = norm_forward(norm, tokens, rows, y, x);
    if (from != y) memcpy(y, from, bytes);
}

/* op_observer */
static void observe(void *dump, const struct op *op, const struct step *step) {
    watch_norms(op, step, see, dump);
}

/* ---- what forward stores ---- */

static void put_batch(struct dump *d, const struct batch *part) {
    const size_t first = part->first * part->T;
    int64_t *ids = take(d, STORED_I64, 0, 0, first, "ids", "");
    int64_t *targets = take(d, STORED_I64, 0, 0, first, "targets", "");
    int64_t *valid = take(d, STORED_I64, 0, 0, first, "valid", "");
    for (size_t n = 0; n < part->B * part->T; n++) {
        ids[n] = part->ids[n];
        targets[n] = part->targets[n];
        valid[n] = !part->valid || part->valid[n];
    }
}

/* Adds what the model has computed in the last pass, of these sequences. */
static void put_stored(struct dump *d, struct model *m, const struct batch *part) {
    const size_t n = part->first * part->T, N = part->B * part->T;
    char site[TENSOR_NAME];
    put_batch(d, part);
    put(d, n, N, m->C, "stream.0", "", m->stream_in);
    for (size_t i = 0; i < 2 * m->L; i++) {
        const struct layer *layer = &m->layer[i / 2];
        const struct chain *chain = &layer->attention.chain;
        const struct op *op = &chain->op[chain->heads];
        snprintf(site, sizeof site, "stream.%zu", i + 1);
        put(d, n, N, m->C, site, "", i % 2 ? layer->mlp.y : layer->attention.y);
        if (i % 2) continue;
        snprintf(site, sizeof site, "transformer.h.%zu.attn", i / 2);
        put(d, n, N, layer->attention.E, site, ".qkv", op->in->place[FORWARD].first);
        put(d, n, N, m->C, site, ".output", op->out->place[FORWARD].first);
    }
    put(d, n, N, m->C, "head_in", "", m->head_in);
    real *logits = take(d, stored_real(), 0, m->V, n, "logits", "");
    for (size_t k = 0; k < N; k++)
        memcpy(logits + k * m->V, head_logits(m, k), m->V * sizeof *logits);
}

void dump_passes(struct dump *d, struct passes *p) {
    struct model *m = p->model;
    const size_t threads = m->threads;
    d->batch = p->batch;
    m->observe = observe;
    m->observer = d;
    m->threads = 1;
    while (measure_next(p)) {
        model_forward(m, &p->part, p->training, 0);
        put_stored(d, m, &p->part);
    }
    m->observe = NULL;
    m->threads = threads;
}
