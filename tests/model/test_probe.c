/* Probes against their definitions, computed directly on a small model: of streams, heads, weights,
   updates and norms (distances from the tracked statistics, terms of the gradient, penalties). */
#include "data/text/corpus.h"
#include "model/instruments/probe.h"
#include "model/norm/formula.h"
#include "model/optimizer/optimizer.h"
#include "tests/support.h"
#include <stdlib.h>
#include <string.h>

enum { B = SMALL_B, T = SMALL_T, N = B * T, ROWS_MAX = 1024 };

struct rows {
    int count;
    struct {
        int64_t step;
        int layer;
        char site[64], metric[32];
        double value;
    } row[ROWS_MAX];
};

/* Adds a row to the struct rows that is the context: a probe_row. */
static void collect(void *context, int64_t step, int layer, const char *site, const char *metric,
                    double value) {
    struct rows *rows = context;
    cr_assert(rows->count < ROWS_MAX);
    const int i = rows->count++;
    rows->row[i].step = step, rows->row[i].layer = layer, rows->row[i].value = value;
    snprintf(rows->row[i].site, sizeof rows->row[i].site, "%s", site);
    snprintf(rows->row[i].metric, sizeof rows->row[i].metric, "%s", metric);
}

/* A watched model that was trained on one batch and then probed with another. */
struct probed {
    struct model model;
    struct batch batch;
    struct rows rows;
    struct probe probe;
    real *before;  // weights before the probed update
    real *tracked; // running statistics before it
    op_observer *watch;
    real dnormed[2][N * 6], dk[N * 6]; // gradients in layer 0: after PRE of each sub-layer; of k^
    double grad_norm;
    double scale; // by which the loss was multiplied before backward
};

/* Fails unless there is one row of this layer, site and metric, and its value is `want`. */
static void expect_row(const struct probed *p, int layer, const char *site, const char *metric,
                       double want) {
    double got = NAN, tolerance = in_double() ? 1e-9 : 2e-4;
    int found = 0;
    for (int i = 0; i < p->rows.count; i++) {
        if (p->rows.row[i].layer != layer || strcmp(p->rows.row[i].site, site)) continue;
        if (strcmp(p->rows.row[i].metric, metric) != 0) continue;
        got = p->rows.row[i].value;
        found++;
    }
    cr_expect(found == 1 && fabs(got - want) <= tolerance * fabs(want) + 1e-300,
              "layer %d, %s, %s: %.12g in %d rows, not %.12g", layer, site, metric, got, found,
              want);
}

/* Keeps some gradients that it sees, and lets the probe see them. */
static void keep_gradients(void *watch, const struct op *op, const struct step *step) {
    struct probed *p = (struct probed *)((char *)watch - offsetof(struct probed, probe.watch));
    const struct layer *layer = &p->model.layer[0];
    const struct norm *pre[] = {&layer->attention.pre, &layer->mlp.pre};
    const size_t begin = step->rows.begin * p->model.C, end = step->rows.end * p->model.C;
    for (int i = 0; i < 2; i++)
        if (step->backward && op->self == pre[i])
            memcpy(p->dnormed[i] + begin, step->dy, (end - begin) * sizeof(real));
    if (step->backward && op->kind == &op_qkv_norm && op->self == &layer->attention.qkv_norm)
        qkv_norm_gather(op->self, QKV_K, step->rows, p->dk + begin, step->dy);
    p->watch(watch, op, step);
}

/* Batches of `sequences`. The logits of layer 1's attention are large, so that some heads
   saturate. */
