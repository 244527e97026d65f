/* Which thread computes the stages of a sub-layer when.

   Every thread of the team has rows of its own (team.h). It takes them through all stages sweep by
   sweep: a row block, or several where weights are wide. So a sweep's values are used again while
   they are in the cache. Threads wait for one another at the start of a stage only where a token
   needs results from rows of other threads:

     stage | threads wait if           | forward, for              | backward, for
     ------+---------------------------+---------------------------+-------------------------------
     READ  | READ's norm pools over    | statistics of what it     | their gradients
           | tokens                    | reads                     |
     PRE   | PRE pools over tokens     | statistics of u           | their gradients
     INNER | one of QKV pools over     | statistics of q, k, v     | their gradients
           | tokens                    |                           |
     PROJ  | a thread's rows are not   | q, k and v of all rows    | dproj_in of all rows
           | full sequences; or       |                           |
           | FFN pools over tokens     | statistics of inner       | their gradients
     OUT   | OUT pools over tokens     | statistics of projected   | their gradients
     POST  | POST pools over tokens    | statistics of sum         | their gradients

   The stages from one such wait to the next are a segment. If attention is inside a segment, a
   thread takes its rows sequence by sequence, and each sequence sweep by sweep.

   Backward takes each segment slab by slab. After a slab's stages its part is added to the
   gradients of the weight matrices, from values that are still in the cache. Where each thread has
   parts of its own (parts.h), a slab is one thread's, which adds it without waiting. Else all
   threads share the rows of a slab, and wait before they share the gradient's elements. */
#include "model/sublayer_stages.h"

static bool threads_wait(const struct sublayer_call *c, enum stage stage, bool whole_sequences) {
    const struct sublayer *s = c->s;
    if (stage == STAGE_INNER) return s->heads && qkv_norm_pools(&s->qkv_norm);
    if (stage == STAGE_PROJ && s->heads) return !whole_sequences;
    return norm_pools(c->norm[stage].norm);
}

/* Attention of the given heads of sequences, see attention.h. */
static void attend(const struct sublayer_call *c, struct range heads) {
    if (c->backward)
        attention_backward(&c->attention, heads, c->dexpanded.first, c->dproj_in.first,
                           c->w->threads);
    else
        attention_forward(&c->attention, heads, c->inner.first, c->w->threads);
}

/* The work that all threads share before the first stage of a segment: attention, and statistics of
   norms that pool over tokens, or their gradients. */
static void synchronize(const struct sublayer_call *c, enum stage stage) {
    const struct sublayer *s = c->s;
    const struct tokens *tokens = &c->pass->tokens;
    const struct stage_norm *n = &c->norm[stage];
    if (stage == STAGE_PROJ && s->heads) {
        team_barrier();
        attend(c, team_part(tokens->B * s->heads, s->heads / s->attention.KV));
        team_barrier();
    }
    if (stage == STAGE_INNER && s->heads && !c->backward) qkv_norm_statistics(&s->qkv_norm, tokens);
    if (stage == STAGE_INNER && s->heads && c->backward && qkv_norm_pools(&s->qkv_norm)) {
        team_barrier();
        qkv_norm_gradient_statistics(&s->qkv_norm, tokens, c->w->dqkv.first, c->dexpanded.first);
    }
    if (n->norm && c->backward)
        norm_gradient_statistics(n->norm, tokens, n->dy->first, n->x->first);
    else if (n->norm)
        norm_statistics(n->norm, tokens, n->x->first);
}

/* A segment goes from the stage `from` to the stage `to`, which in backward comes before it. */

static int next_stage(const struct sublayer_call *c, int stage) {
    return stage + (c->backward ? -1 : 1);
}

/* The thread's rows through these stages, sweep by sweep. */
static void sweeps(const struct sublayer_call *c, int from, int to, struct range own) {
    stage_function *const *function = c->backward ? stage_backward : stage_forward;
    const int end = next_stage(c, to);
    for (size_t n = own.begin, sweep = c->s->sweep; n < own.end; n += sweep)
        for (int stage = from; stage != end; stage = next_stage(c, stage))
            function[stage](c, team_rows(n, own, sweep));
}

/* The next of the thread's rows that are both full sequences and full blocks. */
static struct range next_sequences(const struct sublayer_call *c, size_t n, struct range own) {
    size_t T = c->pass->tokens.T, count = T;
    while (count % ROWS) count += T;
    return (struct range){n, size_min(n + count, own.end)};
}

static struct range heads_of(const struct sublayer_call *c, struct range rows) {
    size_t T = c->pass->tokens.T, heads = c->s->heads;
    return (struct range){rows.begin / T * heads, rows.end / T * heads};
}

/* Whether a segment has the stage. */
static bool has(int from, int to, int stage) {
    return from < to ? from <= stage && stage <= to : to <= stage && stage <= from;
}

/* The thread's part of `all` rows through a segment. Attention comes before PROJ. If the segment
   starts there, attention has already run; else the thread's rows are full sequences, and attention
   needs no other rows. */
