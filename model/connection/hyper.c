/* Hyper-connections: S streams H_1 .. H_S, all x before the first sub-layer.

     u = sum_i alpha_i0 H_i
     H'_j = a sum_i alpha_ij H_i + beta_j b drop(f)       j = 1 .. S
     sum = sum_j H'_j, which is what the head reads

   The weights depend on the token. With learned p, s and W, for k = 0 .. S, and S + 1 of beta:

     w_ik = start_ik + p_ik + s z_ik

     kind  | z_ik                                      | weights
     ------+-------------------------------------------+-------------------------------------------
     hyper | tanh(sum_c xhat_i W_k)                    | alpha_ik = w_ik, beta_i = w_i,S+1
           | xhat_i = (H_i - mean_c H_i) rstd_i        |
     mhc   | sum_jc xhat_j W_ikj                       | alpha_i0 = sigmoid w_i0
           | xhat_j = H_j rstd, rstd of all streams    | alpha_ij = M_ij, beta_i = 2 sigmoid w_i,S+1

   In `hyper-static` z is 0. M is the matrix that sinkhorn.h makes of exp(w_ij): nearly doubly
   stochastic, so no stream is amplified.

   p and W are initially 0. beta starts as 1, alpha_ij as the identity (in mhc nearly), and alpha_i0
   as 1 (in mhc 1/2) for one stream, another one in each sub-layer. The others have 0, in mhc equal
   shares of 1/2. So u is initially the same as with one stream.

   Backward, with dH' from the sub-layer above:
     df = drop(b sum_j beta_j dH'_j),  dbeta_j = sum_c b drop(f) dH'_j
     dalpha_i0 = sum_c H_i du,  dalpha_ij = a sum_c H_i dH'_j
     dw_ik: that of the weight, in mhc times sigmoid', or by sinkhorn.h
     dz_ik = s dw_ik, in hyper times 1 - tanh^2
     dxhat_i = sum_k dz_ik W_k, or dxhat_j = sum_ik dz_ik W_ikj
     dH_i = alpha_i0 du + a sum_j alpha_ij dH'_j
            + rstd (dxhat_i - mean dxhat_i - xhat_i mean(dxhat xhat))
   where the first mean is sum_k dz_ik mean_c(W_k), and none in mhc; the second one is the sum of dz
   times z before tanh, divided by C, or by S C. dx = sum_i dH_i.

   hyper: Zhu et al. 2024 (arXiv:2409.19606), equations 1 to 14 and algorithm 2. p is what the
   weights differ from their first values, and no weight decay pulls at it, as in the paper; there
   is one matrix W for both alpha and beta. --init alone decides initial weights: the paper's
   sqrt(S) times larger ones of output projections are not here.

   mhc: Xie et al. 2025 (arXiv:2512.24880), equations 7 to 9; alpha_ij is H_res[j][i], and the gain
   of the RMSNorm is in W. The paper does not say how p starts. Public ports differ: without W, with
   a softmax for alpha_i0 and beta, or with the divisions in the opposite order. */
#include "model/connection/connection.h"
#include "model/connection/sinkhorn.h"
#include "model/math/reduce.h"
#include "model/math/vecmath.h"

enum { S = SINKHORN_N, BETAS = S + 1, K = S + 2 };
enum { ALPHA, BETA, SCALE, W }; // parameters: p of alpha (S,S+1) and beta (S), s, W (rows,joined,C)
enum { H, DH, SAVED, MEAN_W };  // buffers: (B,T,S,C) twice, DH of all sub-layers, (B,T), (rows)
static const real eps = (real)1e-5;

/* How a kind makes z and the weights: its `data`. */
struct weighting {
    size_t vectors, joined; // normalized vectors xhat of a token, and the streams in each
    size_t rows;            // of W, by which each vector is multiplied
    bool constrained;       // as in mhc
};

