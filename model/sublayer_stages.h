/* The stages of a sub-layer. What each computes is in sublayer_stages.c; which thread computes it
   when is in sublayer_pass.c.

   Only norms and attention look at other tokens, so a stage starts at a norm and ends before the
   next one. Backward runs through the stages in the opposite order. */
#ifndef SUBLAYER_STAGES_H
#define SUBLAYER_STAGES_H

#include "model/sublayer.h"

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

/* Where the gradients of s PRE(u) and of u are, from token n on. */
static inline real *dnormed_at(const struct sublayer_call *c, size_t n) { // (M,C)
    bool kept = sublayer_keeps_dnormed(c->s);
    return kept ? c->w->dnormed + n * c->s->C : c->scratch + c->s->sweep * sublayer_widest(c->s);
}

static inline real *du_at(const struct sublayer_call *c, size_t n) { // (M,C)
    if (!norm_present(&c->s->pre)) return dnormed_at(c, n);          // of the identity
    return c->w->du ? c->w->du + n * c->s->C : c->scratch;
}

enum stage { STAGE_READ, STAGE_PRE, STAGE_INNER, STAGE_PROJ, STAGE_OUT, STAGE_POST, STAGES };

/* The dropout of one of the sub-layer's two places in this pass, with `per_token` elements of each
   token; none in evaluation. */
struct dropout stage_dropout(const struct sublayer *s, const struct pass *pass, const char *place,
                             size_t per_token);

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