static void segment(const struct sublayer_call *c, int from, int to, struct range all) {
    const struct sublayer *s = c->s;
    struct range own = c->parts.alone ? all : team_part_rows(all), rows;
    if (!s->heads || from == STAGE_PROJ || !has(from, to, STAGE_PROJ)) {
        sweeps(c, from, to, own);
        return;
    }
    for (size_t n = own.begin; n < own.end; n = rows.end) {
        rows = next_sequences(c, n, own);
        if (c->backward) // forward wrote it, long ago
            cache_fetch((rows.end - n) * s->E, s->expanded + n * s->E);
        sweeps(c, from, c->backward ? STAGE_OUT : STAGE_INNER, rows);
        attend(c, heads_of(c, rows));
        sweeps(c, STAGE_PROJ, to, rows);
    }
}

/* Adds the slab's part of dW for the matrices whose last operand this segment computed: proj_in and
   dprojected for proj, s PRE(u) and dexpanded for in. */
static void weight_gradients(const struct sublayer_call *c, int from, int to, struct range slab) {
    const struct sublayer *s = c->s;
    const bool proj = has(from, to, STAGE_PROJ), in = has(from, to, STAGE_INNER);
    if (!c->backward || (!proj && !in)) return;
    // This also keeps threads at most one slab apart: the ring holds two.
    if (!c->parts.alone) team_barrier();
    if (proj && s->heads && !c->w->proj.dy.data) // forward wrote it, long ago
        cache_fetch((slab.end - slab.begin) * s->H, s->inner + slab.begin * s->H);
    if (proj) stage_weight_gradient(c, &c->proj, slab);
    if (in) stage_weight_gradient(c, &c->in, slab);
}

static struct range slab_at(const struct sublayer_call *c, size_t n) {
    return team_rows(n, c->all, c->slab);
}

/* Sets which rows the thread takes slab by slab: in forward a share of all; in backward its own
   parts, or a share of each slab. */
static void take_rows(struct sublayer_call *c) {
    const struct parts *parts = &c->pass->tokens.parts;
    size_t threads = (size_t)omp_get_num_threads(), thread = (size_t)omp_get_thread_num();
    c->all = c->pass->rows;
    c->slab = c->all.end - c->all.begin;
    if (!c->backward) return;
    if (parts_separate(parts, threads)) {
        c->parts = parts_alone(*parts, thread, threads);
        c->all = team_part_rows(c->all);
        c->slab = linear_sum_rows(parts);
        c->ring = (struct range){thread * c->slab, (thread + 1) * c->slab};
    } else {
        c->parts = *parts;
        c->slab = slab_rows(threads) / linear_sum_rows(parts) * linear_sum_rows(parts);
        c->ring = (struct range){0, 2 * c->slab};
    }
}

/* Whether the rows of every slab that a thread has are whole sequences. */
static bool takes_sequences(const struct sublayer_call *c) {
    size_t T = c->pass->tokens.T;
    bool whole = true;
    if (c->parts.alone) return c->slab % T == 0;
    for (size_t n = c->all.begin; n < c->all.end; n += c->slab)
        whole &= team_parts_whole(slab_at(c, n), T);
    return whole;
}

/* All stages, segment by segment. */
static void run(struct sublayer_call *c) {
    const int first = c->backward ? STAGE_POST : STAGE_READ;
    const int last = c->backward ? STAGE_READ : STAGE_POST;
    take_rows(c);
    const bool whole_sequences = takes_sequences(c);
    for (int from = first, to;; from = next_stage(c, to)) {
        for (to = from; to != last && !threads_wait(c, next_stage(c, to), whole_sequences);)
            to = next_stage(c, to);
        synchronize(c, from);
        for (size_t n = c->all.begin; n < c->all.end; n += c->slab) {
            struct range slab = slab_at(c, n);
            segment(c, from, to, slab);
            weight_gradients(c, from, to, slab);
        }
        if (to == last) return;
    }
}

void sublayer_forward(struct sublayer *s, const struct pass *pass,
                      const struct sublayer_scratch *w) {
    struct sublayer_call c;
    struct connection *connection = &s->connection;
    if (pass->initial && connection->kind->set_initial) {
        team_barrier();
        if (omp_get_thread_num() == 0) connection->kind->set_initial(connection, &pass->tokens);
        team_barrier();
        connection_prepare(connection);
        team_barrier();
    }
    stage_call(&c, s, pass, w, NULL, NULL);
    if (pass->rows.end - pass->rows.begin > 1) { // else a product reads its weight once, in order
        linear_fetch_forward(&s->in);
        linear_fetch_forward(&s->proj);
    }
    run(&c);
}

void sublayer_backward(struct sublayer *s, const struct pass *pass, real *dx, const real *dy,
                       const struct sublayer_scratch *w) {
    struct sublayer_call c;
    stage_call(&c, s, pass, w, dx, dy);
    linear_fetch_backward(&s->proj);
    linear_fetch_backward(&s->in);
    run(&c);
}
