/* A residual sum with a learned factor:

     sum = A x + B drop(f)        f = OUT(projected), A and B functions of lambda (lambda.h)

   Backward. A and B are linear in lambda, so
     dx = A dsum + F'(df),  df = drop(B dsum)
     dlambda = sum over tokens of dsum (A' x + B' drop(f))
   where A' and B' are the derivatives: 0 and 1 of LAMBDA_BRANCH, -1 and 1 of LAMBDA_MIX, 1 and 0 of
   LAMBDA_STREAM. If lambda is one number, its gradient is also summed over channels. With a scale
   lambda = scale |p|, and dp = scale sign(p) dlambda: Adam moves p by about the learning rate, and
   lambda scale times as far.

   x + lambda f: Bachlechner et al. 2020, ReZero (arXiv:2003.04887). lambda x + f: Liu et al. 2020,
   Admin (arXiv:2004.08249). (1 - lambda) x + lambda f, scale |p|: Loshchilov et al. 2024, nGPT
   (arXiv:2410.01131). */
#include "model/layer/lambda.h"
#include "model/math/profile.h"
#include "model/math/reduce.h"
#include <string.h>

void lambda_attach(struct lambda *l, const char *name, double start, struct lambda *shared,
                   const struct layout *layout) {
    size_t N = layout->B * layout->T, C = l->C;
    double p = l->scale > 0 ? start / l->scale : start;
    l->param = shared ? shared->param
                      : tensor_take(&layout->lists->param, name, l->vector ? C : 1, 0, p, 0);
    if (l->scale > 0) l->slope = arena_reals(layout->arena, C);
    for (int i = 0; i < 2; i++) l->factor[i] = arena_reals(layout->arena, C);
    l->f = lambda_scales_branch(l) ? arena_reals(layout->arena, N * C) : NULL;
    l->starts = l->ends = true;
    l->sum = shared ? shared->sum : arena_reals(layout->arena, team_row_blocks(N) * C);
    if (shared) l->ends = shared->starts = false; // backward comes here first
    if (!shared && !l->vector) l->number = arena_reals(layout->arena, team_row_blocks(N));
}

void lambda_prepare(const struct lambda *l) {
    if (l->form == LAMBDA_NONE) return;
    struct range own = team_part(l->C, 64 / sizeof(real));
    for (size_t c = own.begin; c < own.end; c++) {
        real value = l->param.value[l->vector ? c : 0];
        if (l->slope) {
            l->slope[c] = (real)(value < 0 ? -l->scale : l->scale);
            value *= l->slope[c];
        }
        l->factor[0][c] = l->form == LAMBDA_BRANCH ? l->a
                          : l->form == LAMBDA_MIX  ? 1 - value
                                                   : value;
        l->factor[1][c] = lambda_scales_branch(l) ? value : 1;
    }
}

void lambda_forward(const struct lambda *l, struct range rows, real *sum, const real *x,
                    const real *f, struct dropout drop) {
    size_t C = l->C;
    const real *restrict A = l->factor[0], *restrict B = l->factor[1];
    for (size_t n = rows.begin; n < rows.end; n++, sum += C, x += C, f += C) {
        if (drop.threshold) dropout_apply(drop, n * C, C, sum, f);
        const real *dropped = drop.threshold ? sum : f;
#pragma omp simd
        for (size_t c = 0; c < C; c++) sum[c] = mul_add(A[c], x[c], B[c] * dropped[c]);
    }
    profile_lap(PROFILE_ELEMENTWISE);
}

/* sum (C) += dsum (A' x + B' drop(f)) of one token. `scratch` (C) may be written. */
static void add_token(const struct lambda *l, size_t n, real *sum, real *scratch, const real *dsum,
                      const real *x, struct dropout drop) {
    size_t C = l->C;
    if (!l->f) {
#pragma omp simd
        for (size_t c = 0; c < C; c++) sum[c] = mul_add(dsum[c], x[c], sum[c]);
        return;
    }
    const real *f = l->f + n * C, along_x = l->form == LAMBDA_MIX ? -1 : 0;
    if (drop.threshold) dropout_apply(drop, n * C, C, scratch, f);
    if (drop.threshold) f = scratch;
#pragma omp simd
    for (size_t c = 0; c < C; c++) sum[c] = mul_add(dsum[c], mul_add(along_x, x[c], f[c]), sum[c]);
}

/* lambda_backward() of one row block. */
static void block_backward(const struct lambda *l, struct range rows, real *dout, const real *dsum,
                           const real *x, struct dropout drop) {
    size_t C = l->C, block = rows.begin / ROWS;
    const real *B = l->factor[1];
    real *sum = l->sum + block * C;
    if (l->starts) memset(sum, 0, C * sizeof(real));
    for (size_t n = rows.begin; n < rows.end; n++, dsum += C, x += C) {
        add_token(l, n, sum, dout, dsum, x, drop);
        if (!l->f) continue;
#pragma omp simd
        for (size_t c = 0; c < C; c++) dout[c] = B[c] * dsum[c];
        if (drop.threshold) dropout_apply(drop, n * C, C, dout, dout);
        dout += C;
    }
    for (size_t c = 0; l->ends && l->slope && c < C; c++) sum[c] *= l->slope[c];
    if (l->ends && l->number) l->number[block] = row_sum(C, sum);
}

void lambda_backward(const struct lambda *l, struct range rows, real *dout, const real *dsum,
                     const real *x, struct dropout drop) {
    for (size_t n = rows.begin, at = 0; n < rows.end; n += ROWS, at += ROWS * l->C)
        block_backward(l, team_row_block(n, rows), l->f ? dout + at : NULL, dsum + at, x + at,
                       drop);
    profile_lap(PROFILE_ELEMENTWISE);
}

void lambda_backward_stream(const struct lambda *l, struct range rows, real *dx, const real *dsum,
                            const real *dbranch) {
    size_t C = l->C;
    const real *A = l->factor[0];
    for (size_t n = rows.begin; n < rows.end; n++, dx += C, dsum += C, dbranch += C)
#pragma omp simd
        for (size_t c = 0; c < C; c++) dx[c] = mul_add(A[c], dsum[c], dbranch[c]);
    profile_lap(PROFILE_ELEMENTWISE);
}

void lambda_gradient(const struct lambda *l, const struct parts *parts) {
    if (l->form == LAMBDA_NONE || !l->ends) return;
    if (l->vector)
        parts_add_blocks(parts, l->C, &l->param, l->sum);
    else
        parts_add_blocks(parts, 1, &l->param, l->number);
}
