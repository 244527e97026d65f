/* Causal multi-head self-attention, between its two linear layers (c_attn and c_proj). */
#ifndef ATTENTION_H
#define ATTENTION_H

#include "model/layer/dropout.h"
#include "model/math/team.h"

/* One attention over a batch. Forward and backward of a batch take the same. HS = C / NH. */
struct attention {
    size_t T, C, NH;
    const real *qkv; // (B,T,3C): q, k, v; head h has columns h HS .. (h+1) HS of each
    real *softmax;   // (B,NH,2,T): forward keeps here what backward needs; see attention.c
    struct dropout dropout;
    size_t first; // forward skips the queries before this token of each sequence
};

/* The size, in reals, of the scratch that each thread needs. */
size_t attention_scratch(size_t T, size_t C, size_t NH);

/* out (B,T,C), by the calling thread, for the given heads only: head h of sequence b has number
   b NH + h. */
void attention_forward(const struct attention *a, struct range heads, real *out, real *scratch);

/* dqkv (B,T,3C) from dout (B,T,C), for the same kind of range. */
void attention_backward(const struct attention *a, struct range heads, real *dqkv, const real *dout,
                        real *scratch);

#endif
