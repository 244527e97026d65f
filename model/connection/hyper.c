/* Hyper-connections: S streams H_1 .. H_S, all x before the first sub-layer.

     u = sum_i alpha_i0 H_i
     H'_j = a sum_i alpha_ij H_i + beta_j b drop(f)       j = 1 .. S
     sum = sum_j H'_j, which is what the head reads

   The weights depend on the token. With xhat_i = (H_i - mean_c H_i) / sqrt(var_c H_i + eps),
   K = S + 2 rows W_k (C), and learned p, s:

     z_ik = sum_c xhat_i W_k
     alpha_ik = start_ik + p_ik + s_alpha tanh(z_ik)      k = 0 .. S
     beta_i = 1 + p_i + s_beta tanh(z_i,S+1)

   start is the identity of i and k, and 1 of k = 0 for one stream i, another one in each sub-layer;
   p and W are initially 0. So u is initially the same as with one stream. In `hyper-static` there
   is no W.

   Backward, with dH' from the sub-layer above:
     df = drop(b sum_j beta_j dH'_j),  dbeta_j = sum_c b drop(f) dH'_j
     dalpha_i0 = sum_c H_i du,  dalpha_ij = a sum_c H_i dH'_j
     dz_ik = s (1 - tanh(z_ik)^2) dalpha_ik, or dbeta_i
     dxhat_i = sum_k dz_ik W_k
     dH_i = alpha_i0 du + a sum_j alpha_ij dH'_j
            + rstd_i (dxhat_i - mean_c dxhat_i - xhat_i mean_c(dxhat_i xhat_i))
   where the two means are sum_k dz_ik mean_c(W_k) and sum_k dz_ik z_ik / C. dx = sum_i dH_i.

   Zhu et al. 2024 (arXiv:2409.19606), equations 1 to 14 and algorithm 2. p is what the weights
   differ from their first values, and no weight decay pulls at it, as in the paper; there is one
   matrix W for both alpha and beta. --init alone decides initial weights: the paper's sqrt(S) times
   larger ones of output projections are not here. */
#include "model/connection/connection.h"
#include "model/math/reduce.h"
#include "model/math/vecmath.h"

enum { S = 4, ALPHAS = S + 1, K = S + 2 };
enum { ALPHA, BETA, SCALE, W }; // parameters: p of alpha (S,S+1) and beta (S), s (2), W (K,C)
enum { H, DH, SAVED, MEAN_W };  // buffers: (B,T,S,C) twice, DH of all sub-layers, (B,T), (K)
static const real eps = (real)1e-5;

/* Values that forward keeps for each token, and backward between its two halves. */
struct kept_token {
    real mean[S], rstd[S], z[S][K], dbeta[S];
};

enum { KEPT = sizeof(struct kept_token) / sizeof(real) };

static struct kept_token *kept_of(const struct connection *c, size_t n) {
    return (struct kept_token *)(c->buffer[SAVED] + n * KEPT);
}

static bool dynamic(const struct connection *c) {
    return c->kind->own != NULL;
}

static void attach(struct connection *c, const struct connection_options *o,
                   const struct layout *layout) {
    static const char *const names[][4] = {
        {"hc_1.alpha", "hc_1.beta", "hc_1.scale", "hc_1.weight"},
        {"hc_2.alpha", "hc_2.beta", "hc_2.scale", "hc_2.weight"}};
    const char *const *name = names[c->site % 2];
    const size_t N = layout->B * layout->T, C = c->C;
    c->buffer[DH] = c->previous ? c->previous->buffer[DH] : arena_reals(layout->arena, N * S * C);
    if (c->end) return; // it reads `sum`
    connection_param(c, ALPHA, name[0], S * ALPHAS, 0, 0, layout);
    connection_param(c, BETA, name[1], S, 0, 0, layout);
    if (dynamic(c)) {
        connection_param(c, SCALE, name[2], 2, 0, 0.01, layout);
        connection_param(c, W, name[3], K, C, 0, layout);
    }
    c->buffer[H] = arena_reals(layout->arena, N * S * C);
    c->buffer[SAVED] = arena_reals(layout->arena, N * KEPT);
    c->buffer[MEAN_W] = arena_reals(layout->arena, K);
    c->u = arena_reals(layout->arena, N * C);
    c->f = arena_reals(layout->arena, N * C);
    c->has_df = true;
}

