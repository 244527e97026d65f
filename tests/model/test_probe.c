/* Probes against what they say they are, computed directly, on a small model; and that who is
   watched does what he would do unwatched. */
#include "data/text/corpus.h"
#include "model/lab/adam.h"
#include "model/lab/probe.h"
#include "model/norm/watch.h"
#include "tests/support.h"
#include <criterion/parameterized.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { B = SMALL_B, T = SMALL_T, N = B * T, MOST = 1024 };

struct row {
    int64_t step;
    int layer;
    char site[64], metric[32];
    double value;
};

struct rows_there {
    int count;
    struct row row[MOST];
};

static void collect(void *context, int64_t step, int layer, const char *site, const char *metric,
                    double value) {
    struct rows_there *rows = context;
    cr_assert(rows->count < MOST);
    struct row *row = &rows->row[rows->count++];
    *row = (struct row){.step = step, .layer = layer, .value = value};
    snprintf(row->site, sizeof row->site, "%s", site);
    snprintf(row->metric, sizeof row->metric, "%s", metric);
}

/* The value that stands there once. */
static double value_of(const struct rows_there *rows, int layer, const char *site,
                       const char *metric) {
    double value = NAN;
    int found = 0;
    for (int i = 0; i < rows->count; i++) {
        const struct row *row = &rows->row[i];
        if (row->layer != layer || strcmp(row->site, site) || strcmp(row->metric, metric)) continue;
        value = row->value;
        found++;
    }
    cr_assert(found == 1, "%d rows of layer %d, %s, %s", found, layer, site, metric);
    return value;
}

static void expect(const struct rows_there *rows, int layer, const char *site, const char *metric,
                   double want) {
    double got = value_of(rows, layer, site, metric), tolerance = in_double() ? 1e-9 : 2e-4;
    cr_expect(fabs(got - want) <= tolerance * fabs(want) + 1e-300,
              "layer %d, %s, %s: %.12g, not %.12g", layer, site, metric, got, want);
}

/* A watched model that has trained on one batch and was then probed with another. */
struct probed {
    struct model model;
    struct adam adam;
    struct probe probe;
    struct batch batch;
    struct rows_there rows;
    real *before;  // weights before the probed update
    real *tracked; // running statistics before it
    double grad_norm;
};

static void probe(struct probed *p, const struct model_config *config, unsigned char *valid,
                  double scale) {
    struct model_config watched = *config;
    watched.norms.watch = 1;
    *p = (struct probed){0};
    model_init(&p->model, &watched, SMALL_V, B, 1);
    adam_init(&p->adam, &(struct adam_options){0.9, 0.99, 1e-8, 0.1, 0}, &p->model.lists.param);
    probe_init(&p->probe, &p->model);
    struct tensor_list *param = &p->model.lists.param;
    real *noise = random_reals(param->size, 2);
    for (size_t i = 0; i < param->size; i++) param->value[i] += (real)0.3 * noise[i];
    param->version++;
    for (int step = 0; step < 2; step++) {
        p->batch = make_batch(B, T, SMALL_V, 7 + step);
        p->batch.valid = valid;
        for (size_t n = 0; valid && n < N; n++)
            if (!valid[n]) p->batch.targets[n] = -1;
        p->model.probing = step == 1;
        free(p->tracked);
        p->tracked = copy_values(&p->model.lists.tracked);
        model_zero_grad(&p->model);
        model_forward(&p->model, &p->batch, true, step);
        model_backward(&p->model, &p->batch, step, scale);
        p->grad_norm = adam_grad_norm(&p->adam, param);
        free(p->before);
        p->before = copy_values(param);
        probe_keep(&p->probe, &p->model);
        adam_step(&p->adam, param, 1e-2, p->grad_norm);
        if (step == 1)
            probe_write(&p->probe, &p->model, &p->batch, scale, 5,
                        &(struct probe_sink){collect, &p->rows});
        if (step == 0) p->batch.valid = NULL, batch_free(&p->batch);
    }
    free(noise);
}

static void finish(struct probed *p) {
    p->batch.valid = NULL;
    batch_free(&p->batch);
    adam_free(&p->adam);
    probe_free(&p->probe);
    model_free(&p->model);
    free(p->before);
    free(p->tracked);
}

static bool there(const unsigned char *valid, size_t n) {
    return !valid || valid[n];
}

