/* Sinkhorn-Knopp: an (N,N) matrix of positive numbers becomes nearly doubly stochastic. It is
   divided by its sums over j, then by those over i, and so on, STEPS times:

     M_0 = exp(w),  M_t+1 = M_t / (sums of M_t over j if t is even, else over i)

   Backward, where g_t is the gradient of log M_t:
     g_STEPS = M_STEPS dM_STEPS,  g_t = g_t+1 - M_t+1 (sums of g_t+1, as those of step t)
     dw = g_0

   Sinkhorn and Knopp 1967. */
#pragma once

#include "model/math/reduce.h"
#include "model/math/vecmath.h"

enum { SINKHORN_N = 4, SINKHORN_STEPS = 40 };

struct sinkhorn {
    real M[SINKHORN_STEPS + 1][SINKHORN_N][SINKHORN_N];
};

/* Element b of sum number a of step t, in an array whose rows are `stride` apart. */
static inline real *sinkhorn_at(real *array, size_t stride, size_t t, size_t a, size_t b) {
    return t % 2 ? array + b * stride + a : array + a * stride + b;
}

/* Computes all M. What exp(w) leaves out, a factor of each row, step 0 would divide by. */
static inline void sinkhorn_forward(struct sinkhorn *s, const real *w, size_t stride) {
    enum { N = SINKHORN_N };
    for (size_t i = 0; i < N; i++, w += stride)
        for (size_t j = 0; j < N; j++) s->M[0][i][j] = exp_nonpositive(w[j] - row_max(N, w));
    for (size_t t = 0; t < SINKHORN_STEPS; t++)
        for (size_t a = 0; a < N; a++) {
            real sum = 0, *from = s->M[t][0], *to = s->M[t + 1][0];
            for (size_t b = 0; b < N; b++) sum += *sinkhorn_at(from, N, t, a, b);
            for (size_t b = 0; b < N; b++)
                *sinkhorn_at(to, N, t, a, b) = *sinkhorn_at(from, N, t, a, b) / sum;
        }
}

/* Makes dw of the gradient of the last M, in place. */
static inline void sinkhorn_backward(struct sinkhorn *s, real *d, size_t stride) {
    enum { N = SINKHORN_N };
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < N; j++) d[i * stride + j] *= s->M[SINKHORN_STEPS][i][j];
    for (size_t t = SINKHORN_STEPS; t-- > 0;)
        for (size_t a = 0; a < N; a++) {
            real sum = 0, *quotient = s->M[t + 1][0];
            for (size_t b = 0; b < N; b++) sum += *sinkhorn_at(d, stride, t, a, b);
            for (size_t b = 0; b < N; b++)
                *sinkhorn_at(d, stride, t, a, b) -= *sinkhorn_at(quotient, N, t, a, b) * sum;
        }
}
