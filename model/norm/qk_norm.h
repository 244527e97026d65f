/* QK-norm: the queries and keys of each head, normalized before their dot products:

     q^ = N_q(q),  k^ = N_k(k)      a row of HS = C / NH channels for each token and head

   with one gamma and beta (HS) for all heads, so that no logit can outgrow gamma^2 sqrt(HS) under
   ln or rms. A norm that pools over tokens pools over heads with them; in gn and pn a head is one
   group.

   Henry et al. 2020 (arXiv:2010.04245), by length; Dehghani et al. 2023
   (arXiv:2302.05442), by LayerNorm. */
#ifndef QK_NORM_H
#define QK_NORM_H

#include "model/norm/norm.h"

struct qk_norm {
    size_t C, heads;     // heads are 0 if there is no such norm
    struct norm norm[2]; // of q, of k
    real *raw[2];        // (B,T,C) q and k as the linear layer made them
};

/* Declares the norms at the site `name` ("transformer.h.0.attn") and takes their memory; nothing if
   `kind` is the identity. */
void qk_norm_attach(struct qk_norm *qk, const struct norm_kind *kind,
                    const struct norm_options *options, const char *name, size_t C, size_t heads,
                    const struct layout *layout);

/* Everything below is called by every thread of the team, and does nothing without heads. */

/* Keeps q and k of the tokens `rows`, the first of which is at qkv (rows,3C). */
void qk_norm_keep(const struct qk_norm *qk, struct range rows, const real *qkv);

/* What must be known of all tokens, once they are kept. */
void qk_norm_statistics(const struct qk_norm *qk, const struct tokens *tokens);

/* q^ and k^ of a block of rows, in the places of q and k in qkv (rows,3C). */
void qk_norm_forward(const struct qk_norm *qk, const struct tokens *tokens, struct range rows,
                     real *qkv, real *scratch); // (ROWS,C)

/* From all of dqkv (B,T,3C), the gradients of q^, k^ and v: those of q^ and k^, each in an array
   dnormed[i] (B,T,C) of its own, and what must be known of all of them. Between barriers. */
void qk_norm_gradient_statistics(const struct qk_norm *qk, const struct tokens *tokens,
                                 real *const dnormed[2], const real *dqkv);

/* In a block's dqkv (rows,3C) the gradients of q and k instead of those of q^ and k^. */
void qk_norm_backward(const struct qk_norm *qk, const struct tokens *tokens, struct range rows,
                      real *dqkv, real *const dnormed[2], real *scratch); // (ROWS,C)

/* Adds the blocks' sums to the parameters' gradients, of N tokens; after a barrier. */
void qk_norm_gradient(const struct qk_norm *qk, size_t N);

#endif
