/* The stages of a sub-layer. What each computes is in sublayer_stages.c and
   sublayer_stages_backward.c; which thread computes it when is in sublayer_pass.c.

   Only norms and attention look at other tokens, so a stage starts at a norm and ends before the
   next one. Backward runs through the stages in the opposite order. */
#ifndef SUBLAYER_STAGES_H
#define SUBLAYER_STAGES_H

#include "model/sublayer_call.h"

enum stage { STAGE_READ, STAGE_PRE, STAGE_INNER, STAGE_PROJ, STAGE_OUT, STAGE_POST, STAGES };

/* The dropout of the sub-layer's output in this pass; none in evaluation. */
struct dropout sublayer_dropout(const struct sublayer *s, const struct pass *pass);

/* What forward computes and backward computes again: s PRE(u), in y (M,C) or u itself where nothing
   changes it; and y (M,H) = act(expanded). */
const real *stage_normed(const struct sublayer_call *c, struct range rows, real *y);
void stage_act(const struct sublayer_call *c, struct range rows, real *y);

/* The attention of this pass. */
struct attention stage_attention(const struct sublayer_call *c);

/* One stage of at most `sweep` rows, whole row blocks in backward. */
void stage_forward(const struct sublayer_call *c, enum stage stage, struct range rows);
void stage_backward(const struct sublayer_call *c, enum stage stage, struct range rows);

/* Attention from row h.begin to h.end of (B,NH): head h of sequence b is row b NH + h. Forward it
   makes `inner` from q, k and v in `expanded`, backward `dexpanded` from `dproj_in`. */
void stage_attention_forward(const struct sublayer_call *c, struct range heads);
void stage_attention_backward(const struct sublayer_call *c, struct range heads);

/* Where norms of q, k or v pool over tokens: in `dexpanded`, the gradients of q and k become those of
   the norms' outputs, for the calling thread's own rows; then all threads compute what these norms
   must know of all gradients. */
void stage_qkv_statistics_backward(const struct sublayer_call *c, struct range own);

/* dW += the slab's part, for `proj` and for `in`. Every thread of the team calls them, after a
   barrier, when the operands of the slab's rows are complete. */
void stage_proj_gradient(const struct sublayer_call *c, struct range slab);
void stage_in_gradient(const struct sublayer_call *c, struct range slab);

#endif
