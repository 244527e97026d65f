/* The whole program once, in plain C: a Transformer of characters, its gradient, and AdamW.

     build/plain [--norm=none|ln|rms|bn] [--placement=post] [--max-iters=N] CORPUS

   trains as ./train does with these options, from the same weights on the same batches, and prints
   the same losses, but slowly: every sum is the loop that its formula says, whereas model/ uses
   threads and vectors. Read it from the top: each derivative stands below its function.

   It includes texts and random numbers from data/, but nothing of model/. So the two programs check
   each other: in double they agree to ten digits (tests/model/test_plain.c).

   The gradient of the loss by x is dx. Gradients of weights are summed (+=), since every token
   contributes to them; those of other values are written (=). */
#include "data/die.h"
#include "data/random.h"
#include "data/text/corpus.h"
#include <stdio.h>
#include <string.h>
#include <tgmath.h> // sqrt(x), exp(x), ... in float or in double, as x is

#ifndef REAL
#    define REAL float
#endif
typedef REAL real;

enum { L = 4, NH = 4 };                    // layers, attention heads
static size_t B = 12, T = 64, N = 12 * 64; // sequences of T characters; N = B T tokens
static size_t C = 128, V;                  // channels, different characters
static enum { NONE, LN, RMS, BN } norm_kind = LN;
static enum { PRE, POST } placement;
static bool training = true;

/* What is learned. BatchNorm's running statistics are weights whose gradient stays 0. */
struct weights {
    char name[64]; // as in PyTorch's GPT-2
    size_t size;
    bool is_matrix;
    real *w, *dw;
    real *mean, *square; // of recent gradients: AdamW's m and v
};
static struct weights tensors[16 * L + 6];
static size_t count; // of these

/* ---- a linear layer:   y_o = b_o + sum_i W_oi x_i ---- */

struct linear {
    size_t in, out;
    struct weights *W, *b; // (out,in), (out); the head has no b
};

static real dot(size_t size, const real *a, const real *b) {
    real sum = 0;
    for (size_t i = 0; i < size; i++) sum += a[i] * b[i];
    return sum;
}

static void linear(const struct linear *f, real *y, const real *x) {
    for (size_t n = 0; n < N; n++, x += f->in, y += f->out)
        for (size_t o = 0; o < f->out; o++)
            y[o] = (f->b ? f->b->w[o] : 0) + dot(f->in, f->W->w + o * f->in, x);
}

static void linear_derivative(const struct linear *f, real *dx, const real *dy, const real *x) {
    memset(dx, 0, N * f->in * sizeof *dx);
    for (size_t n = 0; n < N; n++, x += f->in, dx += f->in, dy += f->out)
        for (size_t o = 0; o < f->out; o++) {
            if (f->b) f->b->dw[o] += dy[o];
            for (size_t i = 0; i < f->in; i++) {
                dx[i] += f->W->w[o * f->in + i] * dy[o];
                f->W->dw[o * f->in + i] += x[i] * dy[o];
            }
        }
}

/* ---- a norm:   y = gamma xhat + beta,   xhat = (x - mean) / sigma,   sigma^2 = var + 1e-5 ----

   LayerNorm and BatchNorm have one formula. They differ in the group of numbers whose mean and
   variance they take:

                      [ .  .  .  . ]                 [ .  #  .  . ]
         N tokens     [ #  #  #  # ]                 [ .  #  .  . ]
                      [ .  .  .  . ]                 [ .  #  .  . ]
                       C channels
                   LayerNorm: a token's           BatchNorm: a channel's

   RMSNorm is LayerNorm with a mean of 0 and no beta. BatchNorm also follows mean and variance from
   batch to batch in training, and takes these running statistics in evaluation. */

struct norm {
    int kind;
    size_t groups, size;                                       // size: numbers in a group
    struct weights *gamma, *beta, *running_mean, *running_var; // (C), those that the kind has
    real *xhat, *sigma;                                        // (N,C), (groups)
};

/* Where number i of group k is in x (N,C). */
static size_t place(const struct norm *f, size_t k, size_t i) {
    return f->kind == BN ? i * C + k : k * C + i;
}

