/* Attention residuals: each sub-layer, and the head, reads a mixture of the outputs of all
   sub-layers before it. v_0 is x before the first sub-layer, and v_l = sum = b drop(f) of sub-layer
   l.

     r_i = 1 / sqrt(mean_c v_i^2 + eps)
     s_i = r_i sum_c w v_i
     u = sum_i alpha_i v_i,  alpha = softmax_i(s)       i = 0 .. l - 1 in sub-layer l

   w (C) is learned, initially 0, so that u starts as the mean of all v_i.

   Backward, with d_i = sum_c du v_i:
     ds_i = alpha_i (d_i - sum_j alpha_j d_j)
     dw += ds_i r_i v_i
     dv_i += alpha_i du + ds_i r_i (w - r_i s_i v_i / C)
   dv_i is complete, and is the dx of sub-layer i + 1, when that one has added its part.

   Kimi Team 2026, Attention Residuals (arXiv:2603.15031), the full form: w is the paper's query,
   and the gain of the paper's RMSNorm is in it, as only their product matters. The factor a is not
   used: there is no x in the sum. */
#include "model/connection/connection.h"
#include "model/math/reduce.h"
#include "model/math/vecmath.h"

enum { SAVED, DX }; // (B,T) sources, and (B,T,C) the gradient of x from later sub-layers
static const real eps = (real)1e-6;

/* Values that forward keeps for each token and each v_i, i = 0 .. site. */
struct source {
    real r, s, alpha;
    real d; // backward's
};

static struct source *sources_of(const struct connection *c, size_t n) {
    return (struct source *)c->buffer[SAVED] + n * (c->site + 1);
}

static void attach(struct connection *c, const struct layout *layout) {
    const size_t N = layout->B * layout->T;
    const char *name = c->end ? "attnres" : c->site % 2 ? "attnres_2" : "attnres_1";
    connection_param(c, 0, name, c->C, 0, 0, layout);
    c->buffer[SAVED] = arena_take(layout->arena, N * (c->site + 1), sizeof(struct source));
    c->u = arena_reals(layout->arena, N * c->C);
    if (!c->end) c->buffer[DX] = arena_reals(layout->arena, N * c->C);
}

/* v_i of i = site .. 0 is the x of this connection and of those before. */

static void attnres_read(const struct connection *c, const struct tokens *tokens,
                         struct range rows) {
    const size_t C = c->C;
    const real *w = c->param[0].value;
    for (size_t n = rows.begin; n < rows.end; n++) {
        struct source *of = sources_of(c, n);
        real *u = c->u + n * C, largest = -INFINITY, sum = 0;
        for (const struct connection *node = c; node; node = node->previous) {
            const real *v = node->x + n * C;
            struct source *i = &of[node->site];
            i->r = 1 / sqrt_real(row_dot(C, v, v) / (real)C + eps);
            i->s = i->r * row_dot(C, w, v);
            if (i->s > largest) largest = i->s;
        }
        for (size_t i = 0; i <= c->site; i++)
            sum += of[i].alpha = exp_nonpositive(of[i].s - largest);
        memset(u, 0, C * sizeof(real));
        for (const struct connection *node = c; node; node = node->previous) {
            const real *v = node->x + n * C, alpha = of[node->site].alpha /= sum;
            row_add(C, u, alpha, v);
        }
    }
    profile_lap(PROFILE_ELEMENTWISE);
}

static void attnres_write(const struct connection *c, struct range rows, const real *f,
                          struct dropout drop) {
    const struct range elements = {rows.begin * c->C, rows.end * c->C};
    dropout_axpby(elements, c->sum + elements.begin, 0, NULL, c->b, f, drop);
}

/* to (C) = from + dv_i's part from this sub-layer; to may be from or du. */
static void add_part(const struct connection *c, const struct source *i, real ds, real *to,
                     const real *from, const real *du, const real *v) {
    const size_t C = c->C;
    const real *w = c->param[0].value, of_w = ds * i->r, of_v = of_w * i->r * i->s / (real)C;
#pragma omp simd
    for (size_t l = 0; l < C; l++) {
        real part = mul_add(i->alpha, du[l], of_w * w[l] - of_v * v[l]);
        to[l] = from ? from[l] + part : part;
    }
}

/* All parts of one token; those of earlier v_i go to their DX, that of x with its DX to dx. */
static void token_backward(const struct connection *c, size_t n, real *dx, const real *du) {
    const size_t C = c->C;
    struct source *of = sources_of(c, n);
    real mean = 0, *dw = param_sums(&c->param[0], n);
    for (const struct connection *node = c; node; node = node->previous) {
        struct source *i = &of[node->site];
        i->d = row_dot(C, du, node->x + n * C);
        mean = mul_add(i->alpha, i->d, mean);
    }
    for (const struct connection *node = c; node; node = node->previous) {
        const struct source *i = &of[node->site];
        const real *v = node->x + n * C, ds = i->alpha * (i->d - mean), factor = ds * i->r;
        row_add(C, dw, factor, v);
        if (node == c) continue;
        real *to = node->buffer[DX] + n * C;
        add_part(c, i, ds, to, c->end ? NULL : to, du, v);
    }
    const struct source *current = &of[c->site];
    add_part(c, current, current->alpha * (current->d - mean), dx,
             c->end ? NULL : c->buffer[DX] + n * C, du, c->x + n * C);
}

static void attnres_read_backward(const struct connection *c, const struct tokens *tokens,
                                  struct range rows, real *dx, const real *dsum, const real *du,
                                  real *scratch) {
    const size_t C = c->C;
    for (size_t n = rows.begin; n < rows.end; n++, dx += C, du += C) {
        if (n % ROWS == 0) memset(param_sums(&c->param[0], n), 0, C * sizeof(real));
        token_backward(c, n, dx, du);
    }
    profile_lap(PROFILE_ELEMENTWISE);
}

static double kept(const struct connection *c, size_t i) {
    return 0;
}

static const struct connection_functions attnres = {.attach = attach,
                                                    .read = attnres_read,
                                                    .read_backward = attnres_read_backward,
                                                    .write = attnres_write,
                                                    .write_backward = connection_branch_backward,
                                                    .kept = kept};

const struct connection_kind connection_attnres = {
    .name = "attnres",
    .formula = "u = sum_i alpha_i v_i; v_0 is the first sub-layer's x, and each earlier sub-layer "
               "adds v_i = b f; alpha is the softmax of w N(v_i), w learned, N without gamma; the "
               "head reads another such sum",
    .source = "Kimi Team 2026, Attention Residuals (arXiv:2603.15031)",
    .streams = true,
    .without_post = true,
    .functions = &attnres,
};
