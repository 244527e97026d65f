/* Causal multi-head attention between its two linear layers. */
#ifndef ATTENTION_H
#define ATTENTION_H

#include "dropout.h"

/* Reals of scratch for each thread that may run. */
size_t attention_scratch(size_t T, size_t C, size_t NH);

/* out (B,T,C) from qkv (B,T,3C): q, k and v one after the other, head h in columns h HS .. (h+1) HS
   of each, HS = C / NH. Keeps logsum (B,NH,T), the logarithm of each softmax's denominator, for
   backward. `scratch` holds attention_scratch() reals for each thread. */
void attention_forward(size_t B, size_t T, size_t C, size_t NH, real *out, real *logsum,
                       const real *qkv, struct dropout dropout, real *scratch);

/* dqkv (B,T,3C) from dout (B,T,C). */
void attention_backward(size_t B, size_t T, size_t C, size_t NH, real *dqkv, const real *dout,
                        const real *out, const real *logsum, const real *qkv,
                        struct dropout dropout, real *scratch);

#endif
