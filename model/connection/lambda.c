/* Residual connections with a learned factor lambda, a number or a vector of C:

     sum = A x + B drop(f)             A and B linear in lambda

     a x + lambda b f                  ReZero, SkipInit, LayerScale
     lambda a x + b f                  Admin
     (1 - lambda) a x + lambda b f     nGPT

   Backward. With A' and B' for the derivatives,
     dx = A dsum + du,  df = drop(B dsum)
     dlambda = sum over tokens of dsum (A' x + B' drop(f))
   If lambda is one number, its gradient is also summed over channels. With a scale s
   lambda = s |p|, and dp = s sign(p) dlambda: Adam moves p by about the learning rate, and lambda s
   times as far.

   Admin's omega, here lambda, gets its initial value from the first batch. Of the sub-layers
   i = 1, 2, ...

     sum_i = omega_i x + F_i,  omega_1 = 1,  omega_{i+1}^2 = Var[omega_i x] + Var[F_i]

   in the order of one forward pass. After a norm x has a variance of 1, so omega_i^2 is the
   variance of the first input plus those of all F before: each F then has the part in the stream
   that it would have without norms. The variances are over all elements of the valid tokens.

   Bachlechner et al. 2020, ReZero (arXiv:2003.04887); De and Smith 2020, SkipInit
   (arXiv:2002.10444); Touvron et al. 2021, CaiT (arXiv:2103.17239); Liu et al. 2020, Admin
   (arXiv:2004.08249), as in the authors' code; Loshchilov et al. 2024, nGPT (arXiv:2410.01131). */
#include "model/connection/connection.h"
#include "model/math/profile.h"
#include "model/math/reduce.h"
#include <math.h>

/* What lambda multiplies in sum = A x + B drop(f). A and B are linear in it:

     A = a (x0 + x1 lambda),  B = b (f0 + f1 lambda)

   with the placement's constant factors a and b. A kind's `data` is a row like this. */
struct lambda_form {
    double x0, x1, f0, f1;
    bool vector;                  // C numbers, else one
    const char *name[2];          // attention's, the MLP's; the second NULL: the same one
    double start;                 // the initial value
    double (*start_of)(size_t L); // instead of it; NULL: `start`
    double scale;                 // lambda = scale sqrt(C) |parameter|; 0: the parameter
};

/* Buffers of a connection with lambda. */
enum {
    LAMBDA_A,   // (C)
    LAMBDA_B,   // (C)
    LAMBDA_SUM, // (row_blocks,C) each row block's part of lambda's gradient, by channel
};

static const struct lambda_form *form_of(const struct connection *c) {
    return c->kind->data;
}

/* s of lambda = s |p|; 0: lambda is p. */
static double scale_of(const struct connection *c) {
    return form_of(c)->scale * sqrt((double)c->C);
}

/* An MLP shares the one number of a layer with its attention. Backward comes to the MLP before. */
static struct connection *sharing(const struct connection *c) {
    const bool mlp = c->site % 2, one = !form_of(c)->name[1];
    return mlp && one && c->previous && c->previous->kind == c->kind ? c->previous : NULL;
}

static const struct option lambda_start = {
    "lambda-start", NUMBER(OPTION_REAL, "auto", 0, 1e3),
    .help = "initial value of the residual connection's learned factor lambda (auto: the value in "
            "--list-connections)"};

static void attach(struct connection *c, const struct layout *layout) {
    const struct lambda_form *form = form_of(c);
    struct arena *arena = layout->arena;
    size_t N = layout->B * layout->T, blocks = team_row_blocks(N), C = c->C;
    struct connection *shared = sharing(c);
    double start = form->start_of ? form->start_of(c->depth) : form->start;
    const double given = connection_option(c, &lambda_start).real; // negative: auto
    if (given >= 0 && c->kind->options[0]) start = given;
    if (form->scale > 0) start /= scale_of(c);
    if (shared)
        c->param[0] = shared->param[0];
    else
        connection_param(c, 0, form->name[form->name[1] ? c->site % 2 : 0], form->vector ? C : 1, 0,
                         start, layout);
    c->buffer[LAMBDA_A] = arena_reals(arena, C);
    c->buffer[LAMBDA_B] = arena_reals(arena, C);
    c->buffer[LAMBDA_SUM] = form->vector ? c->param[0].sums
                            : shared     ? shared->buffer[LAMBDA_SUM]
                                         : arena_reals(arena, blocks * C);
    if (shared) c->ends = shared->starts = false;
    c->keeps_f = form->f1 != 0;
}