static struct probed *probed(const struct model_config *config, size_t sequences,
                             unsigned char *valid, double scale) {
    struct probed *p = hold(sizeof *p);
    struct model_config watched = *config;
    watched.whole_batch = 1;
    p->scale = scale;
    p->model = held_model(&watched, SMALL_V, sequences, 1);
    struct tensor_list *param = &p->model.lists.param;
    struct optimizer adam = held_adamw((struct adamw_numbers){0.9, 0.99, 1e-8, 0.1, 0}, param, 1);
    const struct linear *in = &p->model.layer[1].attention.in;
    probe_init(&p->probe, &p->model, collect, &p->rows);
    hold_arena(p->probe.watch.arena);
    p->watch = p->model.observe;
    if (p->model.C == 6) p->model.observe = keep_gradients;
    shake(param);
    for (size_t i = 0; i < in->in * in->out; i++) in->weight.value[i] *= 6;
    for (int step = 0; step < 2; step++) {
        p->batch = make_batch(sequences, watched.block_size, SMALL_V, 7 + step);
        p->batch.valid = valid;
        for (size_t n = 0; valid && n < N; n++)
            if (!valid[n]) p->batch.targets[n] = -1;
        p->model.probing = step == 1;
        p->tracked = copy_values(&p->probe.watch.tracked);
        gradient_of(&p->model, &p->batch, step, scale);
        watch_batch(&p->probe.watch, &p->batch);
        p->grad_norm = optimizer_grad_norm(&adam, param);
        p->before = copy_values(param);
        probe_keep(&p->probe, &p->model);
        optimizer_step(&adam, param, 1e-2, p->grad_norm);
        if (step == 1) probe_write(&p->probe, &p->model, &p->batch, scale, 5);
    }
    free(p->probe.weights);
    free(p->probe.heads);
    return p;
}

/* True if token n is valid, as all are if there is no list. */
static bool is_valid(const struct probed *p, size_t n) {
    return !p->batch.valid || p->batch.valid[n];
}

/* The L2 norm of x. */
static double length_of(size_t count, const real *x) {
    return sqrt(dot(count, x, x));
}

/* The end of each sequence is pads. */
static unsigned char *pads(void) {
    static unsigned char valid[N];
    for (size_t n = 0; n < N; n++) valid[n] = n % T < 2 + n / T;
    return valid;
}

/* Streams and their gradients. With one token, the gradient of a bias before a sum is the sum's
   gradient. With one sequence, the gradient of a position's embedding is its token's. */
Test(probe, streams_and_their_gradients) {
    for (int placement = 0; placements[placement].name; placement++) {
        struct model_config config = small_config(norm_index("ln"), placement);
        const struct probed *p = probed(&config, B, NULL, 1);
        const struct sublayer *s = &p->model.layer[1].attention;
        const size_t count = N * p->model.C;
        double add = 0;
        for (size_t i = 0; i < count; i++)
            add += pow((double)s->connection.sum[i] - connection_kept(&s->connection, i), 2);
        expect_row(p, 1, "attn", "stream_rms", length_of(count, s->y) / sqrt((double)count));
        expect_row(p, 1, "attn", "output_rms", sqrt(add / (double)count));
        int second = 0;
        for (int i = 0; i < p->rows.count; i++) second += !strcmp(p->rows.row[i].site, "second");
        cr_expect_eq(second, placement_connection(&placements[placement])->streams);
    }
    for (int64_t length = 1; length <= T; length += T - 1) {
        struct model_config config = small_config(norm_index("ln"), 0);
        config.block_size = length;
        const struct probed *p = probed(&config, 1, NULL, 0.25);
        const size_t C = p->model.C;
        expect_row(p, -1, "embd", "stream_grad",
                   length_of((size_t)length * C, p->model.wpe.grad) / 0.25);
        if (length > 1) continue;
        expect_row(p, 0, "attn", "stream_grad",
                   length_of(C, p->model.layer[0].attention.proj.bias.grad) / 0.25);
        expect_row(p, 1, "mlp", "stream_grad",
                   length_of(C, p->model.layer[1].mlp.proj.bias.grad) / 0.25);
    }
}

