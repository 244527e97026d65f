/* QK-norm: the queries and keys of each head are normalized before their dot products:

     q^ = N_q(q),  k^ = N_k(k)      a row of HS = C / NH channels for each token and head

   with one gamma and beta (HS) for all heads. Under ln or rms no logit can exceed
   gamma^2 sqrt(HS). A norm that pools over tokens pools over the heads too. In gn and pn a head is
   one group.

   Henry et al. 2020 (arXiv:2010.04245), by length; Dehghani et al. 2023
   (arXiv:2302.05442), by LayerNorm. */
#ifndef QK_NORM_H
#define QK_NORM_H

#include "model/norm/norm.h"

struct qk_norm {
    size_t C, heads;     // heads is 0 if there is no QK-norm
    struct norm norm[2]; // of q, of k
    real *raw[2];        // (B,T,C) q and k before their norms
};

/* Declares the norms at the site `name` ("transformer.h.0.attn") and takes their memory; nothing if
   `kind` is the identity. */
void qk_norm_attach(struct qk_norm *qk, const struct norm_kind *kind,
                    const struct norm_options *options, const char *name, size_t C, size_t heads,
                    const struct layout *layout);

/* Every thread of the team calls the functions below. They do nothing if there is no QK-norm. */

/* Copies q and k of the tokens `rows` to raw[]. qkv (rows,3C) points to the first of these
   tokens. */
void qk_norm_keep(const struct qk_norm *qk, struct range rows, const real *qkv);

/* Computes what must be known of all tokens, after qk_norm_keep() of all of them. */
void qk_norm_statistics(const struct qk_norm *qk, const struct tokens *tokens);

/* Replaces q and k of a block of rows in qkv (rows,3C) by q^ and k^. */
void qk_norm_forward(const struct qk_norm *qk, const struct tokens *tokens, struct range rows,
                     real *qkv, real *scratch); // (ROWS,C)

/* From all of dqkv (B,T,3C), the gradients of q^, k^ and v: copies those of q^ and k^ to dnormed[i]
   (B,T,C) and computes what must be known of all of them. Called between barriers. */
void qk_norm_gradient_statistics(const struct qk_norm *qk, const struct tokens *tokens,
                                 real *const dnormed[2], const real *dqkv);

/* Replaces the gradients of q^ and k^ in a block's dqkv (rows,3C) by those of q and k. */
void qk_norm_backward(const struct qk_norm *qk, const struct tokens *tokens, struct range rows,
                      real *dqkv, real *const dnormed[2], real *scratch); // (ROWS,C)

/* Adds the blocks' sums of N tokens to the parameters' gradients. Called after a barrier. */
void qk_norm_gradient(const struct qk_norm *qk, size_t N);

#endif