static void prepare(const struct connection *c) {
    const struct lambda_form *form = form_of(c);
    struct range channels = team_part(c->C, 64 / sizeof(real));
    const real scale = (real)scale_of(c);
    for (size_t i = channels.begin; i < channels.end; i++) {
        const real p = c->param[0].value[form->vector ? i : 0];
        const real value = form->scale > 0 ? scale * (p < 0 ? -p : p) : p;
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
#pragma omp simd
        for (size_t i = 0; i < C; i++)
            sum[i] = mul_add(A[i], x[i], B[i] * (f[i] * dropout_factor(drop, n * C + i)));
    }
    profile_lap(PROFILE_ELEMENTWISE);
}

/* sum (C) += dsum (A' x + B' drop(f)) of token n. */
static void add_token(const struct connection *c, size_t n, real *sum, const real *dsum,
                      struct dropout drop) {
    size_t C = c->C;
    const real *x = c->x + n * C;
    const real along_x = c->a * (real)form_of(c)->x1, along_f = c->b * (real)form_of(c)->f1;
    if (!c->f) {
#pragma omp simd
        for (size_t i = 0; i < C; i++) sum[i] = mul_add(dsum[i], along_x * x[i], sum[i]);
        return;
    }
    const real *f = c->f + n * C;
#pragma omp simd
    for (size_t i = 0; i < C; i++) {
        const real dropped = f[i] * dropout_factor(drop, n * C + i);
        sum[i] = mul_add(dsum[i], mul_add(along_x, x[i], along_f * dropped), sum[i]);
    }
}

/* write_backward() of one row block. */
static void block_backward(const struct connection *c, struct range rows, real *df,
                           const real *dsum, struct dropout drop) {
    size_t C = c->C, block = rows.begin / ROWS;
    const real *B = c->buffer[LAMBDA_B], scale = (real)scale_of(c);
    real *sum = c->buffer[LAMBDA_SUM] + block * C;
    if (c->starts) memset(sum, 0, C * sizeof(real));
    for (size_t n = rows.begin; n < rows.end; n++, dsum += C, df += C) {
        add_token(c, n, sum, dsum, drop);
#pragma omp simd
        for (size_t i = 0; i < C; i++) df[i] = B[i] * dsum[i] * dropout_factor(drop, n * C + i);
    }
    for (size_t i = 0; c->ends && scale > 0 && i < C; i++)
        sum[i] *= c->param[0].value[form_of(c)->vector ? i : 0] < 0 ? -scale : scale;
    if (c->ends && !form_of(c)->vector) *param_sums(&c->param[0], rows.begin) = row_sum(C, sum);
}

