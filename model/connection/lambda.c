/* A residual sum with a learned factor:

     sum = A x + B drop(f)        A and B linear in lambda (lambda.h)

   Backward. With A' and B' for the derivatives,
     dx = A dsum + du,  df = drop(B dsum)
     dlambda = sum over tokens of dsum (A' x + B' drop(f))
   If lambda is one number, its gradient is also summed over channels. With a scale
   lambda = scale |p|, and dp = scale sign(p) dlambda: Adam moves p by about the learning rate, and
   lambda scale times as far. */
#include "model/connection/lambda.h"
#include "model/math/profile.h"
#include "model/math/reduce.h"

static const struct lambda_form *form_of(const struct connection *c) {
    return c->kind->own;
}

/* Whether B depends on lambda. */
static bool scales_branch(const struct connection *c) {
    return form_of(c)->f1 != 0;
}

/* An MLP shares the one number of a layer with its attention. Backward comes to the MLP before. */
static struct connection *sharing(const struct connection *c) {
    const bool mlp = c->site % 2, one = !form_of(c)->name[1];
    return mlp && one && c->previous && c->previous->kind == c->kind ? c->previous : NULL;
}

static void attach(struct connection *c, const struct connection_options *o,
                   const struct layout *layout) {
    const struct lambda_form *form = form_of(c);
    struct arena *arena = layout->arena;
    size_t N = layout->B * layout->T, blocks = team_row_blocks(N), C = c->C;
    struct connection *shared = sharing(c);
    double start = o->lambda_start < 0 || !c->kind->options ? form->start(o->layer, o->depth)
                                                            : o->lambda_start;
    if (form->scale) start /= form->scale(C);
    if (shared) {
        c->param[0] = shared->param[0];
        c->partial[0] = shared->partial[0];
    } else
        connection_param(c, 0, form->name[o->attention || !form->name[1] ? 0 : 1],
                         form->vector ? C : 1, 0, start, layout);
    c->size[0] = form->vector ? C : 1;
    if (form->scale) c->buffer[LAMBDA_SLOPE] = arena_reals(arena, C);
    c->buffer[LAMBDA_A] = arena_reals(arena, C);
    c->buffer[LAMBDA_B] = arena_reals(arena, C);
    c->buffer[LAMBDA_SUM] = form->vector ? c->partial[0]
                            : shared     ? shared->buffer[LAMBDA_SUM]
                                         : arena_reals(arena, blocks * C);
    if (shared) c->ends = shared->starts = false;
    c->has_df = scales_branch(c) || c->b != 1;
    c->f = scales_branch(c) ? arena_reals(arena, N * C) : NULL;
}

static void prepare(const struct connection *c) {
    const struct lambda_form *form = form_of(c);
    struct range own = team_part(c->C, 64 / sizeof(real));
    real *slope = c->buffer[LAMBDA_SLOPE];
    for (size_t i = own.begin; i < own.end; i++) {
        real value = c->param[0].value[form->vector ? i : 0];
        if (slope) {
            double scale = form->scale(c->C);
            slope[i] = (real)(value < 0 ? -scale : scale);
            value *= slope[i];
        }
        c->buffer[LAMBDA_A][i] = c->a * ((real)form->x0 + (real)form->x1 * value);
        c->buffer[LAMBDA_B][i] = c->b * ((real)form->f0 + (real)form->f1 * value);
    }
}

static void lambda_write(const struct connection *c, struct range rows, const real *f,
                         struct dropout drop) {
    size_t C = c->C;
    const real *restrict A = c->buffer[LAMBDA_A], *restrict B = c->buffer[LAMBDA_B];
    const real *x = c->x + rows.begin * C;
    real *sum = c->sum + rows.begin * C;
    for (size_t n = rows.begin; n < rows.end; n++, sum += C, x += C, f += C) {
        if (drop.threshold) dropout_apply(drop, n * C, C, sum, f);
        const real *dropped = drop.threshold ? sum : f;
#pragma omp simd
        for (size_t i = 0; i < C; i++) sum[i] = mul_add(A[i], x[i], B[i] * dropped[i]);
    }
    profile_lap(PROFILE_ELEMENTWISE);
}

/* sum (C) += dsum (A' x + B' drop(f)) of token n. `scratch` (C) may be written. */
static void add_token(const struct connection *c, size_t n, real *sum, real *scratch,
                      const real *dsum, struct dropout drop) {
    size_t C = c->C;
    const real *x = c->x + n * C;
    const real along_x = c->a * (real)form_of(c)->x1, along_f = c->b * (real)form_of(c)->f1;
    if (!c->f) {
#pragma omp simd
        for (size_t i = 0; i < C; i++) sum[i] = mul_add(dsum[i], along_x * x[i], sum[i]);
        return;
    }
    const real *f = c->f + n * C;
    if (drop.threshold) dropout_apply(drop, n * C, C, scratch, f);
    if (drop.threshold) f = scratch;
#pragma omp simd
    for (size_t i = 0; i < C; i++)
        sum[i] = mul_add(dsum[i], mul_add(along_x, x[i], along_f * f[i]), sum[i]);
}

/* write_backward() of one row block. */
static void block_backward(const struct connection *c, struct range rows, real *df,
                           const real *dsum, struct dropout drop) {
    size_t C = c->C, block = rows.begin / ROWS;
    const real *B = c->buffer[LAMBDA_B], *slope = c->buffer[LAMBDA_SLOPE];
    real *sum = c->buffer[LAMBDA_SUM] + block * C;
    if (c->starts) memset(sum, 0, C * sizeof(real));
    for (size_t n = rows.begin; n < rows.end; n++, dsum += C) {
        add_token(c, n, sum, df, dsum, drop);
        if (!df) continue;
#pragma omp simd
        for (size_t i = 0; i < C; i++) df[i] = B[i] * dsum[i];
        if (drop.threshold) dropout_apply(drop, n * C, C, df, df);
        df += C;
    }
    for (size_t i = 0; c->ends && slope && i < C; i++) sum[i] *= slope[i];
    if (c->ends && !form_of(c)->vector) c->partial[0][block] = row_sum(C, sum);
}

static void lambda_write_backward(const struct connection *c, struct range rows, real *df,
                                  const real *dsum, struct dropout drop) {
    for (size_t n = rows.begin, at = 0; n < rows.end; n += ROWS, at += ROWS * c->C)
        block_backward(c, team_row_block(n, rows), df ? df + at : NULL, dsum + at, drop);
    profile_lap(PROFILE_ELEMENTWISE);
}

static void lambda_read_backward(const struct connection *c, const struct tokens *tokens,
                                 struct range rows, real *dx, const real *dsum, const real *du,
                                 real *scratch) {
    size_t C = c->C;
    const real *A = c->buffer[LAMBDA_A];
    for (size_t n = rows.begin; n < rows.end; n++, dx += C, dsum += C, du += C)
#pragma omp simd
        for (size_t i = 0; i < C; i++) dx[i] = mul_add(A[i], dsum[i], du[i]);
    profile_lap(PROFILE_ELEMENTWISE);
}

static double kept(const struct connection *c, size_t i) {
    return (double)c->buffer[LAMBDA_A][i % c->C] * (double)c->x[i];
}

const struct connection_functions lambda_functions = {.attach = attach,
                                                      .prepare = prepare,
                                                      .read_backward = lambda_read_backward,
                                                      .write = lambda_write,
                                                      .write_backward = lambda_write_backward,
                                                      .kept = kept};