/* Values that forward keeps for each token, and backward between its two halves. */
struct kept_token {
    real mean[S], rstd[S], product[S * K], z[S * K]; // product is z before tanh
    real w[S][K], weight[S][K], dbeta[S];
};

enum { KEPT = sizeof(struct kept_token) / sizeof(real) };

static struct kept_token *kept_of(const struct connection *c, size_t n) {
    return (struct kept_token *)(c->buffer[SAVED] + n * KEPT);
}

static void attach(struct connection *c, const struct layout *layout) {
    static const char *const names[][4] = {
        {"hc_1.alpha", "hc_1.beta", "hc_1.scale", "hc_1.weight"},
        {"hc_2.alpha", "hc_2.beta", "hc_2.scale", "hc_2.weight"}};
    const char *const *name = names[c->site % 2];
    const struct weighting *of = c->kind->data;
    const size_t N = layout->B * layout->T, C = c->C;
    c->buffer[DH] = c->previous ? c->previous->buffer[DH] : arena_reals(layout->arena, N * S * C);
    if (c->end) return; // it reads `sum`
    connection_param(c, ALPHA, name[0], S * BETAS, 0, 0, layout);
    connection_param(c, BETA, name[1], S, 0, 0, layout);
    if (of->vectors) {
        connection_param(c, SCALE, name[2], of->constrained ? 3 : 2, 0, 0.01, layout);
        connection_param(c, W, name[3], of->rows, of->joined * C, 0, layout);
    }
    c->buffer[H] = arena_reals(layout->arena, N * S * C);
    c->buffer[SAVED] = arena_reals(layout->arena, N * KEPT);
    c->buffer[MEAN_W] = arena_reals(layout->arena, of->rows);
    c->u = arena_reals(layout->arena, N * C);
    c->keeps_f = true;
}

static void prepare(const struct connection *c) {
    const struct weighting *of = c->kind->data;
    if (c->end || of->constrained || omp_get_thread_num()) return;
    for (size_t k = 0; k < of->rows; k++)
        c->buffer[MEAN_W][k] = row_sum(c->C, c->param[W].value + k * c->C) / (real)c->C;
}

/* Stream i of token n, (C). */
static const real *stream(const struct connection *c, size_t n, size_t i) {
    return c->previous ? c->previous->buffer[H] + (n * S + i) * c->C : c->x + n * c->C;
}

/* mean, rstd, product and z of token n. */
static void measure(const struct connection *c, size_t n, struct kept_token *t) {
    const struct weighting *of = c->kind->data;
    const size_t C = c->C, joined = of->joined;
    memset(t->product, 0, sizeof t->product);
    for (size_t v = 0; v < of->vectors; v++) {
        real squares = 0, *product = t->product + v * of->rows;
        t->mean[v] = of->constrained ? 0 : row_sum(C, stream(c, n, v)) / (real)C;
        for (size_t i = 0; i < joined; i++) {
            const real *h = stream(c, n, v * joined + i), *row = c->param[W].value + i * C;
            squares += row_squares_about(C, h, t->mean[v]);
            for (size_t k = 0; k < of->rows; k++, row += joined * C)
                product[k] += row_dot_about(C, row, h, t->mean[v]);
        }
        t->rstd[v] = 1 / sqrt_real(squares / (real)(joined * C) + eps);
        for (size_t k = 0; k < of->rows; k++) product[k] *= t->rstd[v];
    }
#pragma omp simd
    for (size_t k = 0; k < S * K; k++)
        t->z[k] = of->constrained ? t->product[k] : tanh_real(t->product[k]);
}

static real start_of(const struct connection *c, size_t i, size_t k) {
    const struct weighting *of = c->kind->data;
    const bool identity = k == BETAS || (k ? k == i + 1 : i == c->site % S);
    const real small = k ? -4 : -(real)log(2 * S - 3); // M_ii is 0.95, a sigmoid 1 / (2 (S - 1))
    return of->constrained ? (identity ? 0 : small) : identity;
}