static void prepare(const struct connection *c) {
    if (c->end || !dynamic(c) || omp_get_thread_num()) return;
    for (size_t k = 0; k < K; k++)
        c->buffer[MEAN_W][k] = row_sum(c->C, c->param[W].value + k * c->C) / (real)c->C;
}

/* Stream i of token n, (C). */
static const real *stream(const struct connection *c, size_t n, size_t i) {
    return c->previous ? c->previous->buffer[H] + (n * S + i) * c->C : c->x + n * c->C;
}

/* The weights of a token. */
struct weights {
    real alpha[S][ALPHAS], beta[S], tanh[S][K];
};

static void weights_of(const struct connection *c, const struct kept_token *t, struct weights *w) {
    const real *p = c->param[ALPHA].value, *s = c->param[SCALE].value;
    for (size_t i = 0; i < S; i++) {
        for (size_t k = 0; k < ALPHAS; k++)
            w->alpha[i][k] = p[i * ALPHAS + k] + (k == i + 1 || (!k && i == c->site % S));
        w->beta[i] = 1 + c->param[BETA].value[i];
        if (!dynamic(c)) continue;
        for (size_t k = 0; k < K; k++) w->tanh[i][k] = tanh_real(t->z[i][k]);
        for (size_t k = 0; k < ALPHAS; k++) w->alpha[i][k] += s[0] * w->tanh[i][k];
        w->beta[i] += s[1] * w->tanh[i][ALPHAS];
    }
}

/* mean, rstd and z of token n. */
static void measure(const struct connection *c, size_t n, struct kept_token *t) {
    const size_t C = c->C;
    for (size_t i = 0; i < S; i++) {
        const real *h = stream(c, n, i);
        t->mean[i] = row_sum(C, h) / (real)C;
        t->rstd[i] = 1 / sqrt_real(row_squares_about(C, h, t->mean[i]) / (real)C + eps);
        for (size_t k = 0; k < K; k++)
            t->z[i][k] = t->rstd[i] * row_dot_about(C, c->param[W].value + k * C, h, t->mean[i]);
    }
}

/* u, for a kept token. */
static void read(const struct connection *c, const struct tokens *tokens, struct range rows) {
    const size_t C = c->C;
    struct weights w;
    for (size_t n = rows.begin; n < rows.end && !c->end; n++) {
        real *u = c->u + n * C;
        if (dynamic(c)) measure(c, n, kept_of(c, n));
        weights_of(c, kept_of(c, n), &w);
        memset(u, 0, C * sizeof(real));
        for (size_t i = 0; i < S; i++) {
            const real *h = stream(c, n, i), alpha = w.alpha[i][0];
#pragma omp simd
            for (size_t j = 0; j < C; j++) u[j] = mul_add(alpha, h[j], u[j]);
        }
    }
    profile_lap(PROFILE_ELEMENTWISE);
}

/* H' and sum */
static void write(const struct connection *c, struct range rows, const real *f,
                  struct dropout drop) {
    const size_t C = c->C;
    struct weights w;
    for (size_t n = rows.begin; n < rows.end; n++, f += C) {
        real *sum = c->sum + n * C, *to = c->buffer[H] + n * S * C;
        weights_of(c, kept_of(c, n), &w);
        memset(sum, 0, C * sizeof(real));
        for (size_t j = 0; j < S; j++, to += C) {
            const real beta = w.beta[j] * c->b;
            if (drop.threshold) dropout_apply(drop, n * C, C, to, f);
            const real *dropped = drop.threshold ? to : f;
#pragma omp simd
            for (size_t l = 0; l < C; l++) to[l] = beta * dropped[l];
            for (size_t i = 0; i < S; i++) {
                const real *h = stream(c, n, i), alpha = w.alpha[i][j + 1] * c->a;
#pragma omp simd
                for (size_t l = 0; l < C; l++) to[l] = mul_add(alpha, h[l], to[l]);
            }
#pragma omp simd
            for (size_t l = 0; l < C; l++) sum[l] += to[l];
        }
    }
    profile_lap(PROFILE_ELEMENTWISE);
}

