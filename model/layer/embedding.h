/* Embeddings of tokens and, if they are added to the stream, of positions:
   x[b,t] = drop(wte[ids[b,t]] + wpe[t]). */
#pragma once

#include "model/layer/dropout.h"
#include "model/math/parts.h"

struct embedding {
    size_t T, C, V;
    const int32_t *ids; // (B,T)
    struct param wte;   // (V,C), by token
    struct param wpe; // (block_size,C), by position; without grad if fixed, NULL if there are none
    struct dropout dropout;
};

/* table (T,C): sines and cosines of wavelengths from 2 pi to 10000 * 2 pi, of root mean square
   `rms`. */
void embedding_sinusoids(size_t T, size_t C, double rms, real *table);

/* The calling thread computes the given rows of x (B,T,C). */
void embedding_forward(const struct embedding *e, struct range rows, real *x);

/* Adds to the gradients of wte and wpe, from dx (N,C), N = B T. Every thread of the team calls
   it, after a barrier, and computes its own channels. */
void embedding_backward(const struct embedding *e, const struct parts *parts, const real *dx);
