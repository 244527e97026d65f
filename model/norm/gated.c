/* GatedNorm: RMSNorm, then a sigmoid gate for each channel, computed from the normalized token.

     xhat = x / sqrt(sum_c x^2 / C + eps),  n = gamma xhat
     h_k = sum_c D_kc n_c,  s_k = silu(h_k) = h_k sigmoid(h_k)             k = 1 .. R
     g_c = sigmoid(sum_k U_kc s_k),  y = g n

   D and U (R,C) are learned, R is --gated-rank. They start small, so every gate starts near 1/2.

   Backward. With e = dy n g (1 - g), the gradient of sigmoid's argument:
     dU_kc += sum over tokens of s_k e_c,  ds_k = sum_c U_kc e_c
     dh_k = ds_k silu'(h_k),  silu'(h) = sigmoid(h) (1 + h (1 - sigmoid(h)))
     dD_kc += sum over tokens of dh_k n_c,  dn_c = g_c dy_c + sum_k dh_k D_kc
     dgamma += sum over tokens of dn xhat
     dx = rstd (gamma dn - xhat mean_c(gamma dn xhat))

   Qiu et al. 2026 (arXiv:2601.22966), GatedNorm, which takes R = 16. Its text does not say how D
   and U start: here as GPT-2's matrices. U has the shape of D, so that every loop is over
   channels. */
#include "model/math/reduce.h"
#include "model/math/vecmath.h"
#include "model/norm/kind.h"

enum { GAMMA, DOWN, UP }; // parameters

/* The saved values of a block of M tokens. */
struct saved {
    real *rstd; // (M)
    real *h;    // (M,R)
    real *g;    // (M,C)
    real *dh;   // (R) of backward
};

static const struct option gated_rank = {
    "gated-rank", NUMBER(OPTION_INT, "16", 1, 1000000),
    .help = "rank of the matrices D and U, from which gated computes its gates",
    .scope = OPTION_OF_MODEL};

static size_t rank_of(const struct norm *norm) {
    return (size_t)norm_option(norm, &gated_rank).integer;
}

static struct saved saved_of(const struct norm *norm, struct range rows) {
    const size_t M = rows.end - rows.begin, R = rank_of(norm), C = norm->C;
    real *saved = norm->saved + (1 + 2 * R + C) * rows.begin;
    return (struct saved){saved, saved + M, saved + M + M * R, saved + M + M * R + M * C};
}

static size_t saved_size(const struct norm *norm, size_t B, size_t T) {
    return (1 + 2 * rank_of(norm) + norm->C) * B * T;
}

/* g (C) of a token, from its h (R). */
static void gate(const struct norm *norm, real *g, const real *h) {
    const size_t C = norm->C, R = rank_of(norm);
    const real *up = norm->param[UP].value; // (R,C)
    memset(g, 0, C * sizeof(real));
    for (size_t k = 0; k < R; k++, up += C) {
        const real s = h[k] * sigmoid_real(h[k]);
        row_add(C, g, s, up);
    }
#pragma omp simd
    for (size_t c = 0; c < C; c++) g[c] = sigmoid_real(g[c]);
}

static void gatednorm_forward(const struct norm *norm, const struct tokens *tokens,
                              struct range rows, real *y, const real *x) {
    const size_t M = rows.end - rows.begin, C = norm->C, R = rank_of(norm);
    const real *gamma = norm->param[GAMMA].value; // (C)
    const real *down = norm->param[DOWN].value;   // (R,C)
    const real eps = (real)norm_option(norm, &norm_eps).real;
    struct saved s = saved_of(norm, rows);
    for (size_t n = 0; n < M; n++, x += C, y += C, s.h += R, s.g += C) {
        const real rstd = s.rstd[n] = 1 / sqrt_real(row_dot(C, x, x) / (real)C + eps);
#pragma omp simd
        for (size_t c = 0; c < C; c++) y[c] = x[c] * rstd * gamma[c]; // n
        for (size_t k = 0; k < R; k++) s.h[k] = row_dot(C, down + k * C, y);
        gate(norm, s.g, s.h);
#pragma omp simd
        for (size_t c = 0; c < C; c++) y[c] *= s.g[c];
    }
}

/* In dx (C), dn of a token; adds its part of dD and dU. */
static void gate_backward(const struct norm *norm, const struct saved *s, real rstd, real *dx,
                          const real *dy, const real *x, real *const *sum) {
    const size_t C = norm->C, R = rank_of(norm);
    const real *gamma = norm->param[GAMMA].value; // (C)
    const real *down = norm->param[DOWN].value, *up = norm->param[UP].value;
#pragma omp simd
    for (size_t c = 0; c < C; c++)
        dx[c] = dy[c] * (x[c] * rstd * gamma[c]) * s->g[c] * (1 - s->g[c]); // e
    for (size_t k = 0; k < R; k++) {
        const real sigmoid = sigmoid_real(s->h[k]), silu = s->h[k] * sigmoid;
        s->dh[k] = row_dot(C, up + k * C, dx) * sigmoid * mul_add(s->h[k], 1 - sigmoid, 1);
        row_add(C, sum[UP] + k * C, silu, dx);
    }
#pragma omp simd
    for (size_t c = 0; c < C; c++) dx[c] = s->g[c] * dy[c];
    for (size_t k = 0; k < R; k++) {
        const real dh = s->dh[k], factor = dh * rstd, *row = down + k * C;
        real *ddown = sum[DOWN] + k * C;
#pragma omp simd
        for (size_t c = 0; c < C; c++) {
            ddown[c] = mul_add(factor, x[c] * gamma[c], ddown[c]);
            dx[c] = mul_add(dh, row[c], dx[c]);
        }
    }
}

static void gatednorm_backward(const struct norm *norm, const struct tokens *tokens,
                               struct range rows, real *dx, const real *dy, const real *x,
                               real *const *sum) {
    const size_t M = rows.end - rows.begin, C = norm->C, R = rank_of(norm);
    const real *gamma = norm->param[GAMMA].value;
    real *dgamma = sum[GAMMA]; // (C)
    struct saved s = saved_of(norm, rows);
    for (size_t n = 0; n < M; n++, x += C, dy += C, dx += C, s.h += R, s.g += C) {
        const real rstd = s.rstd[n];
        gate_backward(norm, &s, rstd, dx, dy, x, sum);
        const real along = row_dot_product_about(C, gamma, dx, x, 0) * rstd / (real)C;
#pragma omp simd
        for (size_t c = 0; c < C; c++) {
            const real xhat = x[c] * rstd;
            dgamma[c] = mul_add(dx[c], xhat, dgamma[c]);
            dx[c] = rstd * mul_add(gamma[c], dx[c], -xhat * along);
        }
    }
}

const struct norm_kind norm_gated = {
    .name = "gated",
    .full_name = "gatednorm",
    .words = "y = n sigmoid(U silu(D n)), n = gamma x / sqrt(mean_c x^2 + eps), D and U learned "
             "matrices of low rank",
    .source = "Qiu et al. 2026, GatedNorm (arXiv:2601.22966)",
    .options = {&norm_eps, &gated_rank},
    .param = {[GAMMA] = {"weight", .start = 1},
              [DOWN] = {"down", .rows_of = rank_of, .deviation = 0.02, .role = NORM_OTHER},
              [UP] = {"up", .rows_of = rank_of, .deviation = 0.02, .role = NORM_OTHER}},
    .saved_size = saved_size,
    .forward = gatednorm_forward,
    .backward = gatednorm_backward,
};
