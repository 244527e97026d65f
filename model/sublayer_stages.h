/* The stages of a sub-layer, and where their values are stored. What each computes is in
   sublayer_stages.c and sublayer_stages_backward.c; which thread computes it when is in
   sublayer_pass.c.

   Only norms and attention look at other tokens, so a stage starts at a norm and ends before the
   next one. Backward runs through the stages in the opposite order. */
#ifndef SUBLAYER_STAGES_H
#define SUBLAYER_STAGES_H

#include "model/sublayer.h"

/* ---- one call, and where its values are stored ---- */

/* One call of sublayer_forward() or sublayer_backward(), as one thread sees it. */
struct sublayer_call {
    const struct sublayer *s;
    const struct pass *pass;
    const struct sublayer_scratch *w;
    struct dropout drop; // of the sub-layer's output, in this pass
    real *scratch;       // of the thread
    // backward only, (B,T,C) each
    real *dx;
    const real *dy, *dsum, *df, *dprojected;
    struct parts parts; // of the pass, or the thread's own
    struct range all;   // their rows
    size_t slab;        // rows of a slab
    struct range ring;  // of slabs, in the buffers that are one
};

static inline size_t count(struct range rows) {
    return rows.end - rows.begin;
}

/* Where a value is stored. If only the next stage reads it, one sweep in the thread's scratch is
   enough:

     (sweep,the wider of H and C), (sweep,C), and where there is FFN two more (sweep,H)

   A buffer has all tokens if a norm pools over them, if attention comes in between, or if backward
   reads it. Attention overwrites the thread's scratch. */

static inline real *inner_at(const struct sublayer_call *c, size_t n) { // (M,H)
    return c->s->inner ? c->s->inner + n * c->s->H : c->scratch;
}

static inline real *projected_at(const struct sublayer_call *c, size_t n) { // (M,C)
    return c->s->projected ? c->s->projected + n * c->s->C
                           : c->scratch + c->s->sweep * sublayer_widest(c->s);
}

/* The columns of the gate's z, or of its gradient, from token n on, in a matrix (B,T,E). */
static inline real *gate_z(const struct sublayer_call *c, real *expanded, size_t n) {
    return expanded + (n + 1) * c->s->E - c->s->gate.G;
}

static inline real *dproj_in_at(const struct sublayer_call *c, size_t n) { // (M,H)
    return c->w->dproj_in ? c->w->dproj_in + n * c->s->H : c->scratch;
}

static inline real *dnormed_at(const struct sublayer_call *c, size_t n) { // (M,C)
    bool kept = sublayer_keeps_dnormed(c->s);
    return kept ? c->w->dnormed + n * c->s->C : c->scratch + c->s->sweep * sublayer_widest(c->s);
}

static inline real *du_at(const struct sublayer_call *c, size_t n) { // (M,C)
    if (!norm_present(&c->s->pre)) return dnormed_at(c, n);          // of the identity
    return c->w->du ? c->w->du + n * c->s->C : c->scratch;
}

static inline real *ffn_scratch(const struct sublayer_call *c,
                                size_t i) { // (sweep,H) of FFN, i is 0 or 1
    return c->scratch + c->s->sweep * (sublayer_widest(c->s) + c->s->C + i * c->s->H);
}

/* Recomputed values are kept in a ring of slabs. The gradient of attention's q, k and v is there
   for all tokens. */
static inline size_t ring_row(const struct sublayer_call *c, size_t n) {
    return c->ring.begin + (n - c->all.begin) % count(c->ring);
}

static inline size_t expanded_row(const struct sublayer_call *c, size_t n) {
    return c->s->heads ? n : ring_row(c, n);
}

/* Element `offset` of a buffer; NULL if the sub-layer does not use this buffer. */
static inline real *offset_or_null(real *buffer, size_t offset) {
    return buffer ? buffer + offset : NULL;
}

/* What the gradients of the weights read, from token n on: proj_in and dprojected of proj, s PRE(u)
   and dexpanded of in. They read it in place, or from the copies that linear_keep() made. */

static inline real *proj_in_at(const struct sublayer_call *c, size_t n) {
    return c->s->heads ? c->s->inner + n * c->s->H : c->w->proj_in + ring_row(c, n) * c->s->H;
}

static inline const real *normed_at(const struct sublayer_call *c, size_t n) {
    return sublayer_has_normed(c->s) ? c->w->normed + ring_row(c, n) * c->s->C
                                     : connection_u(&c->s->connection) + n * c->s->C;
}

static inline real *dexpanded_at(const struct sublayer_call *c, size_t n) {
    return c->w->dexpanded + expanded_row(c, n) * c->s->E;
}

/* ---- the stages ---- */

enum stage { STAGE_READ, STAGE_PRE, STAGE_INNER, STAGE_PROJ, STAGE_OUT, STAGE_POST, STAGES };

/* The dropout of the sub-layer's output in this pass; none in evaluation. */
struct dropout sublayer_dropout(const struct sublayer *s, const struct pass *pass);

/* Values that forward computes and backward recomputes. stage_normed() returns s PRE(u), in y
   (M,C), or u itself if they are equal; stage_act() computes y (M,H) = act(expanded). */
const real *stage_normed(const struct sublayer_call *c, struct range rows, real *y);
void stage_act(const struct sublayer_call *c, struct range rows, real *y);

/* The attention of this pass. */
struct attention stage_attention(const struct sublayer_call *c);

/* A stage computes at most `sweep` rows; in backward, full row blocks. */
typedef void stage_function(const struct sublayer_call *c, struct range rows);
extern stage_function *const stage_forward[STAGES], *const stage_backward[STAGES];

/* Attention from row h.begin to h.end of (B,NH): head h of sequence b is row b NH + h. Forward it
   makes `inner` from q, k and v in `expanded`, backward `dexpanded` from `dproj_in`. */
void stage_attention_forward(const struct sublayer_call *c, struct range heads);
void stage_attention_backward(const struct sublayer_call *c, struct range heads);

/* For norms of q, k or v that pool over tokens. In `dexpanded`, the gradients of q and k become
   those of the norms' outputs, for the calling thread's own rows. Then all threads compute the sums
   over all tokens that these norms need in backward. */
void stage_qkv_statistics_backward(const struct sublayer_call *c, struct range own);

/* Add a slab's contribution to dW, for `proj` and for `in`. Every thread of the team calls them,
   after a barrier, when the operands of the slab's rows are complete. */
void stage_proj_gradient(const struct sublayer_call *c, struct range slab);
void stage_in_gradient(const struct sublayer_call *c, struct range slab);

#endif