/* What the batch's moments are apart from the tracked ones, of x (N,C). */
static void check_distances(const struct probed *p, int layer, const char *site, const real *x,
                            size_t C, const real *tracked_mean, const unsigned char *valid) {
    const real *before_mean = p->tracked + (tracked_mean - p->model.lists.tracked.value);
    const real *before_var = before_mean; // the tensor behind it
    for (size_t i = 0; i < p->model.lists.tracked.count; i++)
        if (p->model.lists.tracked.value + p->model.lists.tracked.tensor[i].offset == tracked_mean)
            before_var = p->tracked + p->model.lists.tracked.tensor[i + 1].offset;
    double means = 0, vars = 0, sigmas = 0, deviation = 0;
    for (size_t c = 0; c < C; c++) {
        double mean = 0, var = 0, count = 0;
        for (size_t n = 0; n < N; n++)
            if (there(valid, n)) mean += (double)x[n * C + c], count++;
        mean /= count;
        for (size_t n = 0; n < N; n++)
            if (there(valid, n)) var += pow((double)x[n * C + c] - mean, 2) / count;
        double run = (double)before_var[c];
        means += pow(mean - (double)before_mean[c], 2);
        vars += pow(var - run, 2);
        sigmas += pow(sqrt(var + 1e-5) - sqrt(run + 1e-5), 2);
        deviation += run + 1e-5;
    }
    expect(&p->rows, layer, site, "dist_mean", sqrt(means) / (double)C);
    expect(&p->rows, layer, site, "dist_var", sqrt(vars) / (double)C);
    expect(&p->rows, layer, site, "tid_mean", sqrt(means / deviation));
    expect(&p->rows, layer, site, "tid_var", sqrt(sigmas / deviation));
}

/* The gradient's terms from dy (N,C) of the norm's output, `scale` times the loss's. */
static void check_terms(const struct probed *p, int layer, const char *site, const real *x,
                        const real *dy, const real *gamma, size_t C, const unsigned char *valid,
                        bool over_tokens, bool centred, double scale) {
    double terms[2] = {0, 0};
    size_t outer = over_tokens ? C : N, inner = over_tokens ? N : C;
    for (size_t i = 0; i < outer; i++) {
        double mean = 0, var = 0, count = 0, sums[2] = {0, 0};
        for (int pass = 0; pass < 3; pass++) {
            if (pass == 1) mean /= count;
            for (size_t j = 0; j < inner; j++) {
                size_t n = over_tokens ? j : i, c = over_tokens ? i : j;
                if (over_tokens && !there(valid, n)) continue;
                double value = (double)x[n * C + c], g = (double)(gamma[c] * dy[n * C + c]);
                if (pass == 0) count++, mean += centred ? value : 0;
                if (pass == 1) var += pow(value - mean, 2) / count;
                if (pass == 2) {
                    sums[0] += g / count;
                    sums[1] += g * (value - mean) / sqrt(var + 1e-5) / count;
                }
            }
        }
        for (int k = 0; k < 2; k++) terms[k] += sums[k] * sums[k];
    }
    expect(&p->rows, layer, site, "g_mean", sqrt(terms[0]) / scale);
    expect(&p->rows, layer, site, "g_var", sqrt(terms[1]) / scale);
}

static const struct {
    const char *norm;
    bool over_tokens, centred;
} kinds[] = {{"ln", false, true}, {"rms", false, false}, {"bn", true, true}, {"pn-v", true, false}};

Test(probe, distances_and_terms_of_norms) {
    unsigned char pads[N];
    for (size_t n = 0; n < N; n++) pads[n] = n % T < 2 + n / T;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int padded = 0; padded < 2; padded++) {
            struct model_config config = small_config(norm_index(kinds[k].norm), 0);
            struct probed p;
            unsigned char *valid = padded ? pads : NULL;
            probe(&p, &config, valid, 0.5);
            const struct sublayer *s[] = {&p.model.layer[0].attention, &p.model.layer[0].mlp};
            const char *const sites[] = {"ln_1", "ln_2"};
            for (int i = 0; i < 2; i++) {
                const struct norm *norm = &s[i]->pre;
                const real *gamma = p.before + (norm->param[0].value - p.model.lists.param.value);
                check_distances(&p, 0, sites[i], s[i]->x, p.model.C, norm->watch->tracked_mean,
                                valid);
                // layer 0's backward was the last, so its gradients are still there
                check_terms(&p, 0, sites[i], s[i]->x, p.model.scratch[i].dnormed, gamma, p.model.C,
                            valid, kinds[k].over_tokens, kinds[k].centred, 0.5);
            }
            check_distances(&p, -1, "ln_f", p.model.last, p.model.C,
                            p.model.final.watch->tracked_mean, valid);
            finish(&p);
        }
}