/* Two heads, with and without pads, and four that share two heads of keys. */
Test(probe, heads) {
    enum { HS = 3, PADDED = 1, GROUPED = 2, WAYS };
    double some = 0, others = 0;
    for (int way = 0; way < WAYS; way++) {
        struct model_config config = small_config(norm_index("ln"), 0);
        if (way == GROUPED) config.n_head = 4, config.n_kv_head = 2, config.n_embd = 4 * HS;
        const struct probed *p = probed(&config, B, way == PADDED ? pads() : NULL, 1);
        const struct sublayer *s = &p->model.layer[1].attention;
        for (size_t h = 0; h < s->heads; h++) {
            const real *q = chain_stored(&s->chain, "expanded") + h * HS;
            const real *k = q + s->C - (way == GROUPED ? h - h / 2 : 0) * HS;
            double max = -INFINITY, entropy = 0, saturated = 0, queries = 0, p_of[T];
            for (size_t n = 0; n < N; n++) {
                double sum = 0, of_row = 0;
                bool full = false;
                if (!is_valid(p, n)) continue;
                for (size_t j = 0; j <= n % T; j++) {
                    double z = dot(HS, q + n * s->E, k + (n - n % T + j) * s->E) / sqrt(HS);
                    max = fmax(max, z);
                    sum += p_of[j] = exp(z);
                }
                for (size_t j = 0; j <= n % T; j++) {
                    of_row -= p_of[j] / sum * log(p_of[j] / sum);
                    full = full || p_of[j] / sum > 0.99;
                }
                if (!(n % T)) continue;
                queries++;
                entropy += of_row;
                saturated += full;
            }
            char site[32];
            snprintf(site, sizeof site, "head.%zu", h);
            some += saturated, others += queries - saturated;
            expect_row(p, 1, site, "logit_max", max);
            expect_row(p, 1, site, "entropy", entropy / queries);
            expect_row(p, 1, site, "saturated", saturated / queries);
        }
    }
    cr_expect(some > 0 && others > 0, "%g saturated queries, %g others", some, others);
}

Test(probe, weights_gradients_and_updates) {
    struct model_config config = small_config(norm_index("bn"), 0);
    const struct probed *p = probed(&config, B, NULL, 1);
    const struct tensor_list *param = &p->model.lists.param;
    for (size_t i = 0; i < param->count; i++) {
        const struct tensor *t = &param->tensor[i];
        const char *site = t->name + strlen("transformer.");
        int layer = -1;
        if (!strncmp(site, "h.", 2)) layer = site[2] - '0', site += 4;
        double weights = length_of(t->size, p->before + t->offset), update = 0;
        for (size_t j = t->offset; j < t->offset + t->size; j++)
            update += pow((double)param->value[j] - (double)p->before[j], 2);
        expect_row(p, layer, site, "weight_norm", weights);
        expect_row(p, layer, site, "grad_norm", length_of(t->size, param->grad + t->offset));
        expect_row(p, layer, site, "update_ratio", sqrt(update) / weights);
    }
    for (int i = 0; i < p->rows.count; i++) cr_expect(p->rows.row[i].step == 5);
}

static const struct watched *watched_of(const struct probed *p, const struct norm *norm) {
    const struct watched *w = p->probe.watch.norm;
    while (w->norm != norm) w++;
    return w;
}

/* Differences between the moments of the batch x (N,C) and the tracked ones. */
static void check_distances(const struct probed *p, int layer, const char *site,
                            const struct norm *norm, const real *x) {
    const size_t C = norm->C;
    const struct tensor_list *tracked = &p->probe.watch.tracked;
    const struct watched *w = watched_of(p, norm);
    const real *before_mean = p->tracked + (w->mean - tracked->value);
    const real *before_var = p->tracked + (w->var - tracked->value);
    double means = 0, vars = 0, sigmas = 0, deviation = 0;
    for (size_t c = 0; c < C; c++) {
        double mean = 0, var = 0, count = 0;
        for (size_t n = 0; n < N; n++)
            if (is_valid(p, n)) mean += (double)x[n * C + c], count++;
        mean /= count;
        for (size_t n = 0; n < N; n++)
            if (is_valid(p, n)) var += pow((double)x[n * C + c] - mean, 2) / count;
        double run = (double)before_var[c];
        means += pow(mean - (double)before_mean[c], 2);
        vars += pow(var - run, 2);
        sigmas += pow(sqrt(var + 1e-5) - sqrt(run + 1e-5), 2);
        deviation += run + 1e-5;
    }
    expect_row(p, layer, site, "dist_mean", sqrt(means) / (double)C);
    expect_row(p, layer, site, "dist_var", sqrt(vars) / (double)C);
    expect_row(p, layer, site, "tid_mean", sqrt(means / deviation));
    expect_row(p, layer, site, "tid_var", sqrt(sigmas / deviation));
}

