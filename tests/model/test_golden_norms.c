/* Norms alone against PyTorch: outputs, gradients and running statistics. `make check` runs the
   tests in the project's folder. */
#include "tests/model/golden.h"
#include "tests/support.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* BatchNorm alone: three batches in training, a fourth in evaluation. With statistics over all
   tokens also Regularized BatchNorm's dx, with a quarter of the penalty. */
static void check_batchnorm(int64_t axis, size_t T_alone, const char *prefix) {
    enum { N = 10, CHANNELS = 3, COUNT = N * CHANNELS };
    const char *path = "tests/golden/batchnorm.txt";
    size_t states = axis == BN_AXIS_BATCH ? T_alone * CHANNELS : CHANNELS;
    struct norm_options options = small_norms;
    norms_set(&options, "bn-axis", (double)axis);
    struct lone_norm lone =
        lone_norm_with(norm_find("bn"), &options, N / T_alone, T_alone, CHANNELS);
    struct norm *norm = &lone.norm;
    for (int c = 0; c < CHANNELS; c++) {
        norm->param[0].value[c] = (real)(1 + 0.1 * c);
        norm->param[1].value[c] = (real)(0.2 * c);
    }
    for (int k = 0; k < 4; k++) {
        real x[COUNT], y[COUNT], dy[COUNT], dx[COUNT];
        for (int n = 0; n < N; n++)
            for (int c = 0; c < CHANNELS; c++) {
                x[n * CHANNELS + c] = (real)(sin(0.7 * n + 1.9 * c + k) * (c + 1) + c);
                dy[n * CHANNELS + c] = (real)cos(0.3 * n * c + k);
            }
        lone.tokens.training = k < 3;
        lone_norm_forward(&lone, y, x);
        if (k == 3) {
            golden_expect_results(path, prefix, k, 1,
                                  (struct golden_result[]){{"eval_y", COUNT, y}});
            break;
        }
        memset(lone.lists.param.grad, 0, lone.lists.param.size * sizeof(real));
        lone_norm_backward(&lone, dx, dy, x);
        const struct golden_result results[] = {{"y", COUNT, y},
                                                {"dx", COUNT, dx},
                                                {"dweight", CHANNELS, norm->param[0].grad},
                                                {"running_mean", states, norm->state[0]},
                                                {"running_var", states, norm->state[1]},
                                                {"dbias", CHANNELS, norm->param[1].grad}};
        golden_expect_results(path, prefix, k, axis == BN_AXIS_BATCH ? 5 : 6, results);
        if (axis == BN_AXIS_BATCH) continue;
        norm_set(norm, "rbn-mean", 0.7);
        norm_set(norm, "rbn-var", 0.4);
        lone.tokens.scale = 0.25;
        lone_norm_backward(&lone, dx, dy, x);
        golden_expect_results(path, prefix, k, 1, (struct golden_result[]){{"rbn_dx", COUNT, dx}});
        norm_set(norm, "rbn-mean", 0);
        norm_set(norm, "rbn-var", 0);
    }
}

