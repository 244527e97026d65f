/* --dump: what a model computes for a batch, as arrays of a safetensors file. For B sequences of T
   tokens, C channels, V characters, NH heads of HS channels and layers l = 0, 1, ... they are

     ids, targets, valid               (B,T) integers; a target is -1 where there is none, valid is
                                       0 at a pad, for which all other arrays have numbers too
     logits                            (B,T,V)
     stream.0, stream.1, ...           (B,T,C) the residual stream: before the first sub-layer and
                                       after each; that after the last one has the number 2L
     head_in                           (B,T,C) what the head reads
     transformer.h.l.attn.qkv          (B,T,3C) q, k and v as attention reads them, so after QK-norm
     transformer.h.l.attn.output       (B,T,C) attention's output, which c_proj reads
     NORM.input, NORM.output           x and y of each norm, by its name in the model's file

   and the gradients of dump_gradients():

     grad.NAME                         of the parameter NAME, in its shape

   NORM is transformer.ln_e, transformer.ln_f, and in each layer ln_1 and ln_2, the first norm of a
   sub-layer, with _out and _post where the placement has more than one: (B,T,C). With --norm=none
   they are identities at the same places. Where there are norms inside the sub-layers, also
   transformer.h.l.attn.q_norm and k_norm (B,T,NH,HS), and transformer.h.l.mlp.norm (B,T,4C). */
#ifndef DUMP_H
#define DUMP_H

#include "data/files/safetensors.h"
#include "model/lab/measure.h"

struct dump {
    size_t B, T;           // of the batch
    struct stored *arrays; // with names and data of their own
    size_t count;
    size_t next;             // the array that a pass adds to next, if an earlier pass made it
    size_t first, sequences; // of the batch, that the pass is over
};

/* For a batch of this size. */
void dump_init(struct dump *dump, const struct batch *batch);
void dump_free(struct dump *dump);

/* Adds what the pass has computed, until the model's next pass. The passes of a batch are one, or
   one for each sequence. */
void dump_pass(struct dump *dump, struct model *model, const struct measured_pass *pass);

/* Adds the gradients that the model holds. */
void dump_gradients(struct dump *dump, const struct model *model);

/* The array of this name, or NULL. */
const struct stored *dump_find(const struct dump *dump, const char *name);

#endif
