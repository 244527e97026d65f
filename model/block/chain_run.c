/* Which thread computes the operations of a sub-layer when.

   Every thread of the team has rows of its own (team.h). It takes them through the list sweep by
   sweep: a row block, or several where weights are wide. So a sweep's values are used again while
   they are in the cache. Threads wait for one another only before an operation for which a token
   needs results from rows of other threads:

     a norm that pools over tokens   statistics of its input, or in backward their gradients
     attention, unless a thread's    forward: q, k and v of all rows; backward: the gradient of
     rows are full sequences         attention's output of all rows

   The operations from one such wait to the next are a segment. If attention is inside a segment, a
   thread takes its rows sequence by sequence, and each sequence sweep by sweep.

   Backward takes each segment slab by slab. In the segment of the product that is first in
   forward, a slab is then added to the gradients of all weights, from values that are still in the
   cache. Where each thread has parts of its own (parts.h), a slab is one thread's, which adds it
   without waiting. Else all threads share the rows of a slab, and wait before they share the
   gradient's elements. */
#include "model/block/chain.h"

/* A call of chain_compute(), as one thread sees it. */
struct call {
    const struct chain *chain;
    const struct pass *pass;
    const struct chain_memory *memory;
    bool backward;
    real *first[KEPT_KINDS]; // the thread's memory of each kind
    size_t row[KEPT_KINDS];  // where the current token is in it
    bool whole_sequences;    // the rows of every slab that a thread has are full sequences
    struct range span;       // the rows of the pass, or in backward of `parts`
    size_t slab;             // rows of a slab
    struct parts parts;      // in backward: of the pass, or the thread's own
    struct range ring;       // in backward: of slabs, in the places that are one
};

static size_t count(struct range rows) {
    return rows.end - rows.begin;
}

/* Makes n the current token. */
static void go(struct call *c, size_t n) {
    c->row[ALL] = c->row[DX] = c->row[DY] = n;
    if (c->backward && n >= c->span.begin)
        c->row[SLABS] = c->ring.begin + (n - c->span.begin) % count(c->ring);
}

/* The rows of a place from the current token on; NULL if it is not stored. */
static inline real *locate(const struct call *c, const struct place *p) {
    if (p->kept == NOT_KEPT) return NULL;
    real *first = p->first ? p->first : c->first[p->kept] + p->offset;
    return first + c->row[p->kept] * p->width;
}

static struct step step_of(const struct call *c, const struct op *op, struct range rows) {
    const int direction = c->backward ? BACKWARD : FORWARD;
    struct step step = {.backward = c->backward, .pass = c->pass, .rows = rows};
    step.x = locate(c, &op->in->place[direction]);
    step.y = locate(c, &op->out->place[direction]);
    step.scratch = locate(c, &op->scratch_at);
    if (op->beside) step.beside = locate(c, &op->beside->place[direction]);
    if (!c->backward) return step;
    step.dx = locate(c, &op->in->gradient);
    step.dy = locate(c, &op->out->gradient);
    if (op->beside) step.dbeside = locate(c, &op->beside->gradient);
    if (op->held) step.held = c->first[ALL] + op->held_at.offset;
    return step;
}

static inline void observe(const struct pass *pass, const struct op *op, const struct step *step) {
    if (pass->observe) pass->observe(pass->observer, op, step);
}

static void apply(const struct call *c, const struct op *op, struct range rows) {
    struct step step;
    for (unsigned left = c->backward ? op->again : 0; left; left &= left - 1) {
        const struct op *again = &c->chain->op[__builtin_ctz(left)]; // the lowest bit
        step = step_of(c, again, rows);
        step.backward = false;
        if (again->kind->run) again->kind->run(again->self, &step);
    }
    step = step_of(c, op, rows);
    if (c->backward) observe(c->pass, op, &step);
    if (op->kind->run) op->kind->run(op->self, &step);
    if (!c->backward) observe(c->pass, op, &step);
}