static const struct kind {
    const char *norm;
    bool over_tokens, centred;
} kinds[] = {
    {"ln", false, true},
    {"rms", false, false},
    {"bn", true, true},
    {"pn-v", true, false},
    {"beta + gamma * (x - mean_c(x)) / sqrt(mean_c((x - mean_c(x))^2) + eps)", false, true},
    {"x / rms_c(x) * gamma", false, false},
    {"gamma * (x - mean_n(x)) / sqrt(eps + var_n(x)) + beta", true, true},
    {"(gamma * x + beta * rms_n(x)) / rms_n(x)", true, false},
};

/* The gradient's terms at a site of layer 0 from dy of the norm's output, p->scale times the
   loss's. x and dy are rows of the norm's channels: of tokens, or of their heads. */
static void check_terms(const struct probed *p, const struct kind *kind, const char *site,
                        const struct norm *norm, const real *x, const real *dy) {
    const real *gamma = p->before + (norm->gamma - p->model.lists.param.value);
    const size_t C = norm->C, rows = N * p->model.C / C;
    const bool over_tokens = kind->over_tokens;
    double terms[2] = {0, 0};
    size_t outer = over_tokens ? C : rows, inner = over_tokens ? rows : C;
    for (size_t i = 0; i < outer; i++) {
        double mean = 0, var = 0, count = 0, sums[2] = {0, 0};
        for (int pass = 0; pass < 3; pass++) {
            if (pass == 1) mean /= count;
            for (size_t j = 0; j < inner; j++) {
                size_t n = over_tokens ? j : i, c = over_tokens ? i : j;
                if (over_tokens && !is_valid(p, n)) continue;
                double value = (double)x[n * C + c], g = (double)(gamma[c] * dy[n * C + c]);
                if (pass == 0) count++, mean += kind->centred ? value : 0;
                if (pass == 1) var += pow(value - mean, 2) / count;
                if (pass == 2) {
                    sums[0] += g / count;
                    sums[1] += g * (value - mean) / sqrt(var + 1e-5) / count;
                }
            }
        }
        for (int k = 0; k < 2; k++) terms[k] += sums[k] * sums[k];
    }
    expect_row(p, 0, site, "g_mean", sqrt(terms[0]) / p->scale);
    expect_row(p, 0, site, "g_var", sqrt(terms[1]) / p->scale);
}

Test(probe, distances_and_terms_of_norms) {
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int padded = 0; padded < 2; padded++) {
            formula_add("norm", kinds[k].norm);
            struct model_config config = small_config(norm_index(kinds[k].norm), 0);
            const struct probed *p = probed(&config, B, padded ? pads() : NULL, 0.5);
            const struct sublayer *s[] = {&p->model.layer[0].attention, &p->model.layer[0].mlp};
            static const char *const sites[] = {"ln_1", "ln_2"};
            for (int i = 0; i < 2; i++) {
                check_distances(p, 0, sites[i], &s[i]->pre, s[i]->connection.x);
                check_terms(p, &kinds[k], sites[i], &s[i]->pre, s[i]->connection.x, p->dnormed[i]);
            }
            check_distances(p, -1, "ln_f", &p->model.final, p->model.stream_out);
        }
}

/* Terms are measured only where watch.c's xhat is the norm's: not, for example, with another gamma. */
Test(probe, other_formulas_have_no_terms) {
    static const char *const norms[] = {
        "beta * x / rms_c(x) + gamma",
        "alpha * x / rms_c(x); alpha = 1",
        "gamma * x / rms_c(x); gamma[1] = 1",
        "gamma * x / sqrt(mean_c(x^2))",
        "gamma * x / rms_c(x); groups",
        "gamma * (x - mean_n(x)) / rms_c(x - mean_n(x)) + beta",
        "gamma * log(x)",
    };
    for (size_t k = 0; k < sizeof norms / sizeof *norms; k++) {
        formula_add("norm", norms[k]);
        cr_expect_eq(norm_find(norms[k])->terms, NORM_TERMS_NONE, "%s", norms[k]);
    }
}

