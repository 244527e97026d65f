/* Causal multi-head attention between its two linear layers. */
#ifndef ATTENTION_H
#define ATTENTION_H

#include "model/layer/dropout.h"
#include "model/math/team.h"

/* Reals of scratch that a thread needs. */
size_t attention_scratch(size_t T, size_t C, size_t NH);

/* out (B,T,C) from qkv (B,T,3C): q, k and v one after the other, head h in columns h HS .. (h+1) HS
   of each, HS = C / NH; only of the heads b NH + h from heads.begin to heads.end, and of the
   queries from token `first` of each sequence on. Keeps softmax (B,NH,2,T), each query's largest
   element of q k^T and 1 / the sum of its exponentials, for backward. By the calling thread, with
   its own scratch. */
void attention_forward(struct range heads, size_t T, size_t C, size_t NH, size_t first, real *out,
                       real *softmax, const real *qkv, struct dropout dropout, real *scratch);

/* dqkv (B,T,3C) from dout (B,T,C), likewise. */
void attention_backward(struct range heads, size_t T, size_t C, size_t NH, real *dqkv,
                        const real *dout, const real *softmax, const real *qkv,
                        struct dropout dropout, real *scratch);

#endif