static void lambda_write_backward(const struct connection *c, struct range rows, real *df,
                                  const real *dsum, struct dropout drop) {
    for (size_t n = rows.begin, offset = 0; n < rows.end; n += ROWS, offset += ROWS * c->C)
        block_backward(c, team_row_block(n, rows), df + offset, dsum + offset, drop);
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

static const struct connection_functions lambda_functions = {.attach = attach,
                                                             .prepare = prepare,
                                                             .read_backward = lambda_read_backward,
                                                             .write = lambda_write,
                                                             .write_backward =
                                                                 lambda_write_backward,
                                                             .writes_df = true,
                                                             .kept = kept};

/* ---- the kinds ---- */

/* The deeper, the smaller (Touvron et al. 2021). */
static double layerscale_start(size_t L) {
    return L <= 18 ? 0.1 : L <= 24 ? 1e-5 : 1e-6;
}

const struct connection_kind connection_rezero = {
    .name = "rezero",
    .formula = "a x + lambda b f, one learned lambda per layer, initially 0",
    .source = "Bachlechner et al. 2020, ReZero (arXiv:2003.04887)",
    .options = {&lambda_start},
    .functions = &lambda_functions,
    .data = &(const struct lambda_form){.x0 = 1, .f1 = 1, .name = {"resweight"}},
};

const struct connection_kind connection_skipinit = {
    .name = "skipinit",
    .formula = "a x + lambda b f, one learned lambda per sub-layer, initially 0",
    .source = "De and Smith 2020, SkipInit (arXiv:2002.10444)",
    .options = {&lambda_start},
    .functions = &lambda_functions,
    .data = &(const struct lambda_form){.x0 = 1, .f1 = 1, .name = {"skip_gain_1", "skip_gain_2"}},
};

const struct connection_kind connection_layerscale = {
    .name = "layerscale",
    .formula = "a x + lambda b f, C learned numbers lambda, initially 0.1 (1e-5 above 18 layers, "
               "1e-6 above 24)",
    .source = "Touvron et al. 2021, CaiT (arXiv:2103.17239)",
    .options = {&lambda_start},
    .functions = &lambda_functions,
    .data = &(const struct lambda_form){.x0 = 1,
                                        .f1 = 1,
                                        .vector = true,
                                        .name = {"gamma_1", "gamma_2"},
                                        .start_of = layerscale_start},
};

/* The variance of what `sum` keeps of x, or of what was added to it. */
static double variance_of(const struct connection *c, const struct tokens *tokens, bool added) {
    size_t C = c->C, N = tokens->B * tokens->T, count = 0;
    double sum = 0, squares = 0;
    for (size_t n = 0; n < N; n++) {
        if (!token_counts(tokens, n)) continue;
        count += C;
        for (size_t i = n * C; i < (n + 1) * C; i++) {
            double of_x = connection_kept(c, i);
            double value = added ? (double)c->sum[i] - of_x : of_x;
            sum += value;
            squares += value * value;
        }
    }
    if (!count) return 0;
    double mean = sum / (double)count;
    return squares / (double)count - mean * mean;
}

static void admin_set(struct connection *c, const struct tokens *tokens) {
    const struct connection *of = c->previous; // the last such connection before
    while (of && of->kind != c->kind) of = of->previous;
    const double variance = of ? variance_of(of, tokens, false) + variance_of(of, tokens, true) : 1;
    for (size_t i = 0; i < c->param[0].size; i++) c->param[0].value[i] = (real)sqrt(variance);
}

const struct connection_kind connection_admin = {
    .name = "admin",
    .formula = "omega a x + b f, C learned numbers omega; initially omega^2 is 1 in the first "
               "sub-layer, and in later ones the variance of the embedding plus the variances of "
               "all earlier f, in the first batch",
    .source = "Liu et al. 2020, Admin (arXiv:2004.08249)",
    .functions = &lambda_functions,
    .data = &(const struct lambda_form){.x1 = 1,
                                        .f0 = 1,
                                        .vector = true,
                                        .name = {"attention_ratio_change", "fc_ratio_change"},
                                        .start = 1},
    .set_initial = admin_set,
};

/* In nGPT's code the parameters of alpha, here lambda, start at 1 / sqrt(C). */
const struct connection_kind connection_interpolate = {
    .name = "interpolate",
    .formula = "a x + lambda (b f - a x), C learned numbers lambda, initially 0.05",
    .source = "Loshchilov et al. 2024, nGPT (arXiv:2410.01131)",
    .options = {&lambda_start},
    .functions = &lambda_functions,
    .data = &(const struct lambda_form){.x0 = 1,
                                        .x1 = -1,
                                        .f1 = 1,
                                        .vector = true,
                                        .name = {"attn_alpha", "mlp_alpha"},
                                        .start = 0.05,
                                        .scale = 0.05},
};
