/* Norms alone against PyTorch: outputs, gradients and running statistics. `make check` runs the
   tests in the project's folder. */
#include "tests/model/golden.h"
#include "tests/support.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char POOLING[] = "tests/golden/pooling.txt", ALONE[] = "tests/golden/norms.txt";

/* A result, and its name in a golden file. */
struct golden_result {
    const char *key;
    size_t count;
    const real *values;
};

/* Compares the values of key PREFIX MARK KEY:k. */
static void expect_result(const char *path, const char *prefix, const char *mark, int k,
                          struct golden_result result) {
    const double tolerance = in_double() ? (path == ALONE ? 1e-12 : 1e-8) : 5e-6;
    char key[64];
    snprintf(key, sizeof key, "%s%s%s:%d", prefix, mark, result.key, k);
    golden_expect(path, key, result.count, result.values, tolerance,
                  strcmp(prefix, "prepbn:") ? 0 : 1);
}

static void expect_results(const char *prefix, int k, size_t count,
                           const struct golden_result *results) {
    for (size_t i = 0; i < count; i++) expect_result(POOLING, prefix, "", k, results[i]);
}

/* ---- Norms that pool over tokens, alone ---- */

/* Some batches of N samples in training, then another one in evaluation; as trained() of
   make_golden.py. */
struct series {
    int batches, N, channels;
    double offset; // of channel c: offset c
    int wave;
};

struct one_batch {
    real x[30], y[30], dy[30], dx[30];
};

static void pass_batch(struct lone_norm *lone, const struct series *s, int k, struct one_batch *p) {
    for (int n = 0; n < s->N; n++)
        for (int c = 0; c < s->channels; c++) {
            int i = n * s->channels + c;
            p->x[i] = (real)(sin(0.7 * n + 1.9 * c + k) * (c + 1) + s->offset * c);
            p->dy[i] = (real)cos(0.3 * n * (c + s->wave) + k);
        }
    memset(lone->lists.param.grad, 0, lone->lists.param.size * sizeof(real));
    lone->tokens.training = k < s->batches;
    lone_norm_forward(lone, p->y, p->x);
    if (k < s->batches) lone_norm_backward(lone, p->dx, p->dy, p->x);
}

/* Element c is start + step c. */
static void set_start(struct param *param, int channels, double start, double step) {
    for (int c = 0; c < channels; c++) param->value[c] = (real)(start + step * c);
}

/* With statistics over all tokens also Regularized BatchNorm's dx, with a quarter of the penalty. */
static void check_batchnorm(int64_t axis, size_t T_alone, const char *prefix) {
    const struct series series = {.batches = 3, .N = 10, .channels = 3, .offset = 1};
    size_t count = 30, states = axis == BN_AXIS_BATCH ? T_alone * 3 : 3;
    struct norm_options options = small_norms;
    norms_set(&options, "bn-axis", (double)axis);
    struct lone_norm lone = lone_norm_with(norm_find("bn"), &options, 10 / T_alone, T_alone, 3);
    struct norm *norm = &lone.norm;
    set_start(&norm->param[0], 3, 1, 0.1);
    set_start(&norm->param[1], 3, 0, 0.2);
    for (int k = 0; k <= series.batches; k++) {
        struct one_batch batch;
        pass_batch(&lone, &series, k, &batch);
        if (k == series.batches) {
            expect_results(prefix, k, 1, (struct golden_result[]){{"eval_y", count, batch.y}});
            break;
        }
        const struct golden_result results[] = {{"y", count, batch.y},
                                                {"dx", count, batch.dx},
                                                {"dweight", 3, norm->param[0].grad},
                                                {"running_mean", states, norm->state[0]},
                                                {"running_var", states, norm->state[1]},
                                                {"dbias", 3, norm->param[1].grad}};
        expect_results(prefix, k, axis == BN_AXIS_BATCH ? 5 : 6, results);
        if (axis == BN_AXIS_BATCH) continue;
        norm_set(norm, "rbn-mean", 0.7);
        norm_set(norm, "rbn-var", 0.4);
        lone.tokens.scale = 0.25;
        lone_norm_backward(&lone, batch.dx, batch.dy, batch.x);
        expect_results(prefix, k, 1, (struct golden_result[]){{"rbn_dx", count, batch.dx}});
        norm_set(norm, "rbn-mean", 0);
        norm_set(norm, "rbn-var", 0);
    }
}

