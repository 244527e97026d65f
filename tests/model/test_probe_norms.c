/* Probes of norms against their definitions, computed directly on a small model: distances from the
   tracked statistics, terms of the gradient, penalties. */
#include "model/norm/watch.h"
#include "tests/model/probed.h"
#include "tests/support.h"
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

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
                check_terms(&p, &kinds[k], sites[i], s[i]->connection.x, p.model.scratch[i].dnormed,
                            gamma);
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
                   *dy = p.model.scratch[0].dqkv[QKV_K] + row * 3;
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