/* bn's own running statistics are those that are tracked for every kind. */
Test(probe, tracked_statistics_are_those_of_bn) {
    struct model_config config = small_config(norm_index("bn"), 1);
    struct probed p;
    probe(&p, &config, NULL, 1);
    const struct norm *norm = &p.model.layer[1].mlp.post;
    expect_close("mean", norm->C, norm->watch->tracked_mean, norm->state[0], 1e-6);
    expect_close("variance", norm->C, norm->watch->tracked_var, norm->state[1], 1e-6);
    finish(&p);
}

/* Regularized BatchNorm's penalty, which no loss shows. */
Test(probe, penalties) {
    struct model_config config = small_config(norm_index("bn"), 0);
    struct probed p;
    norms_set(&config.norms, "rbn-mean", 0.7);
    norms_set(&config.norms, "rbn-var", 0.4);
    probe(&p, &config, NULL, 1);
    const struct norm *norm = &p.model.layer[1].attention.pre;
    const real *x = p.model.layer[1].attention.x;
    double sum = 0;
    for (size_t c = 0; c < norm->C; c++) {
        double mean = 0, var = 0;
        for (size_t n = 0; n < N; n++) mean += (double)x[n * norm->C + c] / N;
        for (size_t n = 0; n < N; n++) var += pow((double)x[n * norm->C + c] - mean, 2) / N;
        sum += 0.7 * pow(mean - (double)norm->state[0][c], 2);
        sum += 0.4 * pow(sqrt(var + 1e-5) - sqrt((double)norm->state[1][c] + 1e-5), 2);
    }
    expect(&p.rows, 1, "ln_1", "penalty", sum);
    finish(&p);
}

/* Norms inside the sub-layers are watched too, a head's row as a token. */
Test(probe, norms_of_queries_keys_and_mlps) {
    struct model_config config = small_config(norm_index("ln"), 0);
    config.qk_norm = config.ffn_norm = INNER_NORM_ON;
    struct probed p;
    probe(&p, &config, NULL, 1);
    const struct sublayer *s = &p.model.layer[0].attention;
    const real *gamma = p.before + (s->qk_norm.norm[1].param[0].value - p.model.lists.param.value);
    double terms[2] = {0, 0};
    for (size_t row = 0; row < N * 2; row++) { // 2 heads of 3 channels
        const real *x = s->qk_norm.raw[1] + row * 3, *dy = p.model.scratch[0].dqk[1] + row * 3;
        double mean = 0, var = 0, sums[2] = {0, 0};
        for (int c = 0; c < 3; c++) mean += (double)x[c] / 3;
        for (int c = 0; c < 3; c++) var += pow((double)x[c] - mean, 2) / 3;
        for (int c = 0; c < 3; c++) {
            double g = (double)(gamma[c] * dy[c]);
            sums[0] += g / 3;
            sums[1] += g * ((double)x[c] - mean) / sqrt(var + 1e-5) / 3;
        }
        for (int k = 0; k < 2; k++) terms[k] += sums[k] * sums[k];
    }
    expect(&p.rows, 0, "attn.k_norm", "g_mean", sqrt(terms[0]));
    expect(&p.rows, 0, "attn.k_norm", "g_var", sqrt(terms[1]));
    value_of(&p.rows, 1, "attn.q_norm", "dist_var");
    value_of(&p.rows, 1, "mlp.norm", "g_var");
    finish(&p);
}

/* Streams and their gradients: of one token, what a bias before a sum gets is the sum's gradient;
   of one sequence, what a position's embedding gets is its token's. */
