/* Probes of streams, heads, weights and updates against their definitions, computed directly on a
   small model; and that watching changes nothing. */
#include "data/text/corpus.h"
#include "model/lab/probe.h"
#include "model/optimizer/optimizer.h"
#include "tests/model/probed.h"
#include "tests/support.h"
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
            add += pow((double)s->connection.sum[i] -
                           s->connection.kind->functions->kept(&s->connection, i),
                       2);
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
        model_init(&model, &config, SMALL_V, 1, 1);
        probe_init(&probes, &model, (struct probe_sink){probed_collect, &rows});
        model.probing = true;
        model_zero_grad(&model);
        model_forward(&model, &batch, true, 0);
        model_backward(&model, &batch, 0, 0.25);
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
    struct model model;
    struct probe probes;
    struct probed_rows rows = {0};
    config.norms.watch = 1;
    struct batch batch = make_batch(B, T, SMALL_V, 3);
    model_init(&model, &config, SMALL_V, B, 1);
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
    batch_free(&batch);
    probe_free(&probes);
    model_free(&model);
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
    struct probed_rows *rows = calloc(3, sizeof *rows);
    size_t size = 0, state_size = 0;
    for (int run = 0; run < 3; run++) {
        struct model_config config = pair_config(pair);
        config.dropout = 0.1;
        config.block_size = LENGTH;
        config.norms.watch = run > 0;
        omp_set_num_threads(run == 2 ? 3 : 1);
        struct model model;
        struct optimizer adam;
        struct probe probes;
        struct batch batch = make_batch(SEQUENCES, LENGTH, SMALL_V, 3);
        model_init(&model, &config, SMALL_V, SEQUENCES, 1);
        model.threads = run == 2 ? 3 : 1;
        adamw_init(&adam, (struct adamw_numbers){0.9, 0.99, 1e-8, 0.1, 1}, &model.lists.param, 1);
        probe_init(&probes, &model, (struct probe_sink){probed_collect, &rows[run]});
        for (int step = 0; step < 3; step++) {
            model.probing = run && step == 1;
            model_zero_grad(&model);
            model_forward(&model, &batch, true, step);
            losses[run][step] = model_backward(&model, &batch, step, 1);
            if (model.probing) probe_keep(&probes, &model);
            optimizer_step(&adam, &model.lists.param, 1e-2,
                           optimizer_grad_norm(&adam, &model.lists.param));
            if (model.probing) probe_write(&probes, &model, &batch, 1, step);
        }
        size = model.lists.param.size;
        state_size = model.lists.state.size;
        weights[run] = copy_values(&model.lists.param);
        states[run] = copy_values(&model.lists.state);
        batch_free(&batch);
        optimizer_free(&adam);
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
        const struct probed_row *one = &rows[1].row[i], *three = &rows[2].row[i];
        cr_expect(one->layer == three->layer && !strcmp(one->site, three->site) &&
                      !strcmp(one->metric, three->metric) && one->value == three->value &&
                      isfinite(one->value),
                  "%d %s %s: %g and %g", one->layer, one->site, one->metric, one->value,
                  three->value);
    }
    for (int run = 0; run < 3; run++) free(weights[run]), free(states[run]);
    free(rows);
}

Test(probe, watching_changes_nothing) {
    every_norm_and_placement(check_watching_changes_nothing);
}