/* p_ik, or its gradient, and the number of s_ik. */
static real *p_at(real *alpha, real *beta, size_t i, size_t k) {
    return k == BETAS ? beta + i : alpha + i * BETAS + k;
}

static size_t scale_at(const struct weighting *of, size_t k) {
    return k == BETAS ? 1 : of->constrained && k ? 2 : 0;
}

/* The weights of mhc from w; the gradients of w from those of the weights, in place. */
static void constrain(struct kept_token *t) {
    struct sinkhorn s;
    sinkhorn_forward(&s, &t->w[0][1], K);
    for (size_t i = 0; i < S; i++) {
        t->weight[i][0] = sigmoid_real(t->w[i][0]);
        memcpy(&t->weight[i][1], s.M[SINKHORN_STEPS][i], S * sizeof(real));
        t->weight[i][BETAS] = 2 * sigmoid_real(t->w[i][BETAS]);
    }
}

static void constrain_backward(struct kept_token *t, real d[S][K]) {
    struct sinkhorn s;
    sinkhorn_forward(&s, &t->w[0][1], K);
    sinkhorn_backward(&s, &d[0][1], K);
    for (size_t i = 0; i < S; i++) {
        d[i][0] *= t->weight[i][0] * (1 - t->weight[i][0]);
        d[i][BETAS] *= t->weight[i][BETAS] * (1 - t->weight[i][BETAS] / 2);
    }
}

/* w and the weights, from z. */
static void weigh(const struct connection *c, struct kept_token *t) {
    const struct weighting *of = c->kind->data;
    for (size_t i = 0; i < S; i++)
        for (size_t k = 0; k < K; k++) {
            real w = *p_at(c->param[ALPHA].value, c->param[BETA].value, i, k) + start_of(c, i, k);
            if (of->vectors) w += c->param[SCALE].value[scale_at(of, k)] * t->z[i * K + k];
            t->w[i][k] = t->weight[i][k] = w;
        }
    if (of->constrained) constrain(t);
}

/* The gradients of w become those of z, and are added to the block's sums of p and s. */
static void w_backward(const struct connection *c, size_t n, real d[S][K]) {
    const struct weighting *of = c->kind->data;
    const struct kept_token *t = kept_of(c, n);
    real *alpha = param_sums(&c->param[ALPHA], n), *beta = param_sums(&c->param[BETA], n);
    for (size_t i = 0; i < S; i++)
        for (size_t k = 0; k < K; k++) {
            *p_at(alpha, beta, i, k) += d[i][k];
            if (!of->vectors) continue;
            const size_t position = scale_at(of, k);
            const real z = t->z[i * K + k];
            param_sums(&c->param[SCALE], n)[position] += d[i][k] * z;
            d[i][k] *= c->param[SCALE].value[position] * (of->constrained ? 1 : 1 - z * z);
        }
}

/* Stream i: dH_i (C) += its part that comes through xhat, and W's gradient, from dz (rows). */
static void xhat_backward(const struct connection *c, size_t n, size_t i, const real *dz,
                          real *dh) {
    const struct weighting *of = c->kind->data;
    const struct kept_token *t = kept_of(c, n);
    const size_t C = c->C, v = i / of->joined;
    const real mean = t->mean[v], rstd = t->rstd[v], *product = t->product + v * of->rows;
    const real *h = stream(c, n, i);
    real centre = 0, along = 0;
    for (size_t k = 0; k < of->rows; k++) {
        centre += dz[k] * c->buffer[MEAN_W][k];
        along += dz[k] * product[k] / (real)(of->joined * C);
    }
    for (size_t k = 0; k < of->rows; k++) {
        const size_t offset = (k * of->joined + i % of->joined) * C;
        const real *row = c->param[W].value + offset, factor = rstd * dz[k];
        real *dW = param_sums(&c->param[W], n) + offset;
#pragma omp simd
        for (size_t l = 0; l < C; l++) {
            dW[l] = mul_add(factor, h[l] - mean, dW[l]);
            dh[l] = mul_add(factor, row[l], dh[l]);
        }
    }
#pragma omp simd
    for (size_t l = 0; l < C; l++) dh[l] -= rstd * mul_add((h[l] - mean) * rstd, along, centre);
}