/* ---- gradients of weights ---- */

/* Copies the operands of the weight gradients, unless these read them in place. */
static void keep_operands(const struct call *c, struct range rows) {
    for (size_t i = 0; i < c->chain->products; i++) {
        const struct op *op = &c->chain->op[c->chain->product[i]];
        linear_keep(op->self, &c->memory->operands[i], c->row[SLABS], count(rows),
                    locate(c, &op->out->gradient), locate(c, &op->in->place[BACKWARD]));
    }
}

/* Adds the slab's part of the gradients. */
static void add_gradients(struct call *c, struct range slab) {
    // This also keeps threads at most one slab apart: the ring holds two.
    if (!c->parts.alone) team_barrier();
    go(c, slab.begin);
    for (size_t i = c->chain->products; i-- > 0;) {
        const struct op *op = &c->chain->op[c->chain->product[i]];
        const struct linear *linear = op->self;
        const struct linear_operands *kept = &c->memory->operands[i];
        struct matrix dy = matrix_from(kept->dy, c->row[SLABS]);
        struct matrix x = matrix_from(kept->x, c->row[SLABS]);
        if (!kept->dy.data) {
            dy = matrix_of(locate(c, &op->out->gradient), linear->out);
            x = matrix_of(locate(c, &op->in->place[BACKWARD]), linear->in);
            if (op->in->place[BACKWARD].kept == ALL) // forward wrote it, long ago
                cache_fetch(count(slab) * linear->in, x.data);
        }
        linear_weight_gradient(linear, &c->parts, slab, dy, x);
    }
}

/* ---- segments ---- */

/* A segment goes from the operation `from` to the operation `to`, which in backward comes before
   it. */

static size_t next(const struct call *c, size_t i) {
    return c->backward ? i - 1 : i + 1;
}

static bool has(size_t from, size_t to, size_t i) {
    return (from <= i && i <= to) || (to <= i && i <= from);
}

static bool threads_wait(const struct call *c, size_t i) {
    return i == c->chain->heads ? !c->whole_sequences : c->chain->op[i].waits;
}

/* The work that all threads share before a segment: attention, or statistics. */
static void synchronize(struct call *c, size_t from) {
    const struct op *op = &c->chain->op[from];
    go(c, 0);
    if (from == c->chain->heads) {
        team_barrier();
        apply(c, op, team_part(c->pass->tokens.B * op->heads, op->group));
        team_barrier();
    } else if (op->waits) {
        const struct step step = step_of(c, op, c->pass->rows);
        op->kind->pool(op->self, &step);
    }
}

/* The thread's rows through the operations from `from` to before `end`, sweep by sweep. */
static void sweeps(struct call *c, size_t from, size_t end, struct range share) {
    const size_t sweep = c->chain->sweep, first_product = c->chain->product[0];
    for (size_t n = share.begin; n < share.end; n += sweep) {
        const struct range rows = team_rows(n, share, sweep);
        go(c, n);
        for (size_t i = from; i != end; i = next(c, i)) {
            apply(c, &c->chain->op[i], rows);
            if (c->backward && i == first_product) keep_operands(c, rows);
        }
    }
}

/* The next of the thread's rows that are both full sequences and full blocks. */
static struct range next_sequences(const struct call *c, size_t n, struct range share) {
    size_t T = c->pass->tokens.T, size = T;
    while (size % ROWS) size += T;
    return (struct range){n, size_min(n + size, share.end)};
}

/* The thread's part of the rows `span` through a segment. If this starts with attention, that has
   already run; else the thread's rows are full sequences, and attention needs no other rows. */