static void norm(const struct norm *f, real *y, const real *x) {
    if (f->kind == NONE) memcpy(y, x, N * C * sizeof *y);
    for (size_t k = 0; k < f->groups; k++) {
        real mean = 0, var = 0, size = (real)f->size;
        for (size_t i = 0; i < f->size; i++) mean += x[place(f, k, i)] / size;
        if (f->kind == RMS) mean = 0;
        for (size_t i = 0; i < f->size; i++) var += pow(x[place(f, k, i)] - mean, (real)2) / size;
        if (f->kind == BN) {
            real *m = &f->running_mean->w[k], *v = &f->running_var->w[k]; // v is unbiased
            if (training) *m += (real)0.1 * (mean - *m);
            if (training) *v += (real)0.1 * (var * size / (size - 1) - *v);
            if (!training) mean = *m, var = *v;
        }
        f->sigma[k] = sqrt(var + (real)1e-5);
        for (size_t i = 0; i < f->size; i++) {
            const size_t offset = place(f, k, i), c = offset % C;
            f->xhat[offset] = (x[offset] - mean) / f->sigma[k];
            y[offset] = f->gamma->w[c] * f->xhat[offset] + (f->beta ? f->beta->w[c] : 0);
        }
    }
}

/* With g = gamma dy:   dx = (g - mean(g) - xhat mean(g xhat)) / sigma. These means are the group's,
   since each of its numbers moves its mean and its variance. RMSNorm has no mean to move. */
static void norm_derivative(const struct norm *f, real *dx, const real *dy) {
    if (f->kind == NONE) memcpy(dx, dy, N * C * sizeof *dx);
    for (size_t k = 0; k < f->groups; k++) {
        real mean_g = 0, mean_g_xhat = 0;
        for (size_t i = 0; i < f->size; i++) {
            const size_t offset = place(f, k, i), c = offset % C;
            f->gamma->dw[c] += dy[offset] * f->xhat[offset];
            if (f->beta) f->beta->dw[c] += dy[offset];
            dx[offset] = f->gamma->w[c] * dy[offset]; // g for now
            if (f->kind != RMS) mean_g += dx[offset] / (real)f->size;
            mean_g_xhat += dx[offset] * f->xhat[offset] / (real)f->size;
        }
        for (size_t i = 0; i < f->size; i++) {
            const size_t offset = place(f, k, i);
            dx[offset] = (dx[offset] - mean_g - f->xhat[offset] * mean_g_xhat) / f->sigma[k];
        }
    }
}

/* ---- half a layer:   y = after(x + last(inner(first(before(x))))) ----

   Attention, with H = C and E = 3C, or the MLP, with H = E = 4C. */

struct branch {
    bool is_attention;
    struct norm before, after; // Pre-LN has the first, Post-LN the second
    struct linear first, last;
    real *expanded;         // (N,E) queries, keys and values; or what GELU reads
    real *attention;        // (B,NH,T,T) how much a token attends to another
    real *inner;            // (N,H) what attention finds; or GELU
    real *normed, *sum, *y; // (N,C) before(x), x + last(inner), after(sum)
};

static real *dy, *dsum, *dinner, *dexpanded, *dnormed; // gradients in the current half

/* ---- attention:   P_i = softmax of q_i k_j / sqrt(HS) over j <= i,   y_i = sum_j P_ij v_j ----

   for each of the NH heads of a sequence, which has HS = C / NH channels. A row of `expanded` is q
   (C), k (C), v (C), in which the heads stand side by side. model/ subtracts the largest score from
   all before exp(), which changes no softmax, so that exp() cannot overflow. */

static void attend(const struct branch *s) {
    const size_t HS = C / NH, row = 3 * C;
    memset(s->inner, 0, N * C * sizeof(real));
    for (size_t n = 0; n < N * NH; n++) { // token i of head h of sequence b
        const size_t i = n % T, h = n / T % NH, b = n / T / NH;
        const real *q = s->expanded + b * T * row + h * HS, *k = q + C, *v = k + C;
        real *P = s->attention + n * T, *y = s->inner + (b * T + i) * C + h * HS, sum = 0;
        for (size_t j = 0; j <= i; j++)
            sum += P[j] = exp(dot(HS, q + i * row, k + j * row) / sqrt((real)HS));
        for (size_t j = 0; j <= i; j++) {
            P[j] /= sum;
            for (size_t c = 0; c < HS; c++) y[c] += P[j] * v[j * row + c];
        }
    }
}

