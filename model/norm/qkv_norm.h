/* Norms of queries, keys and values, before attention:

     q^ = N_q(q),  k^ = N_k(k),  v^ = N_v(v)        any of them may be the identity

   Their extent is a head or the full width. Head by head a token has NH rows of HS = C / NH
   channels, with one gamma and beta (HS) for all heads; under ln or rms with gamma = 1 and beta = 0
   no score then exceeds sqrt(HS). Grouped queries have fewer keys and values: KV heads
   (attention.h). A norm that pools over tokens pools over the heads too. In gn, ts and pn a head is
   one group; over the full width a group of gn and ts has as many channels in k and v as in q. Over
   the full width a token is one row of C channels, as for norms elsewhere.

   With a learned scale, the attention scores of head h are t_h u k^ instead of u k^ / sqrt(HS),
   with u = N_q(q) and t_h one learned number for each head. Attention divides by sqrt(HS), so here

     q^ = t_h sqrt(HS) u

   Backward, with dq^ the gradient of q^:
     du = t_h sqrt(HS) dq^,  dt_h += sqrt(HS) sum over tokens of sum over the head of dq^ u

   Henry et al. 2020 (arXiv:2010.04245), q and k of length 1 in each head, with a learned scale, one
   for all heads; Dehghani et al. 2023 (arXiv:2302.05442), by LayerNorm; OLMo 2 (arXiv:2501.00656),
   by RMSNorm over the full width; HybridNorm (Zhuo et al. 2025, arXiv:2503.04598), q, k and v. */
#pragma once

#include "model/norm/norm.h"

enum qkv { QKV_Q, QKV_K, QKV_V, QKV_COUNT };

/* Where q, k or v is in a token's row of E columns, and how it is normalized. */
struct qkv_columns {
    size_t first, width, heads;
    size_t rows;       // that the norm has of a token: its heads, or 1
    const real *scale; // (heads) the learned factors t; NULL: none
};

struct qkv_norm {
    size_t HS;       // channels of a head
    size_t E;        // C + 2 KV HS, and the columns of the gates
    bool over_width; // else head by head
    struct qkv_columns columns[QKV_COUNT];
    struct norm norm[QKV_COUNT]; // of rows of width / rows channels; an identity has no name
    real *raw[QKV_COUNT];        // (B,T,width) q, k and v before; NULL: it does not change
    struct param scale;          // (NH) t
};

/* Declares norms of these kinds, for these numbers of heads, at the site `name`
   ("transformer.h.0.attn") of attention, and a learned scale that starts at `scale`, none if that
   is 0; takes their memory, none for what does not change. The caller has set the members before
   `columns`. */
void qkv_norm_attach(struct qkv_norm *qkv, const struct norm_kind *const kind[QKV_COUNT],
                     const size_t heads[QKV_COUNT], double scale, const struct norm_options *norms,
                     const char *name, const struct layout *layout);

/* Whether q, k or v changes. Whether one of their norms pools over tokens. */
bool qkv_norm_present(const struct qkv_norm *qkv);
bool qkv_norm_pools(const struct qkv_norm *qkv);

/* The tokens with the rows of a norm, heads, in the place of theirs. */
struct tokens qkv_norm_tokens(const struct qkv_norm *qkv, enum qkv which,
                              const struct tokens *tokens);

/* Every thread of the team calls the functions below. They do nothing for q, k or v without a
   norm. */

/* Copies q, k and v of the tokens `rows` to raw[]. block (rows,E) points to the first of these
   tokens. */
void qkv_norm_keep(const struct qkv_norm *qkv, struct range rows, const real *block);

/* Computes the statistics of norms that pool over tokens. qkv_norm_keep() of all tokens comes
   before. */
void qkv_norm_statistics(const struct qkv_norm *qkv, const struct tokens *tokens);

/* Replaces q, k and v of some rows, `block` (rows,E), by q^, k^ and v^. */
void qkv_norm_forward(const struct qkv_norm *qkv, const struct tokens *tokens, struct range rows,
                      real *block, real *scratch); // (rows,C)

/* In y (rows,width): the gradient of u, from that of q^, k^ or v^ in a block (rows,E). */
void qkv_norm_gather(const struct qkv_norm *qkv, enum qkv which, struct range rows, real *y,
                     const real *block);

/* For norms that pool over tokens: copies the gradients of q^, k^ and v^ from dqkv (B,T,E) to
   `dnormed`, (B,T,width) of each one after another, and computes their sums over tokens. Called
   between barriers. */
void qkv_norm_gradient_statistics(const struct qkv_norm *qkv, const struct tokens *tokens,
                                  real *dnormed, const real *dqkv);

/* Replaces the gradients of q^, k^ and v^ in a block (rows,E) by those of q, k and v. */
void qkv_norm_backward(const struct qkv_norm *qkv, const struct tokens *tokens, struct range rows,
                       real *block, real *dnormed,
                       real *scratch); // (2,rows,C)
