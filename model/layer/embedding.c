/* x[b,t] = drop(wte[id[b,t]] + wpe[t]). Backward adds each token's gradient to the two rows that it
   read; the work is split by channels, so every row is summed in the tokens' order. */
#include "model/layer/embedding.h"
#include "model/math/profile.h"

static inline real factor(struct dropout dropout, size_t i) {
    return dropout.threshold ? dropout_factor(dropout, i) : 1;
}

void embedding_forward(struct range rows, size_t T, size_t C, real *x, const int32_t *ids,
                       const real *wte, const real *wpe, struct dropout dropout) {
    for (size_t n = rows.begin; n < rows.end; n++) {
        const real *token = wte + ids[n] * C, *position = wpe + n % T * C;
#pragma omp simd
        for (size_t c = 0; c < C; c++)
            x[n * C + c] = (token[c] + position[c]) * factor(dropout, n * C + c);
    }
    profile_lap(PROFILE_EMBEDDING);
}

void embedding_backward(size_t N, size_t T, size_t C, real *dwte, real *dwpe, const real *dx,
                        const int32_t *ids, struct dropout dropout) {
    struct range own = team_part(C, 64 / sizeof(real));
    for (size_t n = 0; n < N; n++) {
        real *token = dwte + ids[n] * C, *position = dwpe + n % T * C;
#pragma omp simd
        for (size_t c = own.begin; c < own.end; c++) {
            real d = dx[n * C + c] * factor(dropout, n * C + c);
            token[c] += d;
            position[c] += d;
        }
    }
    profile_lap(PROFILE_EMBEDDING);
}
