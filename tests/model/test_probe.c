/* Probes against their definitions, computed directly on a small model: of streams, heads, weights,
   updates and norms (distances from the tracked statistics, terms of the gradient, penalties); and that
   watching changes nothing. */
#include "data/text/corpus.h"
#include "model/lab/probe.h"
#include "model/norm/watch.h"
#include "model/optimizer/optimizer.h"
#include "tests/model/probed.h"
#include "tests/support.h"
#include <criterion/criterion.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* Streams and their gradients. With one token, the gradient of a bias before a sum is the sum's
   gradient. With one sequence, the gradient of a position's embedding is its token's. */
Test(probe, streams_and_their_gradients) {
    for (int placement = 0; placements[placement].name; placement++) {
        struct model_config config = small_config(norm_index("ln"), placement);
        struct probed p;
        probed_run(&p, &config, NULL, 1);
        double out = 0, add = 0;
        const struct sublayer *s = &p.model.layer[1].attention;
        for (size_t i = 0; i < N * p.model.C; i++) {
            out += pow((double)s->y[i], 2);
            add += pow((double)s->connection.sum[i] - connection_kept(&s->connection, i), 2);
        }
        probed_expect(&p.rows, 1, "attn", "stream_rms", sqrt(out / (double)(N * p.model.C)));
        probed_expect(&p.rows, 1, "attn", "output_rms", sqrt(add / (double)(N * p.model.C)));
        int second = 0;
        for (int i = 0; i < p.rows.count; i++) second += !strcmp(p.rows.row[i].site, "second");
        cr_expect_eq(second, placement_connection(&placements[placement])->streams);
        probed_free(&p);
    }
    struct model_config config = small_config(norm_index("ln"), 0);
    struct model model;
    struct probe probes;
    struct probed_rows rows = {0};
    config.norms.watch = 1;
    for (size_t length = 1; length <= T; length += T - 1) {
        rows.count = 0;
        config.block_size = (int64_t)length;
        struct batch batch = make_batch(1, length, SMALL_V, 3);
        model = held_model(&config, SMALL_V, 1, 1);
        probe_init(&probes, &model, (struct probe_sink){probed_collect, &rows});
        model.probing = true;
        gradient_of(&model, &batch, 0, 0.25);
        probe_keep(&probes, &model);
        probe_write(&probes, &model, &batch, 0.25, 0);
        double embedding = 0, attention = 0, mlp = 0;
        for (size_t i = 0; i < length * model.C; i++)
            embedding += pow((double)model.wpe.grad[i] / 0.25, 2);
        probed_expect(&rows, -1, "embd", "stream_grad", sqrt(embedding));
        for (size_t c = 0; length == 1 && c < model.C; c++) {
            attention += pow((double)model.layer[0].attention.proj.bias.grad[c] / 0.25, 2);
            mlp += pow((double)model.layer[1].mlp.proj.bias.grad[c] / 0.25, 2);
        }
        if (length == 1) {
            probed_expect(&rows, 0, "attn", "stream_grad", sqrt(attention));
            probed_expect(&rows, 1, "mlp", "stream_grad", sqrt(mlp));
        }
        probe_free(&probes);
    }
}