/* With scores S and dP_ij = dy_i v_j:   dS_ij = P_ij (dP_ij - sum_j P_ij dP_ij), and this sum is
   dy_i sum_j P_ij v_j = dy_i y_i. */
static void attend_derivative(const struct branch *s) {
    const size_t HS = C / NH, row = 3 * C;
    memset(dexpanded, 0, N * row * sizeof(real));
    for (size_t n = 0; n < N * NH; n++) {
        const size_t i = n % T, h = n / T % NH, b = n / T / NH;
        const size_t head = b * T * row + h * HS, out = (b * T + i) * C + h * HS;
        const real *q = s->expanded + head, *k = q + C, *v = k + C, *d = dinner + out;
        const real *P = s->attention + n * T, sum = dot(HS, d, s->inner + out);
        real *dq = dexpanded + head, *dk = dq + C, *dv = dk + C;
        for (size_t j = 0; j <= i; j++) {
            const real dS = P[j] * (dot(HS, d, v + j * row) - sum) / sqrt((real)HS);
            for (size_t c = 0; c < HS; c++) {
                dq[i * row + c] += dS * k[j * row + c];
                dk[j * row + c] += dS * q[i * row + c];
                dv[j * row + c] += P[j] * d[c];
            }
        }
    }
}

/* ---- GELU:   y = x Phi(x), Phi the normal distribution,   y' = Phi(x) + x Phi'(x) ---- */

static real gelu(real x) {
    return x * (1 + erf(x / sqrt((real)2))) / 2;
}

static real gelu_derivative(real x) {
    return (1 + erf(x / sqrt((real)2))) / 2 + x * exp(-x * x / 2) / sqrt((real)6.283185307179586);
}

static void branch_forward(struct branch *s, const real *x) {
    norm(&s->before, s->normed, x);
    linear(&s->first, s->expanded, s->normed);
    if (s->is_attention) attend(s);
    for (size_t i = 0; !s->is_attention && i < N * 4 * C; i++) s->inner[i] = gelu(s->expanded[i]);
    linear(&s->last, s->sum, s->inner);
    for (size_t i = 0; i < N * C; i++) s->sum[i] += x[i];
    norm(&s->after, s->y, s->sum);
}

static void branch_backward(const struct branch *s) {
    norm_derivative(&s->after, dsum, dy);
    linear_derivative(&s->last, dinner, dsum, s->inner);
    if (s->is_attention) attend_derivative(s);
    for (size_t i = 0; !s->is_attention && i < N * 4 * C; i++)
        dexpanded[i] = dinner[i] * gelu_derivative(s->expanded[i]);
    linear_derivative(&s->first, dnormed, dexpanded, s->normed);
    norm_derivative(&s->before, dy, dnormed);
    for (size_t i = 0; i < N * C; i++) dy[i] += dsum[i]; // now dx, the dy of the half before
}

/* ---- the model: from characters to losses -ln softmax(logits)[target], and back ---- */

static struct weights *wte, *wpe;         // (V,C) embeddings of characters, (T,C) of positions
static struct branch branches[2 * L];     // attention and MLP in turn
static struct norm final;                 // in Pre-LN
static struct linear head;                // its W is wte
static real *embedded, *head_in, *logits; // (N,C), (N,C), (N,V); the last becomes its gradient

/* Returns the sum of the losses. A target of -1 is none. */
static double forward(const struct batch *batch) {
    const real *x = embedded;
    double losses = 0;
    for (size_t i = 0; i < N * C; i++)
        embedded[i] = wte->w[(size_t)batch->ids[i / C] * C + i % C] + wpe->w[i % (T * C)];
    for (size_t i = 0; i < 2 * L; x = branches[i++].y) branch_forward(&branches[i], x);
    norm(&final, head_in, x);
    linear(&head, logits, head_in);
    for (size_t n = 0; n < N; n++) {
        real *z = logits + n * V, sum = 0;
        const int32_t target = batch->targets[n];
        for (size_t v = 0; v < V; v++) sum += exp(z[v]);
        if (target >= 0) losses += (double)(log(sum) - z[target]);
        for (size_t v = 0; v < V; v++) // the gradient of the mean of N losses
            z[v] = (exp(z[v]) / sum - (real)((int32_t)v == target)) / (real)N;
    }
    return losses;
}

