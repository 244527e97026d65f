/* Token and learned position embeddings: x[b,t] = drop(wte[id[b,t]] + wpe[t]). */
#ifndef EMBEDDING_H
#define EMBEDDING_H

#include "dropout.h"

/* x (B,T,C) from ids (B,T), wte (V,C), wpe (block,C). */
void embedding_forward(size_t B, size_t T, size_t C, real *x, const int32_t *ids, const real *wte,
                       const real *wpe, struct dropout dropout);

/* dwte (V,C) and dwpe (block,C) += from dx (B,T,C). */
void embedding_backward(size_t B, size_t T, size_t C, real *dwte, real *dwpe, const real *dx,
                        const int32_t *ids, struct dropout dropout);

#endif
