/* Token and learned position embeddings: x[b,t] = drop(wte[id[b,t]] + wpe[t]). */
#ifndef EMBEDDING_H
#define EMBEDDING_H

#include "model/layer/dropout.h"
#include "model/math/team.h"

/* The rows of x (B,T,C) from ids (B,T), wte (V,C), wpe (block,C); by the calling thread. */
void embedding_forward(struct range rows, size_t T, size_t C, real *x, const int32_t *ids,
                       const real *wte, const real *wpe, struct dropout dropout);

/* dwte (V,C) and dwpe (block,C) += from dx (N,C), N = B T; by every thread of the team, each its
   own channels, after a barrier. */
void embedding_backward(size_t N, size_t T, size_t C, real *dwte, real *dwpe, const real *dx,
                        const int32_t *ids, struct dropout dropout);

#endif