/* df and dbeta. dsum is not needed: the end has made dH' of it. */
static void write_backward(const struct connection *c, struct range rows, real *df,
                           const real *dsum, struct dropout drop) {
    const size_t C = c->C;
    struct weights w;
    for (size_t n = rows.begin; n < rows.end; n++, df += C) {
        struct kept_token *t = kept_of(c, n);
        const real *dto = c->buffer[DH] + n * S * C, *f = c->f + n * C;
        weights_of(c, t, &w);
        if (drop.threshold) dropout_apply(drop, n * C, C, df, f);
        if (drop.threshold) f = df;
        for (size_t j = 0; j < S; j++) t->dbeta[j] = c->b * row_dot(C, f, dto + j * C);
        memset(df, 0, C * sizeof(real));
        for (size_t j = 0; j < S; j++) {
            const real beta = w.beta[j] * c->b;
#pragma omp simd
            for (size_t l = 0; l < C; l++) df[l] = mul_add(beta, dto[j * C + l], df[l]);
        }
        if (drop.threshold) dropout_apply(drop, n * C, C, df, df);
    }
    profile_lap(PROFILE_ELEMENTWISE);
}

/* The gradients of a token's alpha and beta become those of z, and are added to the block's sums of
   p, s and W. */
static void weights_backward(const struct connection *c, size_t n, const struct weights *w,
                             real d[S][K]) {
    const size_t C = c->C, block = n / ROWS;
    const struct kept_token *t = kept_of(c, n);
    for (size_t i = 0; i < S; i++) {
        for (size_t k = 0; k < ALPHAS; k++)
            c->partial[ALPHA][block * S * ALPHAS + i * ALPHAS + k] += d[i][k];
        c->partial[BETA][block * S + i] += d[i][ALPHAS];
        if (!dynamic(c)) continue;
        const real *h = stream(c, n, i);
        for (size_t k = 0; k < K; k++) {
            const bool of_beta = k == ALPHAS;
            real *dW = c->partial[W] + (block * K + k) * C, slope = w->tanh[i][k];
            c->partial[SCALE][2 * block + of_beta] += d[i][k] * slope;
            d[i][k] *= c->param[SCALE].value[of_beta] * (1 - slope * slope);
            const real factor = d[i][k] * t->rstd[i], mean = t->mean[i];
#pragma omp simd
            for (size_t l = 0; l < C; l++) dW[l] = mul_add(factor, h[l] - mean, dW[l]);
        }
    }
}

/* dH_i (C) of a token += its part that comes through xhat_i, from dz_i. */
static void xhat_backward(const struct connection *c, const struct kept_token *t, size_t i,
                          const real *dz, const real *h, real *dh) {
    const size_t C = c->C;
    const real mean = t->mean[i], rstd = t->rstd[i];
    real centre = 0, along = 0;
    for (size_t k = 0; k < K; k++) {
        centre += dz[k] * c->buffer[MEAN_W][k];
        along += dz[k] * t->z[i][k] / (real)C;
    }
    for (size_t k = 0; k < K; k++) {
        const real *row = c->param[W].value + k * C, factor = rstd * dz[k];
#pragma omp simd
        for (size_t l = 0; l < C; l++) dh[l] = mul_add(factor, row[l], dh[l]);
    }
#pragma omp simd
    for (size_t l = 0; l < C; l++) dh[l] -= rstd * mul_add((h[l] - mean) * rstd, along, centre);
}