Test(probe, streams_and_their_gradients) {
    for (int placement = 0; placements[placement].name; placement++) {
        struct model_config config = small_config(norm_index("ln"), placement);
        struct probed p;
        probe(&p, &config, NULL, 1);
        double out = 0, add = 0;
        const struct sublayer *s = &p.model.layer[1].attention;
        for (size_t i = 0; i < N * p.model.C; i++) {
            out += pow((double)s->y[i], 2);
            add += pow((double)s->sum[i] - s->a * (double)s->x[i], 2);
        }
        expect(&p.rows, 1, "attn", "stream_rms", sqrt(out / (double)(N * p.model.C)));
        expect(&p.rows, 1, "attn", "output_rms", sqrt(add / (double)(N * p.model.C)));
        int second = 0;
        for (int i = 0; i < p.rows.count; i++) second += !strcmp(p.rows.row[i].site, "second");
        cr_expect_eq(second, placements[placement].dual);
        finish(&p);
    }
    struct model_config config = small_config(norm_index("ln"), 0);
    struct model model;
    struct probe probes;
    struct rows_there rows = {0};
    config.norms.watch = 1;
    for (size_t length = 1; length <= T; length += T - 1) {
        rows.count = 0;
        config.block_size = (int64_t)length;
        struct batch batch = make_batch(1, length, SMALL_V, 3);
        model_init(&model, &config, SMALL_V, 1, 1);
        probe_init(&probes, &model);
        model.probing = true;
        model_zero_grad(&model);
        model_forward(&model, &batch, true, 0);
        model_backward(&model, &batch, 0, 0.25);
        probe_keep(&probes, &model);
        probe_write(&probes, &model, &batch, 0.25, 0, &(struct probe_sink){collect, &rows});
        double embedding = 0, attention = 0, mlp = 0;
        for (size_t i = 0; i < length * model.C; i++)
            embedding += pow((double)model.wpe.grad[i] / 0.25, 2);
        expect(&rows, -1, "embd", "stream_grad", sqrt(embedding));
        for (size_t c = 0; length == 1 && c < model.C; c++) {
            attention += pow((double)model.layer[0].attention.proj.bias.grad[c] / 0.25, 2);
            mlp += pow((double)model.layer[1].mlp.proj.bias.grad[c] / 0.25, 2);
        }
        if (length == 1) {
            expect(&rows, 0, "attn", "stream_grad", sqrt(attention));
            expect(&rows, 1, "mlp", "stream_grad", sqrt(mlp));
        }
        batch_free(&batch);
        probe_free(&probes);
        model_free(&model);
    }
}

Test(probe, heads) {
    unsigned char pads[N];
    for (size_t n = 0; n < N; n++) pads[n] = n % T < 2 + n / T;
    struct model_config config = small_config(norm_index("ln"), 0);
    for (int padded = 0; padded < 2; padded++) {
        struct probed p;
        const unsigned char *valid = padded ? pads : NULL;
        probe(&p, &config, padded ? pads : NULL, 1);
        const real *qkv = p.model.layer[1].attention.before;
        for (size_t h = 0; h < 2; h++) {
            double most = -INFINITY, entropy = 0, saturated = 0, queries = 0, p_of[T];
            for (size_t n = 0; n < N; n++) {
                double sum = 0, own = 0;
                bool full = false;
                if (!there(valid, n)) continue;
                for (size_t j = 0; j <= n % T; j++) {
                    double z = 0;
                    for (size_t c = 0; c < 3; c++)
                        z += (double)qkv[n * 18 + h * 3 + c] *
                             (double)qkv[(n - n % T + j) * 18 + 6 + h * 3 + c] / sqrt(3);
                    most = fmax(most, z);
                    sum += p_of[j] = exp(z);
                }
                for (size_t j = 0; j <= n % T; j++) {
                    own -= p_of[j] / sum * log(p_of[j] / sum);
                    full = full || p_of[j] / sum > 0.99;
                }
                if (!(n % T)) continue;
                queries++;
                entropy += own;
                saturated += full;
            }
            const char *site = h ? "head.1" : "head.0";
            expect(&p.rows, 1, site, "logit_max", most);
            expect(&p.rows, 1, site, "entropy", entropy / queries);
            expect(&p.rows, 1, site, "saturated", saturated / queries);
        }
        finish(&p);
    }
}

/* Logits far apart: every query that has a choice sees one key. */
Test(probe, saturated_heads) {
    struct model_config config = small_config(norm_index("ln"), 0);
    struct model model;
    struct probe probes;
    struct rows_there rows = {0};
    config.norms.watch = 1;
    struct batch batch = make_batch(B, T, SMALL_V, 3);
    model_init(&model, &config, SMALL_V, B, 1);
    probe_init(&probes, &model);
    for (size_t i = 0; i < 3 * 36; i++) model.layer[0].attention.in.weight.value[i] *= (real)1e5;
    model.lists.param.version++;
    model.probing = true;
    model_forward(&model, &batch, true, 0);
    model_backward(&model, &batch, 0, 1);
    probe_keep(&probes, &model);
    probe_write(&probes, &model, &batch, 1, 0, &(struct probe_sink){collect, &rows});
    cr_expect(value_of(&rows, 0, "head.0", "saturated") > 0.7);
    cr_expect(value_of(&rows, 0, "head.0", "entropy") < 0.3);
    cr_expect(value_of(&rows, 1, "head.0", "saturated") == 0);
    batch_free(&batch);
    probe_free(&probes);
    model_free(&model);
}

