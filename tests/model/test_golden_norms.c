/* Norms alone against PyTorch: outputs, gradients and running statistics. `make check` runs the
   tests in the project's folder. */
#include "tests/model/golden.h"
#include "tests/support.h"
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
    const double tolerance = path == ALONE ? (in_double() ? 1e-12 : 5e-6)
                             : in_double() ? 1e-8
                                           : 1e-5;
    char key[64];
    snprintf(key, sizeof key, "%s%s%s:%d", prefix, mark, result.key, k);
    golden_expect(path, key, result.count, result.values, tolerance,
                  strcmp(prefix, "prepbn:") ? 0 : 1);
}

/* ---- Norms that pool over tokens, alone ---- */

/* Some batches of N samples in training, then another one in evaluation; as pooled() of
   make_golden.py. */
struct series {
    const char *prefix; // of its keys
    int batches, N, channels;
    double offset; // of channel c: offset c
    int wave;
    const char *evaluated; // the key of y in evaluation
};

static real x[36], y[36], dy[36], dx[36]; // of a batch

static void pass_batch(struct lone_norm *lone, const struct series *s, int k) {
    for (int n = 0; n < s->N; n++)
        for (int c = 0; c < s->channels; c++) {
            int i = n * s->channels + c;
            x[i] = (real)(sin(0.7 * n + 1.9 * c + k) * (c + 1) + s->offset * c);
            dy[i] = (real)cos(0.3 * n * (c + s->wave) + k);
        }
    memset(lone->lists.param.grad, 0, lone->lists.param.size * sizeof(real));
    lone->tokens.training = k < s->batches;
    lone_norm_forward(lone, y, x);
    if (lone->tokens.training) lone_norm_backward(lone, dx, dy, x);
}

/* Compares y, dx and the other results of each batch. */
static void check_series(struct lone_norm *lone, const struct series *s, size_t count,
                         const struct golden_result *others) {
    const size_t size = (size_t)(s->N * s->channels);
    for (int k = 0; k < s->batches; k++) {
        pass_batch(lone, s, k);
        expect_result(POOLING, s->prefix, "", k, (struct golden_result){"y", size, y});
        expect_result(POOLING, s->prefix, "", k, (struct golden_result){"dx", size, dx});
        for (size_t i = 0; i < count; i++) expect_result(POOLING, s->prefix, "", k, others[i]);
        if (strcmp(s->prefix, "bn:") != 0) continue;
        norm_set(&lone->norm, "rbn-mean", 0.7); // Regularized BatchNorm, a quarter of its penalty
        norm_set(&lone->norm, "rbn-var", 0.4);
        lone->tokens.scale = 0.25;
        lone_norm_backward(lone, dx, dy, x);
        expect_result(POOLING, s->prefix, "", k, (struct golden_result){"rbn_dx", size, dx});
        norm_set(&lone->norm, "rbn-mean", 0);
        norm_set(&lone->norm, "rbn-var", 0);
    }
    pass_batch(lone, s, s->batches);
    expect_result(POOLING, s->prefix, "", s->batches,
                  (struct golden_result){s->evaluated, size, y});
}

/* Element c is start + step c. */
static void set_start(struct param *param, int channels, double start, double step) {
    for (int c = 0; c < channels; c++) param->value[c] = (real)(start + step * c);
}

Test(golden, batchnorm) {
    for (int axis = BN_AXIS_BATCH_TIME; axis <= BN_AXIS_BATCH; axis++) {
        const bool positions = axis == BN_AXIS_BATCH; // two
        const struct series series = {positions ? "bn:position_" : "bn:", 3, 10, 3, 1, 0, "eval_y"};
        gradient_case("bn-axis %d", axis);
        const size_t T = positions ? 2 : 10, states = positions ? 6 : 3;
        struct norm_options options = small_norms();
        norms_set(&options, "bn-axis", axis);
        struct lone_norm lone = lone_norm_with(norm_find("bn"), &options, 10 / T, T, 3);
        const struct golden_result results[] = {{"running_mean", states, lone.norm.state[0]},
                                                {"running_var", states, lone.norm.state[1]},
                                                {"dweight", 3, lone.norm.param[0].grad},
                                                {"dbias", 3, lone.norm.param[1].grad}};
        set_start(&lone.norm.param[0], 3, 1, 0.1);
        set_start(&lone.norm.param[1], 3, 0, 0.2);
        check_series(&lone, &series, positions ? 3 : 4, results);
    }
}