/* u, and what is kept of the tokens. */
static void hyper_read(const struct connection *c, const struct tokens *tokens, struct range rows) {
    const size_t C = c->C;
    for (size_t n = rows.begin; n < rows.end && !c->end; n++) {
        struct kept_token *t = kept_of(c, n);
        real *u = c->u + n * C;
        measure(c, n, t);
        weigh(c, t);
        memset(u, 0, C * sizeof(real));
        for (size_t i = 0; i < S; i++) {
            const real *h = stream(c, n, i), alpha = t->weight[i][0];
            row_add(C, u, alpha, h);
        }
    }
    profile_lap(PROFILE_ELEMENTWISE);
}

/* H' and sum */
static void hyper_write(const struct connection *c, struct range rows, const real *f,
                        struct dropout drop) {
    const size_t C = c->C;
    for (size_t n = rows.begin; n < rows.end; n++, f += C) {
        const struct kept_token *t = kept_of(c, n);
        real *sum = c->sum + n * C, *to = c->buffer[H] + n * S * C;
        memset(sum, 0, C * sizeof(real));
        for (size_t j = 0; j < S; j++, to += C) {
            const real beta = t->weight[j][BETAS] * c->b;
#pragma omp simd
            for (size_t l = 0; l < C; l++) to[l] = beta * (f[l] * dropout_factor(drop, n * C + l));
            for (size_t i = 0; i < S; i++) {
                const real *h = stream(c, n, i), alpha = t->weight[i][j + 1] * c->a;
                row_add(C, to, alpha, h);
            }
            row_add(C, sum, 1, to);
        }
    }
    profile_lap(PROFILE_ELEMENTWISE);
}

/* df and dbeta. dsum is not needed: the end has made dH' of it. */
static void hyper_write_backward(const struct connection *c, struct range rows, real *df,
                                 const real *dsum, struct dropout drop) {
    const size_t C = c->C;
    for (size_t n = rows.begin; n < rows.end; n++, df += C) {
        struct kept_token *t = kept_of(c, n);
        const real *dto = c->buffer[DH] + n * S * C;
        const struct range elements = {n * C, (n + 1) * C};
        dropout_axpby(elements, df, 0, NULL, 1, c->f + elements.begin, drop);
        for (size_t j = 0; j < S; j++) t->dbeta[j] = c->b * row_dot(C, df, dto + j * C);
        memset(df, 0, C * sizeof(real));
        for (size_t j = 0; j < S; j++) {
            const real beta = t->weight[j][BETAS] * c->b;
            row_add(C, df, beta, dto + j * C);
        }
        if (drop.threshold) dropout_axpby(elements, df, 0, NULL, 1, df, drop);
    }
    profile_lap(PROFILE_ELEMENTWISE);
}

/* dH_i = alpha_i0 du + a sum_j alpha_ij dH'_j, in place of dH' (S,C), and their sum in dx. */
static void streams_backward(const struct connection *c, const struct kept_token *t, real *dto,
                             const real *du) {
    const size_t C = c->C;
    real weight[S][K]; // a copy that no store below can change
    memcpy(weight, t->weight, sizeof weight);
#pragma omp simd
    for (size_t l = 0; l < C; l++) {
        real to[S];
        for (size_t j = 0; j < S; j++) to[j] = c->a * dto[j * C + l];
        for (size_t i = 0; i < S; i++) {
            real d = weight[i][0] * du[l];
            for (size_t j = 0; j < S; j++) d = mul_add(weight[i][j + 1], to[j], d);
            dto[i * C + l] = d;
        }
    }
}