Test(probe, weights_gradients_and_updates) {
    struct model_config config = small_config(norm_index("bn"), 0);
    struct probed p;
    probe(&p, &config, NULL, 1);
    const struct tensor_list *param = &p.model.lists.param;
    double all = 0;
    int rows = 0;
    for (size_t i = 0; i < param->count; i++) {
        const struct tensor *t = &param->tensor[i];
        double weights = 0, gradient = 0, update = 0;
        for (size_t j = t->offset; j < t->offset + t->size; j++) {
            weights += pow((double)p.before[j], 2);
            gradient += pow((double)param->grad[j], 2);
            update += pow((double)param->value[j] - (double)p.before[j], 2);
        }
        all += gradient;
        const char *site;
        int layer = -1;
        if (!strncmp(t->name, "transformer.h.", 14)) {
            layer = t->name[14] - '0';
            site = t->name + 16;
        } else {
            site = t->name + strlen("transformer.");
        }
        expect(&p.rows, layer, site, "weight_norm", sqrt(weights));
        expect(&p.rows, layer, site, "grad_norm", sqrt(gradient));
        expect(&p.rows, layer, site, "update_ratio", sqrt(update / weights));
        rows++;
    }
    cr_expect(rows > 20);
    cr_expect(fabs(sqrt(all) - p.grad_norm) < 1e-4 * p.grad_norm);
    for (int i = 0; i < p.rows.count; i++) cr_expect(p.rows.row[i].step == 5);
    finish(&p);
}

ParameterizedTestParameters(probe, watching_changes_nothing) {
    return every_pair();
}

/* To the bit: losses, gradients, states and weights of three updates, the second probed, alone and
   watched by one thread and by three. */
ParameterizedTest(struct pair *pair, probe, watching_changes_nothing) {
    enum { SEQUENCES = 9, LENGTH = 13 };
    double losses[3][3];
    real *weights[3] = {NULL}, *states[3] = {NULL};
    struct rows_there *rows = calloc(3, sizeof *rows);
    size_t size = 0, state_size = 0;
    for (int run = 0; run < 3; run++) {
        struct model_config config = pair_config(pair);
        config.dropout = 0.1;
        config.block_size = LENGTH;
        config.norms.watch = run > 0;
        omp_set_num_threads(run == 2 ? 3 : 1);
        struct model model;
        struct adam adam;
        struct probe probes;
        struct batch batch = make_batch(SEQUENCES, LENGTH, SMALL_V, 3);
        model_init(&model, &config, SMALL_V, SEQUENCES, 1);
        model.threads = run == 2 ? 3 : 1;
        adam_init(&adam, &(struct adam_options){0.9, 0.99, 1e-8, 0.1, 1}, &model.lists.param);
        probe_init(&probes, &model);
        for (int step = 0; step < 3; step++) {
            model.probing = run && step == 1;
            model_zero_grad(&model);
            model_forward(&model, &batch, true, step);
            losses[run][step] = model_backward(&model, &batch, step, 1);
            if (model.probing) probe_keep(&probes, &model);
            adam_step(&adam, &model.lists.param, 1e-2, adam_grad_norm(&adam, &model.lists.param));
            if (model.probing)
                probe_write(&probes, &model, &batch, 1, step,
                            &(struct probe_sink){collect, &rows[run]});
        }
        size = model.lists.param.size;
        state_size = model.lists.state.size;
        weights[run] = copy_values(&model.lists.param);
        states[run] = copy_values(&model.lists.state);
        batch_free(&batch);
        adam_free(&adam);
        probe_free(&probes);
        model_free(&model);
    }
    for (int run = 1; run < 3; run++) {
        cr_expect(!memcmp(losses[0], losses[run], sizeof losses[0]), "losses of run %d", run);
        cr_expect(!memcmp(weights[0], weights[run], size * sizeof(real)), "weights of run %d", run);
        cr_expect(!memcmp(states[0], states[run], state_size * sizeof(real)), "states");
    }
    cr_expect(rows[0].count == 0 && rows[1].count > 50 && rows[1].count == rows[2].count);
    for (int i = 0; i < rows[1].count; i++) {
        const struct row *one = &rows[1].row[i], *three = &rows[2].row[i];
        cr_expect(one->layer == three->layer && !strcmp(one->site, three->site) &&
                      !strcmp(one->metric, three->metric) && one->value == three->value &&
                      isfinite(one->value),
                  "%d %s %s: %g and %g", one->layer, one->site, one->metric, one->value,
                  three->value);
    }
    for (int run = 0; run < 3; run++) free(weights[run]), free(states[run]);
    free(rows);
}