/* The first two batches are warm-up. */
Test(golden, power) {
    for (int divisor = PN_DIVISOR_PSI; divisor <= PN_DIVISOR_BATCH; divisor++) {
        const struct series series = {divisor ? "pn:batch:" : "pn:psi:", 5, 5, 4, 0.5, 0, "eval_y"};
        struct lone_norm lone = lone_norm(norm_find("pn"), 1, 5, 4);
        lone.norm.heads = 2;
        gradient_case("pn-divisor %d", divisor);
        norm_set(&lone.norm, "pn-divisor", divisor);
        norm_set(&lone.norm, "pn-warmup", 2);
        norm_set(&lone.norm, "pn-alpha-bkw", 0.8);
        set_start(&lone.norm.param[0], 4, 1, 0.1);
        set_start(&lone.norm.param[1], 4, 0, 0.2);
        const struct golden_result results[] = {{"running_phi", 4, lone.norm.state[0]},
                                                {"ema_gz", 4, lone.norm.state[1]}};
        check_series(&lone, &series, 2, results);
    }
}

/* The first batch as bn; the limits grow over the next three. */
Test(golden, renorm) {
    const struct series series = {"brn:", 6, 5, 4, 0.5, 1, "eval_y"};
    struct lone_norm lone = lone_norm(norm_find("brn"), 1, 5, 4);
    norm_set(&lone.norm, "brn-r-max", 1.5);
    norm_set(&lone.norm, "brn-d-max", 0.4);
    norm_set(&lone.norm, "brn-warmup", 1);
    norm_set(&lone.norm, "brn-relax", 3);
    set_start(&lone.norm.param[0], 4, 1, 0.1);
    set_start(&lone.norm.param[1], 4, 0, 0.2);
    const struct golden_result results[] = {{"dweight", 4, lone.norm.param[0].grad},
                                            {"dbias", 4, lone.norm.param[1].grad},
                                            {"running_mean", 4, lone.norm.state[0]},
                                            {"running_var", 4, lone.norm.state[1]}};
    check_series(&lone, &series, 4, results);
}

/* Lambda falls over the first three batches. */
Test(golden, prepbn) {
    const struct series series = {"prepbn:", 4, 5, 4, 0.5, 0, "y"};
    struct lone_norm lone = lone_norm(norm_find("prepbn"), 1, 5, 4);
    struct golden_result results[NORM_TENSORS];
    size_t count = 0;
    norm_set(&lone.norm, "prepbn-steps", 3);
    set_start(&lone.norm.param[0], 4, 1, 0.1);
    set_start(&lone.norm.param[3], 4, 1, -0.1);
    for (int i = 0; lone.norm.kind->param[i].name; i++)
        results[count++] = (struct golden_result){lone.norm.kind->param[i].name,
                                                  lone.norm.param[i].size, lone.norm.param[i].grad};
    check_series(&lone, &series, count, results);
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
            for (int c = 0; c < (int)norm->param[i].size; c++)
                if (!strcmp(kind->param[i].name, parts[part].name))
                    norm->param[i].value[c] = (real)(parts[part].start + 0.1 * c);
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
                          (struct golden_result){kind->param[i].name, norm->param[i].size,
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
    char key[64];
    snprintf(key, sizeof key, "%s:eval_y", name);
    golden_expect(ALONE, key, COUNT, y, in_double() ? 1e-12 : 5e-6, 0);
}

/* Every norm has a case: these are compared in the tests above, and pn-v is pn in its warm-up. */
static void check_norm_alone(const struct pair *pair) {
    static const char *const above[] = {"bn", "brn", "pn", "pn-v", "prepbn"};
    const struct norm_kind *kind = norm_kinds[pair->norm];
    const struct norm_options options = small_norms();
    bool alone = kind->forward != NULL;
    for (size_t i = 0; i < sizeof above / sizeof *above; i++)
        if (!strcmp(kind->name, above[i])) alone = false;
    if (alone) check_alone(kind->name, kind, &options);
}

Test(golden, norm_alone) {
    every_norm(check_norm_alone);
}

Test(golden, detached) {
    static const char *const cases[][2] = {
        {"ln", "mean"}, {"ln", "std"}, {"rms", "std"}, {"bn", "mean"}, {"bn", "std"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[32], option[32];
        snprintf(name, sizeof name, "%s-detach-%s", cases[i][0], cases[i][1]);
        snprintf(option, sizeof option, "norm-detach-%s", cases[i][1]);
        struct norm_options options = small_norms();
        norms_set(&options, option, 1);
        check_alone(name, norm_find(cases[i][0]), &options);
    }
}

Test(golden, partial_rms) {
    struct norm_options options = small_norms();
    norms_set(&options, "rms-fraction", 0.4);
    check_alone("rms-fraction", norm_find("rms"), &options);
}