Test(probe, heads) {
    unsigned char pads[N];
    for (size_t n = 0; n < N; n++) pads[n] = n % T < 2 + n / T;
    struct model_config config = small_config(norm_index("ln"), 0);
    for (int padded = 0; padded < 2; padded++) {
        struct probed p;
        const unsigned char *valid = padded ? pads : NULL;
        probed_run(&p, &config, padded ? pads : NULL, 1);
        const real *qkv = p.model.layer[1].attention.expanded;
        for (size_t h = 0; h < 2; h++) {
            double max = -INFINITY, entropy = 0, saturated = 0, queries = 0, p_of[T];
            for (size_t n = 0; n < N; n++) {
                double sum = 0, own = 0;
                bool full = false;
                if (!probed_valid(valid, n)) continue;
                for (size_t j = 0; j <= n % T; j++) {
                    double z = 0;
                    for (size_t c = 0; c < 3; c++)
                        z += (double)qkv[n * 18 + h * 3 + c] *
                             (double)qkv[(n - n % T + j) * 18 + 6 + h * 3 + c] / sqrt(3);
                    max = fmax(max, z);
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
            probed_expect(&p.rows, 1, site, "logit_max", max);
            probed_expect(&p.rows, 1, site, "entropy", entropy / queries);
            probed_expect(&p.rows, 1, site, "saturated", saturated / queries);
        }
        probed_free(&p);
    }
}

/* Logits far apart: every query that has a choice attends to one key. */
Test(probe, saturated_heads) {
    struct model_config config = small_config(norm_index("ln"), 0);
    struct probe probes;
    struct probed_rows rows = {0};
    config.norms.watch = 1;
    struct batch batch = make_batch(B, T, SMALL_V, 3);
    struct model model = held_model(&config, SMALL_V, B, 1);
    probe_init(&probes, &model, (struct probe_sink){probed_collect, &rows});
    for (size_t i = 0; i < 3 * 36; i++) model.layer[0].attention.in.weight.value[i] *= (real)1e5;
    model.lists.param.version++;
    model.probing = true;
    model_forward(&model, &batch, true, 0);
    model_backward(&model, &batch, 0, 1);
    probe_keep(&probes, &model);
    probe_write(&probes, &model, &batch, 1, 0);
    cr_expect(probed_value(&rows, 0, "head.0", "saturated") > 0.7);
    cr_expect(probed_value(&rows, 0, "head.0", "entropy") < 0.3);
    cr_expect(probed_value(&rows, 1, "head.0", "saturated") == 0);
    probe_free(&probes);
}

Test(probe, weights_gradients_and_updates) {
    struct model_config config = small_config(norm_index("bn"), 0);
    struct probed p;
    probed_run(&p, &config, NULL, 1);
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
        probed_expect(&p.rows, layer, site, "weight_norm", sqrt(weights));
        probed_expect(&p.rows, layer, site, "grad_norm", sqrt(gradient));
        probed_expect(&p.rows, layer, site, "update_ratio", sqrt(update / weights));
        rows++;
    }
    cr_expect(rows > 20);
    cr_expect(fabs(sqrt(all) - p.grad_norm) < 1e-4 * p.grad_norm);
    for (int i = 0; i < p.rows.count; i++) cr_expect(p.rows.row[i].step == 5);
    probed_free(&p);
}

/* Losses, gradients, states and weights of three updates, the second one probed, are the same to
   the bit without watching, and with it on one thread and on three. */
static void check_watching_changes_nothing(const struct pair *pair) {
    enum { SEQUENCES = 9, LENGTH = 13 };
    double losses[3][3];
    real *weights[3] = {NULL}, *states[3] = {NULL};
    struct probed_rows *rows = hold(3 * sizeof *rows);
    size_t size = 0, state_size = 0;
    for (int run = 0; run < 3; run++) {
        struct model_config config = pair_config(pair);
        config.dropout = 0.1;
        config.block_size = LENGTH;
        config.norms.watch = run > 0;
        omp_set_num_threads(run == 2 ? 3 : 1);
        struct probe probes;
        struct batch batch = make_batch(SEQUENCES, LENGTH, SMALL_V, 3);
        struct model model = held_model(&config, SMALL_V, SEQUENCES, 1);
        model.threads = run == 2 ? 3 : 1;
        struct optimizer adam = held_adamw(fit_options, &model.lists.param, 1);
        probe_init(&probes, &model, (struct probe_sink){probed_collect, &rows[run]});
        for (int step = 0; step < 3; step++) {
            if (run == 2) model_forward(&model, &batch, false, step); // an evaluation
            model.probing = run && step == 1;
            losses[run][step] = gradient_of(&model, &batch, step, 1);
            if (model.probing) probe_keep(&probes, &model);
            optimizer_step(&adam, &model.lists.param, 1e-2,
                           optimizer_grad_norm(&adam, &model.lists.param));
            if (model.probing) probe_write(&probes, &model, &batch, 1, step);
        }
        size = model.lists.param.size;
        state_size = model.lists.state.size;
        weights[run] = copy_values(&model.lists.param);
        states[run] = copy_values(&model.lists.state);
        probe_free(&probes);
    }
    for (int run = 1; run < 3; run++) {
        cr_expect(!memcmp(losses[0], losses[run], sizeof losses[0]), "losses of run %d", run);
        cr_expect(!memcmp(weights[0], weights[run], size * sizeof(real)), "weights of run %d", run);
        cr_expect(!memcmp(states[0], states[run], state_size * sizeof(real)), "states");
    }
    cr_expect(rows[0].count == 0 && rows[1].count > 50 && rows[1].count == rows[2].count);
    for (int i = 0; i < rows[1].count; i++) {
        const struct probed_row *one = &rows[1].row[i], *three = &rows[2].row[i];
        cr_expect(one->layer == three->layer && !strcmp(one->site, three->site) &&
                      !strcmp(one->metric, three->metric) && one->value == three->value &&
                      isfinite(one->value),
                  "%d %s %s: %g and %g", one->layer, one->site, one->metric, one->value,
                  three->value);
    }
}

Test(probe, watching_changes_nothing) {
    every_norm_and_placement(check_watching_changes_nothing);
}

/* Differences between the moments of the batch x (N,C) and the tracked ones. */
static void check_distances(const struct probed *p, int layer, const char *site, const real *x,
                            const real *tracked_mean) {
    const unsigned char *valid = p->batch.valid;
    const size_t C = p->model.C;
    const real *before_mean = p->tracked + (tracked_mean - p->model.lists.tracked.value);
    const real *before_var = before_mean; // the next tensor
    for (size_t i = 0; i < p->model.lists.tracked.count; i++)
        if (p->model.lists.tracked.value + p->model.lists.tracked.tensor[i].offset == tracked_mean)
            before_var = p->tracked + p->model.lists.tracked.tensor[i + 1].offset;
    double means = 0, vars = 0, sigmas = 0, deviation = 0;
    for (size_t c = 0; c < C; c++) {
        double mean = 0, var = 0, count = 0;
        for (size_t n = 0; n < N; n++)
            if (probed_valid(valid, n)) mean += (double)x[n * C + c], count++;
        mean /= count;
        for (size_t n = 0; n < N; n++)
            if (probed_valid(valid, n)) var += pow((double)x[n * C + c] - mean, 2) / count;
        double run = (double)before_var[c];
        means += pow(mean - (double)before_mean[c], 2);
        vars += pow(var - run, 2);
        sigmas += pow(sqrt(var + 1e-5) - sqrt(run + 1e-5), 2);
        deviation += run + 1e-5;
    }
    probed_expect(&p->rows, layer, site, "dist_mean", sqrt(means) / (double)C);
    probed_expect(&p->rows, layer, site, "dist_var", sqrt(vars) / (double)C);
    probed_expect(&p->rows, layer, site, "tid_mean", sqrt(means / deviation));
    probed_expect(&p->rows, layer, site, "tid_var", sqrt(sigmas / deviation));
}

static const struct kind {
    const char *norm;
    bool over_tokens, centred;
} kinds[] = {{"ln", false, true}, {"rms", false, false}, {"bn", true, true}, {"pn-v", true, false}};

/* The gradient's terms at a site of layer 0 from dy (N,C) of the norm's output, p->scale times the
   loss's. */
static void check_terms(const struct probed *p, const struct kind *kind, const char *site,
                        const real *x, const real *dy, const real *gamma) {
    const size_t C = p->model.C;
    const bool over_tokens = kind->over_tokens;
    double terms[2] = {0, 0};
    size_t outer = over_tokens ? C : N, inner = over_tokens ? N : C;
    for (size_t i = 0; i < outer; i++) {
        double mean = 0, var = 0, count = 0, sums[2] = {0, 0};
        for (int pass = 0; pass < 3; pass++) {
            if (pass == 1) mean /= count;
            for (size_t j = 0; j < inner; j++) {
                size_t n = over_tokens ? j : i, c = over_tokens ? i : j;
                if (over_tokens && !probed_valid(p->batch.valid, n)) continue;
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
    probed_expect(&p->rows, 0, site, "g_mean", sqrt(terms[0]) / p->scale);
    probed_expect(&p->rows, 0, site, "g_var", sqrt(terms[1]) / p->scale);
}

Test(probe, distances_and_terms_of_norms) {
    unsigned char pads[N];
    for (size_t n = 0; n < N; n++) pads[n] = n % T < 2 + n / T;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int padded = 0; padded < 2; padded++) {
            struct model_config config = small_config(norm_index(kinds[k].norm), 0);
            struct probed p;
            probed_run(&p, &config, padded ? pads : NULL, 0.5);
            const struct sublayer *s[] = {&p.model.layer[0].attention, &p.model.layer[0].mlp};
            const char *const sites[] = {"ln_1", "ln_2"};
            for (int i = 0; i < 2; i++) {
                const struct norm *norm = &s[i]->pre;
                const real *gamma = p.before + (norm->param[0].value - p.model.lists.param.value);
                check_distances(&p, 0, sites[i], s[i]->connection.x, norm->watch->tracked_mean);
                // backward ended with layer 0, so its gradients are still there
                check_terms(&p, &kinds[k], sites[i], s[i]->connection.x,
                            p.model.scratch[i].dnormed.first, gamma);
            }
            check_distances(&p, -1, "ln_f", p.model.stream_out, p.model.final.watch->tracked_mean);
            probed_free(&p);
        }
}

/* bn's own running statistics equal those that are tracked for every kind. */
Test(probe, tracked_statistics_are_those_of_bn) {
    struct model_config config = small_config(norm_index("bn"), 1);
    struct probed p;
    probed_run(&p, &config, NULL, 1);
    const struct norm *norm = &p.model.layer[1].mlp.post;
    expect_close("mean", norm->C, norm->watch->tracked_mean, norm->state[0], 1e-6);
    expect_close("variance", norm->C, norm->watch->tracked_var, norm->state[1], 1e-6);
    probed_free(&p);
}

/* Regularized BatchNorm's penalty, which is not part of any loss. */
Test(probe, penalties) {
    struct model_config config = small_config(norm_index("bn"), 0);
    struct probed p;
    norms_set(&config.norms, "rbn-mean", 0.7);
    norms_set(&config.norms, "rbn-var", 0.4);
    probed_run(&p, &config, NULL, 1);
    const struct norm *norm = &p.model.layer[1].attention.pre;
    const real *x = p.model.layer[1].attention.connection.x;
    double sum = 0;
    for (size_t c = 0; c < norm->C; c++) {
        double mean = 0, var = 0;
        for (size_t n = 0; n < N; n++) mean += (double)x[n * norm->C + c] / N;
        for (size_t n = 0; n < N; n++) var += pow((double)x[n * norm->C + c] - mean, 2) / N;
        sum += 0.7 * pow(mean - (double)norm->state[0][c], 2);
        sum += 0.4 * pow(sqrt(var + 1e-5) - sqrt((double)norm->state[1][c] + 1e-5), 2);
    }
    probed_expect(&p.rows, 1, "ln_1", "penalty", sum);
    probed_free(&p);
}

/* Norms inside the sub-layers are watched too; each head's channels count as a token. */
Test(probe, norms_of_queries_keys_and_mlps) {
    struct model_config config = small_config(norm_index("ln"), 0);
    config.qk_norm = config.ffn_norm = INNER_NORM_ON;
    struct probed p;
    probed_run(&p, &config, NULL, 1);
    const struct sublayer *s = &p.model.layer[0].attention;
    const real *gamma =
        p.before + (s->qkv_norm.norm[QKV_K].param[0].value - p.model.lists.param.value);
    double terms[2] = {0, 0};
    for (size_t row = 0; row < N * 2; row++) { // 2 heads of 3 channels
        const real *x = s->qkv_norm.raw[QKV_K] + row * 3,
                   *dy = p.model.scratch[0].dqkv.first + N * 6 + row * 3; // after q^
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
    probed_expect(&p.rows, 0, "attn.k_norm", "g_mean", sqrt(terms[0]));
    probed_expect(&p.rows, 0, "attn.k_norm", "g_var", sqrt(terms[1]));
    probed_value(&p.rows, 1, "attn.q_norm", "dist_var");
    probed_value(&p.rows, 1, "mlp.norm", "g_var");
    probed_free(&p);
}