static void backward(const struct batch *batch) {
    for (size_t k = 0; k < count; k++) memset(tensors[k].dw, 0, tensors[k].size * sizeof(real));
    linear_derivative(&head, dnormed, logits, head_in);
    norm_derivative(&final, dy, dnormed);
    for (size_t i = 2 * L; i-- > 0;) branch_backward(&branches[i]);
    for (size_t i = 0; i < N * C; i++) {
        wte->dw[(size_t)batch->ids[i / C] * C + i % C] += dy[i];
        wpe->dw[i % (T * C)] += dy[i];
    }
}

/* ---- AdamW ---- */

/* The learning rate rises over 100 updates, then falls along a cosine to a tenth. */
static double learning_rate(long update, long updates) {
    if (update < 100) return 1e-3 * (double)(update + 1) / 101;
    const double x = (double)(update - 100) / (double)(updates - 100);
    return 1e-4 + 9e-4 * (1 + cos(3.141592653589793 * x)) / 2;
}

/* Update t = 1, 2, ... A gradient whose length, of all weights together, is above 1 is shortened to
   1. Then for each weight w with the gradient g, and with weight decay for matrices only:

     mean = 0.9 mean + 0.1 g,   square = 0.99 square + 0.01 g^2
     w -= rate (mean / (1 - 0.9^t) / (sqrt(square / (1 - 0.99^t)) + 1e-8) + 0.1 w) */
static void update(long t, double rate) {
    double squares = 0;
    for (size_t k = 0; k < count; k++)
        squares += (double)dot(tensors[k].size, tensors[k].dw, tensors[k].dw);
    const real shorter = (real)fmin(1, 1 / (sqrt(squares) + 1e-6));
    for (struct weights *a = tensors; a < tensors + count; a++)
        for (size_t i = 0; i < a->size; i++) {
            const real g = a->dw[i] * shorter, decay = a->is_matrix ? (real)0.1 * a->w[i] : 0;
            a->mean[i] = (real)0.9 * a->mean[i] + (real)0.1 * g;
            a->square[i] = (real)0.99 * a->square[i] + (real)0.01 * g * g;
            const real mean = a->mean[i] / (real)(1 - pow(0.9, (double)t));
            const real square = a->square[i] / (real)(1 - pow(0.99, (double)t));
            a->w[i] -= (real)rate * (mean / (sqrt(square) + (real)1e-8) + decay);
        }
}

/* ---- memory and initial weights ---- */

static real *reals(size_t size) { // zeros, until the program ends
    return memory_take(size, sizeof(real), "the model");
}

/* Initially normal(mean, deviation): each name has random numbers of its own. */
static struct weights *make_weights(const char *module, const char *name, size_t rows,
                                    size_t columns, double mean, double deviation) {
    struct weights *a = &tensors[count++];
    *a = (struct weights){.size = rows * columns, .is_matrix = columns > 1};
    snprintf(a->name, sizeof a->name, "transformer.%s.%s", module, name);
    a->w = reals(a->size);
    for (size_t i = 0; i < a->size; i++)
        a->w[i] = (real)(mean + deviation * random_normal(random_key(1, a->name, 0), i));
    a->dw = reals(a->size), a->mean = reals(a->size), a->square = reals(a->size);
    return a;
}

static struct norm make_norm(bool wanted, const char *module) {
    struct norm f = {.kind = wanted ? norm_kind : NONE};
    if (f.kind == NONE) return f;
    f.groups = f.kind == BN ? C : N, f.size = N * C / f.groups;
    f.xhat = reals(N * C), f.sigma = reals(f.groups);
    f.gamma = make_weights(module, "weight", C, 1, 1, 0);
    if (f.kind != RMS) f.beta = make_weights(module, "bias", C, 1, 0, 0);
    if (f.kind == BN) f.running_mean = make_weights(module, "running_mean", C, 1, 0, 0);
    if (f.kind == BN) f.running_var = make_weights(module, "running_var", C, 1, 1, 0);
    return f;
}

