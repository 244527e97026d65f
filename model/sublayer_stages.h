/* The stages of a sub-layer. What each computes is in sublayer_stages.c; which thread computes it
   when is in sublayer_pass.c.

   Only norms and attention look at other tokens, so a stage starts at a norm and ends before the
   next one. Backward runs through the stages in the opposite order. */
#ifndef SUBLAYER_STAGES_H
#define SUBLAYER_STAGES_H

#include "model/sublayer.h"

enum stage { STAGE_READ, STAGE_PRE, STAGE_INNER, STAGE_PROJ, STAGE_OUT, STAGE_POST, STAGES };

/* The norm at the start of a stage: its input and output, and their gradients. */
struct stage_norm {
    const struct norm *norm;
    const struct place *x, *y, *dy, *dx;
};

/* A product with a weight, and in backward the operands of the weight's gradient: dy and x. */
struct stage_product {
    const struct linear *linear;
    const struct linear_operands *kept; // their copies
    const struct place *dy, *x;
};

/* One call of sublayer_forward() or sublayer_backward(), as one thread sees it. */
struct sublayer_call {
    const struct sublayer *s;
    const struct pass *pass;
    const struct sublayer_scratch *w;
    struct dropout drop; // of the sub-layer's output, in this pass
    struct attention attention;
    real *scratch, *spare; // of the thread
    // Values and, in backward, their gradients. Rows have E numbers (expanded), H (inner, which FFN
    // reads, and proj_in, which proj reads), or C.
    struct place norm_in, u, normed, expanded, inner, proj_in, projected, f, sum, y;
    struct place dx, dy, dsum, df, dprojected, dproj_in, dinner, dexpanded, dnormed, du;
    struct stage_norm norm[STAGES]; // INNER has several instead: see qkv_norm.h
    struct stage_product in, proj;
    bool backward;
    // set by sublayer_pass.c
    struct range all;   // the rows of the pass, or in backward of `parts`
    size_t slab;        // rows of a slab
    struct parts parts; // in backward: of the pass, or the thread's own
    struct range ring;  // in backward: of slabs, in the buffers that are one
};

/* Makes a call, with gradients dx and dy (B,T,C) in backward, else NULL. */
void stage_call(struct sublayer_call *c, const struct sublayer *s, const struct pass *pass,
                const struct sublayer_scratch *w, real *dx, const real *dy);

/* A stage computes at most `sweep` rows; in backward, full row blocks. */
typedef void stage_function(const struct sublayer_call *c, struct range rows);
extern stage_function *const stage_forward[STAGES], *const stage_backward[STAGES];

/* Adds a slab's contribution to dW. Every thread of the team calls it, after a barrier, when the
   operands of the slab's rows are complete. */
void stage_weight_gradient(const struct sublayer_call *c, const struct stage_product *product,
                           struct range slab);

#endif