static void segment(struct call *c, size_t from, size_t to, struct range span) {
    const size_t heads = c->chain->heads, T = c->pass->tokens.T;
    const struct op *op = &c->chain->op[heads];
    struct range share = c->parts.alone ? span : team_part_rows(span), rows;
    if (from == heads || !has(from, to, heads)) {
        sweeps(c, from == heads ? next(c, from) : from, next(c, to), share);
        return;
    }
    for (size_t n = share.begin; n < share.end; n = rows.end) {
        rows = next_sequences(c, n, share);
        go(c, n);
        if (c->backward) // forward wrote it, long ago
            cache_fetch(count(rows) * op->in->gradient.width, locate(c, &op->in->place[BACKWARD]));
        sweeps(c, from, heads, rows);
        go(c, 0);
        apply(c, op, (struct range){rows.begin / T * op->heads, rows.end / T * op->heads});
        sweeps(c, next(c, heads), next(c, to), rows);
    }
}

static struct range slab_at(const struct call *c, size_t n) {
    return team_rows(n, c->span, c->slab);
}

/* Sets which rows the thread takes slab by slab: in forward a share of all; in backward its own
   parts, or a share of each slab. */
static void take_rows(struct call *c) {
    const struct parts *parts = &c->pass->tokens.parts;
    size_t threads = (size_t)omp_get_num_threads(), thread = (size_t)omp_get_thread_num();
    c->span = c->pass->rows;
    c->slab = c->span.end - c->span.begin;
    if (!c->backward) return;
    if (parts_separate(parts, threads)) {
        c->parts = parts_alone(*parts, thread, threads);
        c->span = team_part_rows(c->span);
        c->slab = linear_sum_rows(parts);
        c->ring = (struct range){thread * c->slab, (thread + 1) * c->slab};
    } else {
        c->parts = *parts;
        c->slab = slab_rows(threads) / linear_sum_rows(parts) * linear_sum_rows(parts);
        c->ring = (struct range){0, 2 * c->slab};
    }
}

/* Whether the rows of every slab that a thread has are whole sequences. */
static bool takes_sequences(const struct call *c) {
    size_t T = c->pass->tokens.T;
    bool full = true;
    if (c->parts.alone) return c->slab % T == 0;
    for (size_t n = c->span.begin; n < c->span.end; n += c->slab)
        full &= team_parts_aligned(slab_at(c, n), T);
    return full;
}

/* Fetches the weights into the cache, in the order in which they are used. */
static void fetch_weights(const struct call *c) {
    const size_t products = c->chain->products;
    if (!c->backward && count(c->span) == 1) return; // one row reads a weight once, in order
    for (size_t i = 0; i < products; i++)
        if (c->backward)
            linear_fetch_backward(c->chain->op[c->chain->product[products - 1 - i]].self);
        else
            linear_fetch_forward(c->chain->op[c->chain->product[i]].self);
}

/* All operations, segment by segment. */
void chain_compute(const struct chain *chain, const struct pass *pass,
                   const struct chain_memory *memory, real *dx, const real *dy) {
    struct call c = {chain, pass, memory, .backward = dy};
    const size_t begin = c.backward ? chain->ops - 1 : 0, last = c.backward ? 0 : chain->ops - 1;
    c.first[SWEEP] = memory->first[SWEEP] + (size_t)omp_get_thread_num() * memory->size[SWEEP];
    c.first[SLABS] = memory->first[SLABS];
    c.first[ALL] = memory->first[ALL];
    c.first[DX] = dx;
    c.first[DY] = (real *)dy;
    take_rows(&c);
    fetch_weights(&c);
    c.whole_sequences = takes_sequences(&c);
    for (size_t from = begin, to;; from = next(&c, to)) {
        for (to = from; to != last && !threads_wait(&c, next(&c, to));) to = next(&c, to);
        synchronize(&c, from);
        for (size_t n = c.span.begin; n < c.span.end; n += c.slab) {
            segment(&c, from, to, slab_at(&c, n));
            if (c.backward && has(from, to, chain->product[0])) add_gradients(&c, slab_at(&c, n));
        }
        if (to == last) return;
    }
}