static struct linear make_linear(const char *module, size_t in, size_t out, double deviation) {
    struct weights *W = make_weights(module, "weight", out, in, 0, deviation);
    return (struct linear){in, out, W, make_weights(module, "bias", out, 1, 0, 0)};
}

static void make_branch(struct branch *s, size_t layer, bool is_attention) {
    const size_t E = is_attention ? 3 * C : 4 * C, H = is_attention ? C : 4 * C;
    char ln[32], first[32], last[32];
    snprintf(ln, sizeof ln, "h.%zu.ln_%d", layer, is_attention ? 1 : 2);
    snprintf(first, sizeof first, "h.%zu.%s", layer, is_attention ? "attn.c_attn" : "mlp.c_fc");
    snprintf(last, sizeof last, "h.%zu.%s.c_proj", layer, is_attention ? "attn" : "mlp");
    s->is_attention = is_attention;
    s->before = make_norm(placement == PRE, ln);
    s->after = make_norm(placement == POST, ln);
    s->first = make_linear(first, C, E, 0.02);
    s->last = make_linear(last, H, C, 0.02 / sqrt(2.0 * L));
    s->normed = reals(N * C), s->expanded = reals(N * E), s->attention = reals(N * NH * T);
    s->inner = reals(N * H), s->sum = reals(N * C), s->y = reals(N * C);
}

static void make_model(void) {
    count = 0;
    wte = make_weights("wte", "weight", V, C, 0, 0.02);
    wpe = make_weights("wpe", "weight", T, C, 0, 0.02);
    for (size_t i = 0; i < 2 * L; i++) make_branch(&branches[i], i / 2, i % 2 == 0);
    final = make_norm(placement == PRE, "ln_f");
    head = (struct linear){C, V, wte, NULL};
    embedded = reals(N * C), head_in = reals(N * C), logits = reals(N * V);
    dy = reals(N * C), dsum = reals(N * C), dnormed = reals(N * C);
    dinner = reals(N * 4 * C), dexpanded = reals(N * 4 * C);
}

int main(int argc, char **argv) {
    static const char *const norms[] = {"--norm=none", "--norm=ln", "--norm=rms", "--norm=bn"};
    struct corpus corpus;
    long updates = 2000;
    for (int i = 1; i < argc - 1; i++) {
        bool known = sscanf(argv[i], "--max-iters=%ld", &updates) == 1;
        for (int k = NONE; k <= BN; k++)
            if (!strcmp(argv[i], norms[k])) norm_kind = k, known = true;
        if (!strcmp(argv[i], "--placement=post")) placement = POST, known = true;
        if (!known) die(STATUS_USAGE, "%s: is no option of tests/plain.c (see its head)", argv[i]);
    }
    if (argc < 2) die(STATUS_USAGE, "no CORPUS (its options are in the head of tests/plain.c)");
    corpus_read(&corpus, argv[argc - 1], &(struct corpus_options){.val_fraction = 0.1});
    corpus_check(&corpus, T);
    struct batch batch = batch_make(B, T);
    V = corpus.vocabulary.V;
    make_model();
    for (long t = 0; t < updates; t++) {
        corpus_sample(&corpus, 1, (uint64_t)t, &batch);
        printf("update %4ld  train loss %.4f\n", t, forward(&batch) / (double)N);
        backward(&batch);
        update(t + 1, learning_rate(t, updates));
    }
    double losses = 0, targets = 0;
    training = false;
    for (size_t i = 0; i < corpus_blocks(&corpus, CORPUS_VALIDATION, T); i += B) {
        memset(batch.targets, -1, N * sizeof *batch.targets); // the last batch may not be full
        corpus_validation(&corpus, i, B, &batch);
        losses += forward(&batch);
        targets += (double)batch_targets(&batch);
    }
    printf("val loss %.4f\n", losses / targets);
    return STATUS_OK;
}
