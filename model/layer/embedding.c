/* x[b,t] = drop(wte[ids[b,t]] + wpe[t])

   Backward, with m the dropout factors: dwte[ids[b,t]] += m dx[b,t], dwpe[t] += m dx[b,t]. Threads
   share this work by channels, so each element is summed over the tokens in their order.

   wpe is learned, or fixed:

     wpe[t,2i] = r sin(t 10000^(-2i / C)),  wpe[t,2i+1] = r cos(t 10000^(-2i / C))

   Vaswani et al. 2017, section 3.5 (arXiv:1706.03762), with r = 1 and token embeddings times
   sqrt(C). */
#include "model/layer/embedding.h"
#include "model/math/profile.h"
#include <math.h>

void embedding_sinusoids(size_t T, size_t C, double rms, real *table) {
    for (size_t t = 0; t < T; t++)
        for (size_t c = 0; c < C; c++) {
            double angle = (double)t * pow(10000, -(double)(c / 2 * 2) / (double)C);
            table[t * C + c] = (real)(sqrt(2) * rms * (c % 2 ? cos(angle) : sin(angle)));
        }
}

static inline real factor(struct dropout dropout, size_t i) {
    return dropout.threshold ? dropout_factor(dropout, i) : 1;
}

void embedding_forward(const struct embedding *e, struct range rows, real *x) {
    size_t T = e->T, C = e->C;
    struct dropout dropout = e->dropout;
    for (size_t n = rows.begin; n < rows.end; n++) {
        const real *token = e->wte.value + e->ids[n] * C, *position = e->wpe.value;
        if (!position) {
#pragma omp simd
            for (size_t c = 0; c < C; c++) x[n * C + c] = token[c] * factor(dropout, n * C + c);
            continue;
        }
        position += n % T * C;
#pragma omp simd
        for (size_t c = 0; c < C; c++)
            x[n * C + c] = (token[c] + position[c]) * factor(dropout, n * C + c);
    }
    profile_lap(PROFILE_EMBEDDING);
}

void embedding_backward(const struct embedding *e, size_t N, const real *dx) {
    size_t T = e->T, C = e->C;
    struct dropout dropout = e->dropout;
    struct range channels = team_part(C, 64 / sizeof(real));
    for (size_t n = 0; n < N; n++) {
        real *token = e->wte.grad + e->ids[n] * C;
#pragma omp simd
        for (size_t c = channels.begin; c < channels.end; c++)
            token[c] += dx[n * C + c] * factor(dropout, n * C + c);
        if (!e->wpe.grad) continue;
        real *position = e->wpe.grad + n % T * C;
#pragma omp simd
        for (size_t c = channels.begin; c < channels.end; c++)
            position[c] += dx[n * C + c] * factor(dropout, n * C + c);
    }
    profile_lap(PROFILE_EMBEDDING);
}
