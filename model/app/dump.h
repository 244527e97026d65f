/* --dump: what a model computes for a batch, as arrays of a safetensors file. For B sequences of T
   tokens, C channels, V characters, NH heads of HS channels and layers l = 0, 1, ... they are

     ids, targets, valid               (B,T) integers; a target is -1 where there is none, valid is
                                       0 at a pad, for which all other arrays have numbers too
     logits                            (B,T,V) as the loss reads them, so after a gain
     stream.0, stream.1, ...           (B,T,C) the residual stream x: before the first sub-layer and
                                       after each; that after the last one has the number 2L
     head_in                           (B,T,C) what the head reads
     transformer.h.l.attn.qkv          (B,T,E)  q, k and v as attention reads them: after their
                                       norms, the learned scale and the gain; then z of the gates
     transformer.h.l.attn.output       (B,T,C) attention's output after its gate, before --attn-norm
     NORM.input, NORM.output           x and y of each norm, by its name in the model's file

   and, after the last pass, gradients:

     grad.NAME                         of the parameter NAME, in its shape

   NORM is one of these, where the placement or an option has the norm:

     transformer.ln_e, ln_f            (B,T,C) after the embedding, before the head
     transformer.ln_f_second           (B,T,C) of the second stream r before the head. Where no
                                       sub-layer reads r, its norm is ln_f, and x has none there
     transformer.h.l.ln_1, ln_2        (B,T,C) of attention and the MLP: the first of PRE, OUT and
                                       POST; the others have _out and _post
     transformer.h.l.ln_1_second, ...  (B,T,C) of r, where sub-layers read it
     transformer.h.l.attn.q_norm,      (B,T,NH,HS) by head, or (B,T,C) over the full width; the
       k_norm, v_norm                  output is u of qkv_norm.h, before scale and gain
     transformer.h.l.attn.norm         (B,T,C)  of attention's output
     transformer.h.l.mlp.norm          (B,T,H)  of act(expanded)

   With --norm=none those of (B,T,C) that the placement has are identities at the same places, and
   those inside attention and the MLP are absent. Where r is read, SECOND's input is r. */
#pragma once

#include "data/files/safetensors.h"
#include "model/instruments/measure.h"

/* Starts as {0}. */
struct dump {
    struct safetensors file; // to be written; the arrays of passes come first
    size_t taken;            // arrays of passes, whose data are their own
    const struct batch *batch;
};

void dump_free(struct dump *dump);

/* Makes the passes, and adds what the model computes in them. */
void dump_passes(struct dump *dump, struct passes *passes);