Test(golden, batchnorm) {
    check_batchnorm(BN_AXIS_BATCH_TIME, 10, "bn:");
    check_batchnorm(BN_AXIS_BATCH, 2, "bn:position_");
}

/* The first two batches are warm-up. */
Test(golden, power) {
    const struct series series = {.batches = 5, .N = 5, .channels = 4, .offset = 0.5};
    for (int divisor = 0; divisor < 2; divisor++) {
        struct lone_norm lone = lone_norm(norm_find("pn"), 1, 5, 4);
        struct norm *norm = &lone.norm;
        norm->heads = 2;
        norm_set(norm, "pn-divisor", divisor);
        norm_set(norm, "pn-warmup", 2);
        norm_set(norm, "pn-alpha-bkw", 0.8);
        set_start(&norm->param[0], 4, 1, 0.1);
        set_start(&norm->param[1], 4, 0, 0.2);
        for (int k = 0; k <= series.batches; k++) {
            struct one_batch batch;
            pass_batch(&lone, &series, k, &batch);
            const struct golden_result results[] = {
                {k < series.batches ? "y" : "eval_y", 20, batch.y},
                {"dx", 20, batch.dx},
                {"running_phi", 4, norm->state[0]},
                {"ema_gz", 4, norm->state[1]}};
            expect_results(divisor ? "pn:batch:" : "pn:psi:", k, k < series.batches ? 4 : 1,
                           results);
        }
    }
}

/* The first batch as bn; the limits grow over the next three. */
Test(golden, renorm) {
    const struct series series = {.batches = 6, .N = 5, .channels = 4, .offset = 0.5, .wave = 1};
    struct lone_norm lone = lone_norm(norm_find("brn"), 1, 5, 4);
    struct norm *norm = &lone.norm;
    norm_set(norm, "brn-r-max", 1.5);
    norm_set(norm, "brn-d-max", 0.4);
    norm_set(norm, "brn-warmup", 1);
    norm_set(norm, "brn-relax", 3);
    set_start(&norm->param[0], 4, 1, 0.1);
    set_start(&norm->param[1], 4, 0, 0.2);
    for (int k = 0; k <= series.batches; k++) {
        struct one_batch batch;
        pass_batch(&lone, &series, k, &batch);
        const struct golden_result results[] = {{k < series.batches ? "y" : "eval_y", 20, batch.y},
                                                {"dx", 20, batch.dx},
                                                {"dweight", 4, norm->param[0].grad},
                                                {"dbias", 4, norm->param[1].grad},
                                                {"running_mean", 4, norm->state[0]},
                                                {"running_var", 4, norm->state[1]}};
        expect_results("brn:", k, k < series.batches ? 6 : 1, results);
    }
}

/* Lambda falls over the first three batches. */
Test(golden, prepbn) {
    const struct series series = {.batches = 4, .N = 5, .channels = 4, .offset = 0.5};
    struct lone_norm lone = lone_norm(norm_find("prepbn"), 1, 5, 4);
    struct norm *norm = &lone.norm;
    norm_set(norm, "prepbn-steps", 3);
    set_start(&norm->param[0], 4, 1, 0.1);
    set_start(&norm->param[3], 4, 1, -0.1);
    for (int k = 0; k <= series.batches; k++) {
        struct one_batch batch;
        pass_batch(&lone, &series, k, &batch);
        const struct golden_result results[] = {{"y", 20, batch.y}, {"dx", 20, batch.dx}};
        expect_results("prepbn:", k, k < series.batches ? 2 : 1, results);
        for (int i = 0; k < series.batches && norm->kind->param[i].name; i++)
            expect_result(POOLING, "prepbn:", "", k,
                          (struct golden_result){norm->kind->param[i].name,
                                                 norm_param_size(norm, i), norm->param[i].grad});
    }
}