static void token_backward(const struct connection *c, size_t n, real *dx, const real *du) {
    const size_t C = c->C;
    const struct weighting *of = c->kind->data;
    struct kept_token *t = kept_of(c, n);
    real *dto = c->buffer[DH] + n * S * C, d[S][K];
    for (size_t i = 0; i < S; i++) {
        const real *h = stream(c, n, i);
        d[i][0] = row_dot(C, h, du);
        for (size_t j = 0; j < S; j++) d[i][j + 1] = c->a * row_dot(C, h, dto + j * C);
        d[i][BETAS] = t->dbeta[i];
    }
    if (of->constrained) constrain_backward(t, d);
    w_backward(c, n, d);
    streams_backward(c, t, dto, du);
    for (size_t i = 0; i < of->vectors * of->joined; i++)
        xhat_backward(c, n, i, d[0] + i / of->joined * of->rows, dto + i * C);
    memset(dx, 0, C * sizeof(real));
    for (size_t i = 0; i < S; i++) row_add(C, dx, 1, dto + i * C);
}

/* At the end, dH'_j = du of the sum of all streams. */
static void hyper_read_backward(const struct connection *c, const struct tokens *tokens,
                                struct range rows, real *dx, const real *dsum, const real *du,
                                real *scratch) {
    const size_t C = c->C;
    for (size_t n = rows.begin; n < rows.end; n++, dx += C, du += C) {
        for (size_t j = 0; c->end && j < S; j++)
            memcpy(c->buffer[DH] + (n * S + j) * C, du, C * sizeof(real));
        if (c->end) continue;
        for (size_t i = 0; n % ROWS == 0 && i <= W && c->param[i].size; i++)
            memset(param_sums(&c->param[i], n), 0, c->param[i].size * sizeof(real));
        token_backward(c, n, dx, du);
    }
    profile_lap(PROFILE_ELEMENTWISE);
}

/* a sum_j sum_i alpha_ij H_i */
static double kept(const struct connection *c, size_t element) {
    const size_t n = element / c->C;
    const struct kept_token *t = kept_of(c, n);
    double sum = 0;
    for (size_t i = 0; i < S; i++)
        for (size_t j = 0; j < S; j++)
            sum += (double)t->weight[i][j + 1] * (double)stream(c, n, i)[element % c->C];
    return (double)c->a * sum;
}

static const struct connection_functions hyper = {.attach = attach,
                                                  .prepare = prepare,
                                                  .read = hyper_read,
                                                  .read_backward = hyper_read_backward,
                                                  .write = hyper_write,
                                                  .write_backward = hyper_write_backward,
                                                  .writes_df = true,
                                                  .kept = kept};

const struct connection_kind connection_hyper = {
    .name = "hyper",
    .formula = "4 streams H_j; u = sum_i alpha_i0 H_i, new H_j = a sum_i alpha_ij H_i + beta_j b "
               "f, alpha and beta are learned functions of the token; the head reads sum_j H_j",
    .source = "Zhu et al. 2024, dynamic hyper-connections (arXiv:2409.19606)",
    .streams = true,
    .without_post = true,
    .functions = &hyper,
    .data = &(const struct weighting){.vectors = S, .joined = 1, .rows = K},
};

const struct connection_kind connection_hyper_static = {
    .name = "hyper-static",
    .formula = "as hyper, but alpha and beta are learned numbers, the same for all tokens",
    .source = "Zhu et al. 2024, static hyper-connections (arXiv:2409.19606)",
    .streams = true,
    .without_post = true,
    .functions = &hyper,
    .data = &(const struct weighting){0},
};

const struct connection_kind connection_mhc = {
    .name = "mhc",
    .formula = "as hyper, with alpha_i0 between 0 and 1, beta_j between 0 and 2, and a doubly "
               "stochastic matrix alpha_ij; they are learned functions of all streams of the token",
    .source = "Xie et al. 2025, manifold-constrained hyper-connections (arXiv:2512.24880)",
    .streams = true,
    .without_post = true,
    .functions = &hyper,
    .data =
        &(const struct weighting){.vectors = 1, .joined = S, .rows = S * K, .constrained = true},
};