/* dH_i = alpha_i0 du + a sum_j alpha_ij dH'_j, in place of dH' (S,C), and their sum in dx. */
static void streams_backward(const struct connection *c, const struct weights *w, real *dto,
                             const real *du) {
    const size_t C = c->C;
#pragma omp simd
    for (size_t l = 0; l < C; l++) {
        real to[S];
        for (size_t j = 0; j < S; j++) to[j] = c->a * dto[j * C + l];
        for (size_t i = 0; i < S; i++) {
            real d = w->alpha[i][0] * du[l];
            for (size_t j = 0; j < S; j++) d = mul_add(w->alpha[i][j + 1], to[j], d);
            dto[i * C + l] = d;
        }
    }
}

static void token_backward(const struct connection *c, size_t n, real *dx, const real *du) {
    const size_t C = c->C;
    const struct kept_token *t = kept_of(c, n);
    real *dto = c->buffer[DH] + n * S * C, d[S][K];
    struct weights w;
    weights_of(c, t, &w);
    for (size_t i = 0; i < S; i++) {
        const real *h = stream(c, n, i);
        d[i][0] = row_dot(C, h, du);
        for (size_t j = 0; j < S; j++) d[i][j + 1] = c->a * row_dot(C, h, dto + j * C);
        d[i][ALPHAS] = t->dbeta[i];
    }
    weights_backward(c, n, &w, d);
    streams_backward(c, &w, dto, du);
    for (size_t i = 0; i < S && dynamic(c); i++)
        xhat_backward(c, t, i, d[i], stream(c, n, i), dto + i * C);
    memset(dx, 0, C * sizeof(real));
    for (size_t i = 0; i < S; i++)
#pragma omp simd
        for (size_t l = 0; l < C; l++) dx[l] += dto[i * C + l];
}

/* At the end, dH'_j = du of the sum of all streams. */
static void read_backward(const struct connection *c, const struct tokens *tokens,
                          struct range rows, real *dx, const real *dsum, const real *du,
                          real *scratch) {
    const size_t C = c->C;
    for (size_t n = rows.begin; n < rows.end; n++, dx += C, du += C) {
        for (size_t j = 0; c->end && j < S; j++)
            memcpy(c->buffer[DH] + (n * S + j) * C, du, C * sizeof(real));
        if (c->end) continue;
        for (size_t i = 0; n % ROWS == 0 && i <= W && c->size[i]; i++)
            memset(c->partial[i] + n / ROWS * c->size[i], 0, c->size[i] * sizeof(real));
        token_backward(c, n, dx, du);
    }
    profile_lap(PROFILE_ELEMENTWISE);
}

/* a sum_j sum_i alpha_ij H_i */
static double kept(const struct connection *c, size_t at) {
    const size_t n = at / c->C;
    struct weights w;
    double sum = 0;
    weights_of(c, kept_of(c, n), &w);
    for (size_t i = 0; i < S; i++)
        for (size_t j = 0; j < S; j++)
            sum += (double)w.alpha[i][j + 1] * (double)stream(c, n, i)[at % c->C];
    return (double)c->a * sum;
}

static const struct connection_functions hyper = {.attach = attach,
                                                  .prepare = prepare,
                                                  .read = read,
                                                  .read_backward = read_backward,
                                                  .write = write,
                                                  .write_backward = write_backward,
                                                  .kept = kept};

const struct connection_kind connection_hyper = {
    .name = "hyper",
    .formula =
        "4 streams H_j; u = sum_i alpha_i0 H_i, new H_j = a sum_i alpha_ij H_i + beta_j b f, alpha "
        "and beta are learned functions of the token; sum_j H_j before the head",
    .source = "Zhu et al. 2024, dynamic hyper-connections (arXiv:2409.19606)",
    .streams = true,
    .without_post = true,
    .functions = &hyper,
    .own = &hyper,
};

const struct connection_kind connection_hyper_static = {
    .name = "hyper-static",
    .formula = "hyper with alpha and beta that are the same for all tokens",
    .source = "Zhu et al. 2024, static hyper-connections (arXiv:2409.19606)",
    .streams = true,
    .without_post = true,
    .functions = &hyper,
};