Test(probe, norms_of_keys) {
    struct model_config config = small_config(norm_index("ln"), 0);
    config.qk_norm = INNER_NORM_ON;
    const struct probed *p = probed(&config, B, NULL, 1);
    const struct qkv_norm *qkv = &p->model.layer[0].attention.qkv_norm;
    check_terms(p, &kinds[0], "attn.k_norm", &qkv->norm[QKV_K], qkv->raw[QKV_K], p->dk);
}

/* bn's own running statistics equal those that are tracked for every kind. */
Test(probe, tracked_statistics_are_those_of_bn) {
    struct model_config config = small_config(norm_index("bn"), 1);
    const struct probed *p = probed(&config, B, NULL, 1);
    const struct norm *norm = &p->model.layer[1].mlp.post;
    const struct watched *w = watched_of(p, norm);
    expect_close("mean", norm->C, w->mean, norm->state[0], 1e-6);
    expect_close("variance", norm->C, w->var, norm->state[1], 1e-6);
}

/* Regularized BatchNorm's penalty, which is not part of any loss. */
Test(probe, penalties) {
    struct model_config config = small_config(norm_index("bn"), 0);
    norms_set(&config.norms, "rbn-mean", 0.7);
    norms_set(&config.norms, "rbn-var", 0.4);
    const struct probed *p = probed(&config, B, NULL, 1);
    const struct norm *norm = &p->model.layer[1].attention.pre;
    const real *x = p->model.layer[1].attention.connection.x;
    double sum = 0;
    for (size_t c = 0; c < norm->C; c++) {
        double mean = 0, var = 0;
        for (size_t n = 0; n < N; n++) mean += (double)x[n * norm->C + c] / N;
        for (size_t n = 0; n < N; n++) var += pow((double)x[n * norm->C + c] - mean, 2) / N;
        sum += 0.7 * pow(mean - (double)norm->state[0][c], 2);
        sum += 0.4 * pow(sqrt(var + 1e-5) - sqrt((double)norm->state[1][c] + 1e-5), 2);
    }
    expect_row(p, 1, "ln_1", "penalty", sum);
}

/* Fractions of channels that a curve saturates, without pads, and the learned numbers. */
Test(probe, saturation_of_curves) {
    static const char *const curve[] = {"dyt", "derf", "bhyt"};
    for (int k = 0; k < 3; k++) {
        struct model_config config = small_config(norm_index(curve[k]), 0);
        norms_set(&config.norms, "dyt-alpha", 8);
        norms_set(&config.norms, "bhyt-lambda", 4);
        const struct probed *p = probed(&config, B, pads(), 1);
        const struct sublayer *s = &p->model.layer[1].mlp;
        const real *start = p->model.lists.param.value;
        const double slope = (double)p->before[s->pre.param[k == 2].value - start];
        double saturated = 0, channels = 0, shift = 0; // kappa is 2
        if (k == 1) shift = (double)p->before[s->pre.param[1].value - start];
        for (size_t n = 0; n < N; n++) {
            const real *x = s->connection.x + n * s->pre.C;
            const double root = sqrt(dot(s->pre.C, x, x) / (double)s->pre.C + 1e-5);
            for (size_t c = 0; is_valid(p, n) && c < s->pre.C; c++, channels++) {
                double z = slope * (double)x[c] / (k == 2 ? 2 * root : 1) + shift;
                saturated += fabs(k == 1 ? erf(z) : tanh(z)) > 0.99;
            }
        }
        expect_row(p, 1, "ln_2", "saturation", saturated / channels);
        expect_row(p, 1, "ln_2", k == 2 ? "lam" : "alpha", slope);
    }
}