/* Norms alone: training on batch 0, those with running statistics on batch 1 too, then an
   evaluation of the last batch. Element i of a parameter starts at the value of `parts` + 0.1 i.
   `name` is that of the file's keys. */
static void check_alone(const char *name, const struct norm_kind *kind,
                        const struct norm_options *options) {
    enum { LONE_B = 2, LONE_T = 3, CHANNELS = 6, COUNT = LONE_B * LONE_T * CHANNELS };
    static const struct {
        const char *name;
        double start;
    } parts[] = {{"alpha", 0.7}, {"shift", -0.3},     {"scale", 1.9},       {"weight", 1.1},
                 {"bias", 0.2},  {"prior_mean", 0.4}, {"prior_logv", -0.5}, {"beta", -0.2},
                 {"lam", 1.7},   {"down", -0.6},      {"up", -0.5}};
    struct lone_norm lone = lone_norm_with(kind, options, LONE_B, LONE_T, CHANNELS);
    struct norm *norm = &lone.norm;
    for (int i = 0; kind->param[i].name; i++)
        for (size_t part = 0; part < sizeof parts / sizeof *parts; part++)
            for (int c = 0; c < (int)norm_param_size(norm, i); c++)
                if (!strcmp(kind->param[i].name, parts[part].name))
                    norm->param[i].value[c] = (real)(parts[part].start + 0.1 * c);
    real x[COUNT], y[COUNT], dy[COUNT], dx[COUNT];
    for (int k = 0; k < (kind->state[0].name ? 2 : 1); k++) {
        for (int i = 0; i < COUNT; i++) {
            x[i] = (real)(sin(1.7 * i + k) * (1 + i % CHANNELS) + i % 3);
            dy[i] = (real)cos(0.9 * i * i + k);
        }
        memset(lone.lists.param.grad, 0, lone.lists.param.size * sizeof(real));
        lone_norm_forward(&lone, y, x);
        lone_norm_backward(&lone, dx, dy, x);
        expect_result(ALONE, name, ":", k, (struct golden_result){"y", COUNT, y});
        expect_result(ALONE, name, ":", k, (struct golden_result){"dx", COUNT, dx});
        for (int i = 0; kind->param[i].name; i++)
            expect_result(ALONE, name, ":d", k,
                          (struct golden_result){kind->param[i].name, norm_param_size(norm, i),
                                                 norm->param[i].grad});
        for (int i = 0; kind->state[i].name; i++)
            if (!kind->state[i].counts) // num_batches_tracked
                expect_result(
                    ALONE, name, ":", k,
                    (struct golden_result){kind->state[i].name, CHANNELS, norm->state[i]});
    }
    if (!kind->state[0].name) return;
    lone.tokens.training = false;
    lone_norm_forward(&lone, y, x);
    golden_expect(ALONE, "in:eval_y", COUNT, y, in_double() ? 1e-12 : 5e-6, 0);
}

static void check_norm_alone(const struct pair *pair) {
    static const char *const known[] = {"ln",   "rms", "scale", "l2",       "gn",   "in",   "dyt",
                                        "derf", "cln", "ts",    "seednorm", "bhyt", "gated"};
    const struct norm_kind *kind = norm_kinds[pair->norm];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(kind->name, known[i])) check_alone(kind->name, kind, &small_norms);
}

Test(golden, norm_alone) {
    every_norm(check_norm_alone);
}

Test(golden, partial_rms) {
    struct norm_options options = small_norms;
    norms_set(&options, "rms-fraction", 0.4);
    check_alone("rms-fraction", norm_find("rms"), &options);
}
