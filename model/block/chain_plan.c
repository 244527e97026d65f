/* Where the values of a sub-layer and their gradients are stored: derived from what its operations
   declare.

   A border is an operation before which threads may wait: it needs rows of other threads. Attention
   always is one, since it also overwrites the threads' scratch.

     value in forward    ALL    if it is the list's output, attention reads or writes it, a border
                                lies between its writer and its last reader, or backward reads it
                                and its writer is not OP_AGAIN, which may be computed again
                         SWEEP  else
     value in backward   ALL    if it is ALL in forward
                         SLABS  if a weight gradient reads it: it is computed again, into the ring
                         SWEEP  if it is computed again for another operation's backward only, or
                                if backward writes it itself (OP_MAKES_OUT)
     gradient            ALL    if attention reads or writes it, or a border lies between its first
                                writer and its last reader
                         SLABS  if a weight gradient reads it
                         SWEEP  else

   "Attention" stands for every operation that is OP_HEADS. The list's input and output, and what an
   operation finds by itself (`stored`), are ALL in any case.

   Backward computes a value again where it first reads it, and a SWEEP value once more behind a
   border, because another operation has used the threads' scratch meanwhile. A value that only a
   weight gradient reads has to be in its ring when the backward of the list's first product has run.
   If no border lies between its writer and that product, it is computed just before the writer's
   backward, since what the writer reads is in scratch then; else just before the product's. */
#include "model/block/chain.h"

/* The operations that have a value or its gradient, and what is done with it. */
struct use {
    size_t first, last;
    bool read, factor, heads; // by an operation's backward, a weight gradient, an OP_HEADS
};

static bool is(const struct op *op, enum op_flags flag) {
    return op->kind->flags & flag;
}

/* The value whose gradient is also that of v. */
static const struct value *same(const struct value *v) {
    return v->same ? v->same : v;
}

static struct use use_of(const struct chain *chain, const struct value *v, bool gradient) {
    struct use use = {.first = chain->ops};
    for (size_t i = 0; i < chain->ops; i++) {
        const struct op *op = &chain->op[i];
        const bool in = (gradient ? same(op->in) : op->in) == v, beside = op->beside == v;
        const bool out = (gradient ? same(op->out) : op->out) == v;
        const bool factor = is(op, OP_PRODUCT) && (gradient ? out : in);
        if (!in && !out && !beside) continue;
        use.first = size_min(use.first, gradient && factor ? chain->product[0] : i);
        use.last = i;
        use.read |= (in && is(op, OP_READS_IN)) || ((out || beside) && is(op, OP_READS_OUT));
        use.factor |= factor;
        use.heads |= is(op, OP_HEADS);
    }
    return use;
}

/* Whether one of the operations first .. end - 1 is a border. */
static bool crosses(const struct chain *chain, size_t first, size_t end) {
    bool found = false;
    for (size_t i = first; i < end; i++) found |= chain->op[i].waits || is(&chain->op[i], OP_HEADS);
    return found;
}

static enum kept keep(const struct chain *chain, const struct value *v) {
    const struct use use = use_of(chain, v, false);
    const bool again = is(&chain->op[v->writer], OP_AGAIN),
               stored = (use.read || use.factor) && !again;
    const bool output = v == &chain->value[chain->values - 1];
    const bool outlives =
        v->stored || output || use.heads || crosses(chain, v->writer + 1, use.last + 1);
    return outlives || stored ? ALL : SWEEP;
}

static enum kept keep_gradient(const struct chain *chain, const struct value *v) {
    const struct use use = use_of(chain, v, true);
    if (v == chain->value) return DX;
    if (v == &chain->value[chain->values - 1]) return DY;
    if (use.heads || crosses(chain, use.first, use.last)) return ALL;
    return use.factor ? SLABS : SWEEP;
}

/* ---- what backward computes again ---- */

static void exists(const struct chain *chain, struct value *v) {
    if (v->place[BACKWARD].kept == NOT_KEPT)
        v->place[BACKWARD].kept = use_of(chain, v, false).factor ? SLABS : SWEEP;
}

/* Whether the operation's backward finds the value. One in scratch is lost at a border. */
static bool is_there(const struct chain *chain, const struct op *op, const struct value *v) {
    const enum kept kept = v->place[BACKWARD].kept;
    if (kept != SWEEP) return kept != NOT_KEPT;
    return !crosses(chain, (size_t)(op - chain->op), v->made) && !is(&chain->op[v->made], OP_HEADS);
}

/* The operation's backward first computes the value again, unless it is there; and before it what
   its writer reads. */
static void make_again(const struct chain *chain, struct op *before, struct value *v) {
    for (; !is_there(chain, before, v); v = chain->op[v->writer].in) {
        for (size_t i = v->writer; i <= v->complete; i++) before->again |= 1u << i;
        exists(chain, v);
        v->made = (size_t)(before - chain->op);
    }
}

static void plan_backward(struct chain *chain) {
    const size_t first = chain->product[0];
    for (size_t i = chain->ops; i-- > 0;) {
        struct op *op = &chain->op[i];
        const bool factor = op->out->writer == i && use_of(chain, op->out, false).factor;
        const bool here = !factor || (i > first && !crosses(chain, first, i));
        if (is(op, OP_READS_IN)) make_again(chain, op, op->in);
        if (is(op, OP_MAKES_OUT) && here) exists(chain, op->out), op->out->made = i;
        if (is(op, OP_READS_OUT) || (factor && here)) make_again(chain, op, op->out);
        for (size_t p = 0; i == first && p < chain->products; p++)
            make_again(chain, op, chain->op[chain->product[p]].in);
    }
}

void chain_plan(struct chain *chain) {
    for (size_t i = 0; i < chain->values; i++) {
        struct value *v = &chain->value[i];
        v->place[FORWARD].kept = keep(chain, v);
        v->place[BACKWARD].kept = v->place[FORWARD].kept == ALL ? ALL : NOT_KEPT;
        v->gradient.kept = keep_gradient(chain, v);
    }
    plan_backward(chain);
}
