/* x[b,t] = drop(wte[ids[b,t]] + wpe[t])

   Backward, with m the dropout factors: dwte[ids[b,t]] += m dx[b,t], dwpe[t] += m dx[b,t]. Threads
   share this work by channels, so each element is summed over the tokens in their order. */
#include "model/layer/embedding.h"
#include "model/math/profile.h"

static inline real factor(struct dropout dropout, size_t i) {
    return dropout.threshold ? dropout_factor(dropout, i) : 1;
}

void embedding_forward(const struct embedding *e, struct range rows, real *x) {
    size_t T = e->T, C = e->C;
    struct dropout dropout = e->dropout;
    for (size_t n = rows.begin; n < rows.end; n++) {
        const real *token = e->wte.value + e->ids[n] * C, *position = e->wpe.value + n % T * C;
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
        real *token = e->wte.grad + e->ids[n] * C, *position = e->wpe.grad + n % T * C;
#pragma omp simd
        for (size_t c = channels.begin; c < channels.end; c++) {
            real d = dx[n * C + c] * factor(dropout, n * C + c);
            token[c] += d;
            position[c] += d;
        }
    }
    profile_lap(PROFILE_EMBEDDING);
}