Test(golden, batchnorm) {
    check_batchnorm(BN_AXIS_BATCH_TIME, 10, "");
    check_batchnorm(BN_AXIS_BATCH, 2, "position_");
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
    const char *path = "tests/golden/norms.txt";
    double tolerance = in_double() ? 1e-12 : 5e-6;
    struct lone_norm lone = lone_norm_with(kind, options, LONE_B, LONE_T, CHANNELS);
    struct norm *norm = &lone.norm;
    for (int i = 0; kind->param[i].name; i++)
        for (size_t part = 0; part < sizeof parts / sizeof *parts; part++)
            for (int c = 0; c < (int)norm_param_size(norm, i); c++)
                if (!strcmp(kind->param[i].name, parts[part].name))
                    norm->param[i].value[c] = (real)(parts[part].start + 0.1 * c);
    real x[COUNT], y[COUNT], dy[COUNT], dx[COUNT];
    char key[64];
    for (int k = 0; k < (kind->state[0].name ? 2 : 1); k++) {
        for (int i = 0; i < COUNT; i++) {
            x[i] = (real)(sin(1.7 * i + k) * (1 + i % CHANNELS) + i % 3);
            dy[i] = (real)cos(0.9 * i * i + k);
        }
        memset(lone.lists.param.grad, 0, lone.lists.param.size * sizeof(real));
        lone_norm_forward(&lone, y, x);
        lone_norm_backward(&lone, dx, dy, x);
        snprintf(key, sizeof key, "%s:y:%d", name, k);
        golden_expect(path, key, COUNT, y, tolerance, 0);
        snprintf(key, sizeof key, "%s:dx:%d", name, k);
        golden_expect(path, key, COUNT, dx, tolerance, 0);
        for (int i = 0; kind->param[i].name; i++) {
            snprintf(key, sizeof key, "%s:d%s:%d", name, kind->param[i].name, k);
            golden_expect(path, key, norm_param_size(norm, i), norm->param[i].grad, tolerance, 0);
        }
        for (int i = 0; kind->state[i].name; i++) {
            if (kind->state[i].counts) continue; // num_batches_tracked
            snprintf(key, sizeof key, "%s:%s:%d", name, kind->state[i].name, k);
            golden_expect(path, key, CHANNELS, norm->state[i], tolerance, 0);
        }
    }
    if (kind->state[0].name) {
        lone.tokens.training = false;
        lone_norm_forward(&lone, y, x);
        lone_norm_backward(&lone, dx, dy, x);
        snprintf(key, sizeof key, "%s:eval_y", name);
        golden_expect(path, key, COUNT, y, tolerance, 0);
        snprintf(key, sizeof key, "%s:eval_dx", name);
        golden_expect(path, key, COUNT, dx, tolerance, 0);
    }
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

/* PowerNorm alone: five batches in training, the first two as warm-up, and a sixth in
   evaluation. */
Test(golden, power) {
    enum { N = 5, CHANNELS = 4, COUNT = N * CHANNELS, BATCHES = 5 };
    for (int divisor = 0; divisor < 2; divisor++) {
        struct lone_norm lone = lone_norm(norm_find("pn"), 1, N, CHANNELS);
        struct norm *norm = &lone.norm;
        norm->heads = 2;
        norm_set(norm, "pn-divisor", divisor);
        norm_set(norm, "pn-warmup", 2);
        norm_set(norm, "pn-alpha-bkw", 0.8);
        for (int c = 0; c < CHANNELS; c++) {
            norm->param[0].value[c] = (real)(1 + 0.1 * c);
            norm->param[1].value[c] = (real)(0.2 * c);
        }
        for (int k = 0; k <= BATCHES; k++) {
            real x[COUNT], y[COUNT], dy[COUNT], dx[COUNT];
            for (int n = 0; n < N; n++)
                for (int c = 0; c < CHANNELS; c++) {
                    x[n * CHANNELS + c] = (real)(sin(0.7 * n + 1.9 * c + k) * (c + 1) + 0.5 * c);
                    dy[n * CHANNELS + c] = (real)cos(0.3 * n * c + k);
                }
            lone.tokens.training = k < BATCHES;
            lone_norm_forward(&lone, y, x);
            if (k < BATCHES) lone_norm_backward(&lone, dx, dy, x);
            const struct golden_result results[] = {{k < BATCHES ? "y" : "eval_y", COUNT, y},
                                                    {"dx", COUNT, dx},
                                                    {"running_phi", CHANNELS, norm->state[0]},
                                                    {"ema_gz", CHANNELS, norm->state[1]}};
            golden_expect_results("tests/golden/power.txt", divisor ? "batch:" : "psi:", k,
                                  k < BATCHES ? 4 : 1, results);
        }
    }
}

/* Batch Renormalization alone: six batches in training, the first as bn and the limits growing over
   the next three, and a seventh in evaluation. */
Test(golden, renorm) {
    enum { N = 5, CHANNELS = 4, COUNT = N * CHANNELS, BATCHES = 6 };
    struct lone_norm lone = lone_norm(norm_find("brn"), 1, N, CHANNELS);
    struct norm *norm = &lone.norm;
    norm_set(norm, "brn-r-max", 1.5);
    norm_set(norm, "brn-d-max", 0.4);
    norm_set(norm, "brn-warmup", 1);
    norm_set(norm, "brn-relax", 3);
    for (int c = 0; c < CHANNELS; c++) {
        norm->param[0].value[c] = (real)(1 + 0.1 * c);
        norm->param[1].value[c] = (real)(0.2 * c);
    }
    for (int k = 0; k <= BATCHES; k++) {
        real x[COUNT], y[COUNT], dy[COUNT], dx[COUNT];
        for (int n = 0; n < N; n++)
            for (int c = 0; c < CHANNELS; c++) {
                x[n * CHANNELS + c] = (real)(sin(0.7 * n + 1.9 * c + k) * (c + 1) + 0.5 * c);
                dy[n * CHANNELS + c] = (real)cos(0.3 * n * (c + 1) + k);
            }
        memset(lone.lists.param.grad, 0, lone.lists.param.size * sizeof(real));
        lone.tokens.training = k < BATCHES;
        lone_norm_forward(&lone, y, x);
        if (k < BATCHES) lone_norm_backward(&lone, dx, dy, x);
        const struct golden_result results[] = {
            {k < BATCHES ? "y" : "eval_y", COUNT, y},   {"dx", COUNT, dx},
            {"dweight", CHANNELS, norm->param[0].grad}, {"dbias", CHANNELS, norm->param[1].grad},
            {"running_mean", CHANNELS, norm->state[0]}, {"running_var", CHANNELS, norm->state[1]}};
        golden_expect_results("tests/golden/renorm.txt", "", k, k < BATCHES ? 6 : 1, results);
    }
}

/* PRepBN alone: four batches in training, lambda falling over the first three, and a fifth in
   evaluation. */
Test(golden, prepbn) {
    enum { N = 5, CHANNELS = 4, COUNT = N * CHANNELS, BATCHES = 4 };
    const char *path = "tests/golden/prepbn.txt";
    double tolerance = in_double() ? 1e-8 : 1e-5;
    struct lone_norm lone = lone_norm(norm_find("prepbn"), 1, N, CHANNELS);
    struct norm *norm = &lone.norm;
    norm_set(norm, "prepbn-steps", 3);
    for (int c = 0; c < CHANNELS; c++) {
        norm->param[0].value[c] = (real)(1 + 0.1 * c);
        norm->param[3].value[c] = (real)(1 - 0.1 * c);
    }
    for (int k = 0; k <= BATCHES; k++) {
        real x[COUNT], y[COUNT], dy[COUNT], dx[COUNT];
        char key[64];
        for (int n = 0; n < N; n++)
            for (int c = 0; c < CHANNELS; c++) {
                x[n * CHANNELS + c] = (real)(sin(0.7 * n + 1.9 * c + k) * (c + 1) + 0.5 * c);
                dy[n * CHANNELS + c] = (real)cos(0.3 * n * c + k);
            }
        lone.tokens.training = k < BATCHES;
        lone_norm_forward(&lone, y, x);
        snprintf(key, sizeof key, "y:%d", k);
        golden_expect(path, key, COUNT, y, tolerance, 0);
        if (k == BATCHES) break;
        memset(lone.lists.param.grad, 0, lone.lists.param.size * sizeof(real));
        lone_norm_backward(&lone, dx, dy, x);
        snprintf(key, sizeof key, "dx:%d", k);
        golden_expect(path, key, COUNT, dx, tolerance, 0);
        for (int i = 0; norm->kind->param[i].name; i++) {
            snprintf(key, sizeof key, "%s:%d", norm->kind->param[i].name, k);
            golden_expect(path, key, norm->kind->param[i].scalar ? 1 : CHANNELS,
                          norm->param[i].grad, tolerance, 1);
        }
    }
}
