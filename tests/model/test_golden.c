/* Against PyTorch: logits, every gradient (or its products with two waves), 20 AdamW steps and the
   running statistics of each tests/golden/NORM-PLACEMENT.txt, and norms alone, made by
   scripts/make_golden.py. The files hold results only: both sides start from the same formula.
   `make check` runs the tests in the project's folder. */
#include "data/text/corpus.h"
#include "model/lab/adam.h"
#include "tests/support.h"
#include <criterion/parameterized.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { V = 7, B = 3, T = 5, STEPS = 20 };

/* The values of `key` in the golden file, `count` of them; fails if they are not there. */
static void golden(const char *path, const char *key, size_t count, real *values) {
    FILE *file = fopen(path, "r");
    cr_assert(file != NULL, "%s is missing: make it with scripts/make_golden.py", path);
    char *line = NULL;
    size_t size = 0;
    bool found = false;
    while (!found && getline(&line, &size, file) >= 0) {
        char *at = line, *word = strsep(&at, " ");
        if (strcmp(word, key) != 0 || !at) continue;
        found = true;
        cr_assert_eq((size_t)strtoull(at, &at, 10), count, "%s: %s has another size", path, key);
        for (size_t i = 0; i < count; i++) {
            char *end;
            values[i] = (real)strtod(at, &end);
            cr_assert(end != at, "%s: %s is cut", path, key);
            at = end;
        }
    }
    free(line);
    fclose(file);
    cr_assert(found, "%s: no %s", path, key);
}

static void expect_golden(const char *path, const char *key, size_t count, const real *got,
                          double tolerance, double typical) {
    real *want = malloc(count * sizeof(real));
    golden(path, key, count, want);
    double apart = difference(count, got, want), scale = fmax(largest(count, want), typical);
    cr_expect(apart <= tolerance * scale, "%s: %s: off by %g where the largest is %g", path, key,
              apart, scale);
    free(want);
}

/* What an element of a gradient is measured against, if it is smaller: 1 % of the model's largest.
   A sum that cancels to 0, as that of a bias before bn does, is rounded as its terms are, and they
   are as large as other gradients. */
static double typical_gradient(const char *path, const char *key, size_t count, double most) {
    real *want = malloc(count * sizeof(real));
    golden(path, key, count, want);
    bool cancels = !in_double() && largest(count, want) < 1e-12 * most;
    free(want);
    return (cancels ? 1e-1 : 1e-2) * most;
}

/* The start: 0.4 sin(1.3 i + s), s the sum of the name's bytes, and 1 more in a norm's weight. */
static void start(struct tensor_list *list) {
    for (size_t k = 0; k < list->count; k++) {
        const struct tensor *t = &list->tensor[k];
        int sum = 0;
        for (const char *c = t->name; *c; c++) sum += (unsigned char)*c;
        bool norm = strstr(t->name, "ln_") || strstr(t->name, "norm");
        double more = norm && strstr(t->name, "weight") ? 1 : 0;
        for (size_t i = 0; i < t->size; i++)
            list->value[t->offset + i] = (real)(more + 0.4 * sin(1.3 * (double)i + sum));
    }
}

static void fill(struct batch *batch, int k) {
    for (int b = 0; b < B; b++)
        for (int t = 0; t < T; t++) {
            int x = (3 * b + 2 * t + b * t + k) % V;
            batch->ids[b * T + t] = x;
            batch->targets[b * T + t] = (5 * x + t + 1) % V;
        }
}

/* Which models the golden files hold: norms that PyTorch has in pre and post, ln in every placement
   and with the inner norms. */
static bool in_torch(const char *norm, const char *placement, bool inner) {
    const char *const norms[] = {"none", "ln", "bn", "rms"};
    if (!strcmp(norm, "ln")) return true;
    for (int i = 0; i < 4; i++)
        if (!strcmp(norm, norms[i]))
            return !inner && (!strcmp(placement, "pre") || !strcmp(placement, "post"));
    return false;
}

/* A gradient, or its products with two waves. */
static void expect_gradients(const char *path, const struct tensor *t, const real *gradient,
                             bool whole, double tolerance, double most) {
    char key[128];
    snprintf(key, sizeof key, "%s:%s", whole ? "grad" : "dots", t->name);
    if (whole) {
        expect_golden(path, key, t->size, gradient, tolerance,
                      typical_gradient(path, key, t->size, most));
        return;
    }
    double dots[2] = {0, 0};
    for (size_t i = 0; i < t->size; i++) {
        dots[0] += (double)gradient[i] * cos(0.7 * (double)i);
        dots[1] += (double)gradient[i] * sin(0.7 * (double)i);
    }
    // as many roundings as elements
    expect_golden(path, key, 2, (real[]){(real)dots[0], (real)dots[1]}, tolerance,
                  typical_gradient(path, key, 2, most) * (double)t->size);
}

ParameterizedTestParameters(golden, model) {
    return every_pair();
}

ParameterizedTest(struct pair *pair, golden, model) {
    const char *norm = norm_kinds[pair->norm]->name, *placement = placements[pair->placement].name;
    char path[128], key[128];
    bool whole = !strcmp(placement, "pre") && !pair->inner;
    if (!in_torch(norm, placement, pair->inner)) return;
    snprintf(path, sizeof path, "tests/golden/%s-%s.txt", norm, pair->inner ? "inner" : placement);
    double tolerance = in_double() ? 1e-8 : 2e-5;

    struct model_config config = pair_config(pair);
    struct model model;
    struct adam adam;
    struct batch batch = batch_make(B, T);
    model_init(&model, &config, V, B, 1);
    adam_init(&adam, &(struct adam_options){0.9, 0.99, 1e-4, 0.1, 1}, &model.lists.param);
    struct tensor_list *param = &model.lists.param, *state = &model.lists.state;
    start(param);
    param->version++;

    real losses[STEPS], first, norm_of_gradient;
    for (int step = 0; step < STEPS; step++) {
        fill(&batch, step);
        model_zero_grad(&model);
        model_forward(&model, &batch, true, step);
        losses[step] = (real)model_backward(&model, &batch, step, 1);
        double grad_norm = adam_grad_norm(&adam, param);
        if (step == 0) {
            first = losses[0];
            norm_of_gradient = (real)grad_norm;
            double most = largest(param->size, param->grad);
            real *logits = copy_logits(&model, B * T);
            if (whole) expect_golden(path, "logits", B * T * V, logits, tolerance, 0);
            free(logits);
            expect_golden(path, "loss", 1, &first, tolerance, 0);
            expect_golden(path, "grad_norm", 1, &norm_of_gradient, tolerance, 0);
            for (size_t i = 0; i < param->count; i++)
                expect_gradients(path, &param->tensor[i], param->grad + param->tensor[i].offset,
                                 whole, tolerance, most);
        }
        adam_step(&adam, param, 1e-2, grad_norm);
    }
    // Adam divides a gradient by its own size, so rounding in small ones counts for more.
    double after = in_double() ? 1e-8 : 2e-4;
    expect_golden(path, "losses", STEPS, losses, after, 0);
    for (size_t i = 0; i < state->count; i++) {
        const struct tensor *t = &state->tensor[i];
        if (!t->dimensions) continue; // num_batches_tracked
        snprintf(key, sizeof key, "state:%s", t->name);
        expect_golden(path, key, t->size, state->value + t->offset, after, 0);
    }
    fill(&batch, STEPS);
    model_forward(&model, &batch, false, 0);
    double sum;
    real loss = (real)(model_loss(&model, &batch, &sum) ? sum / (B * T) : 0);
    real *logits = copy_logits(&model, B * T);
    if (whole) expect_golden(path, "eval_logits", B * T * V, logits, after, 0);
    free(logits);
    expect_golden(path, "eval_loss", 1, &loss, after, 0);
    batch_free(&batch);
    adam_free(&adam);
    model_free(&model);
}

/* A result and its name in a golden file. */
struct result {
    const char *key;
    size_t count;
    const real *values;
};

static void expect_results(const char *path, const char *prefix, int k, size_t count,
                           const struct result *results) {
    for (size_t i = 0; i < count; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s%s:%d", prefix, results[i].key, k);
        expect_golden(path, key, results[i].count, results[i].values, in_double() ? 1e-8 : 1e-5, 0);
    }
}

/* BatchNorm alone: three batches in training, a fourth in evaluation. Over all tokens there is
   Regularized BatchNorm's dx too, with a quarter of the penalty. */
static void check_batchnorm(int64_t axis, size_t T_alone, const char *prefix) {
    enum { N = 10, CHANNELS = 3, COUNT = N * CHANNELS };
    const char *path = "tests/golden/batchnorm.txt";
    size_t states = axis == BN_AXIS_BATCH ? T_alone * CHANNELS : CHANNELS;
    struct norm_options options = small_norms;
    norms_set(&options, "bn-axis", (double)axis);
    struct lone_norm lone;
    lone_norm_init_with(&lone, norm_find("bn"), &options, N / T_alone, T_alone, CHANNELS);
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
            expect_results(path, prefix, k, 1, (struct result[]){{"eval_y", COUNT, y}});
            break;
        }
        memset(lone.lists.param.grad, 0, lone.lists.param.size * sizeof(real));
        lone_norm_backward(&lone, dx, dy, x);
        const struct result results[] = {{"y", COUNT, y},
                                         {"dx", COUNT, dx},
                                         {"dweight", CHANNELS, norm->param[0].grad},
                                         {"running_mean", states, norm->state[0]},
                                         {"running_var", states, norm->state[1]},
                                         {"dbias", CHANNELS, norm->param[1].grad}};
        expect_results(path, prefix, k, axis == BN_AXIS_BATCH ? 5 : 6, results);
        if (axis == BN_AXIS_BATCH) continue;
        norm_set(norm, "rbn-mean", 0.7);
        norm_set(norm, "rbn-var", 0.4);
        lone.tokens.scale = 0.25;
        lone_norm_backward(&lone, dx, dy, x);
        expect_results(path, prefix, k, 1, (struct result[]){{"rbn_dx", COUNT, dx}});
        norm_set(norm, "rbn-mean", 0);
        norm_set(norm, "rbn-var", 0);
    }
    lone_norm_free(&lone);
}

Test(golden, batchnorm) {
    check_batchnorm(BN_AXIS_BATCH_TIME, 10, "");
    check_batchnorm(BN_AXIS_BATCH, 2, "position_");
}

/* Norms alone: training on batch 0, those with running statistics on batch 1 too, then the last
   in evaluation. Element i of a parameter starts at what `parts` says and 0.1 i. */
ParameterizedTestParameters(golden, norm_alone) {
    return every_norm();
}

ParameterizedTest(struct pair *pair, golden, norm_alone) {
    enum { LONE_B = 2, LONE_T = 3, CHANNELS = 6, COUNT = LONE_B * LONE_T * CHANNELS };
    static const char *const known[] = {"ln", "rms", "scale", "gn", "in", "dyt", "derf"};
    static const struct {
        const char *name;
        double start;
    } parts[] = {{"alpha", 0.7}, {"shift", -0.3}, {"scale", 1.9}, {"weight", 1.1}, {"bias", 0.2}};
    const char *path = "tests/golden/norms.txt";
    const struct norm_kind *kind = norm_kinds[pair->norm];
    double tolerance = in_double() ? 1e-12 : 5e-6;
    bool found = false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        found = found || !strcmp(kind->name, known[i]);
    if (!found) return;
    struct lone_norm lone;
    lone_norm_init(&lone, kind, LONE_B, LONE_T, CHANNELS);
    struct norm *norm = &lone.norm;
    for (int i = 0; kind->param[i].name; i++)
        for (size_t part = 0; part < sizeof parts / sizeof *parts; part++)
            for (int c = 0; c < (kind->param[i].scalar ? 1 : CHANNELS); c++)
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
        snprintf(key, sizeof key, "%s:y:%d", kind->name, k);
        expect_golden(path, key, COUNT, y, tolerance, 0);
        snprintf(key, sizeof key, "%s:dx:%d", kind->name, k);
        expect_golden(path, key, COUNT, dx, tolerance, 0);
        for (int i = 0; kind->param[i].name; i++) {
            snprintf(key, sizeof key, "%s:d%s:%d", kind->name, kind->param[i].name, k);
            expect_golden(path, key, kind->param[i].scalar ? 1 : CHANNELS, norm->param[i].grad,
                          tolerance, 0);
        }
        for (int i = 0; kind->state[i].name; i++) {
            if (kind->state[i].counts) continue; // num_batches_tracked
            snprintf(key, sizeof key, "%s:%s:%d", kind->name, kind->state[i].name, k);
            expect_golden(path, key, CHANNELS, norm->state[i], tolerance, 0);
        }
    }
    if (kind->state[0].name) {
        lone.tokens.training = false;
        lone_norm_forward(&lone, y, x);
        lone_norm_backward(&lone, dx, dy, x);
        snprintf(key, sizeof key, "%s:eval_y", kind->name);
        expect_golden(path, key, COUNT, y, tolerance, 0);
        snprintf(key, sizeof key, "%s:eval_dx", kind->name);
        expect_golden(path, key, COUNT, dx, tolerance, 0);
    }
    lone_norm_free(&lone);
}

/* PowerNorm alone: five batches in training, of which two are warm-up, a sixth in evaluation. */
Test(golden, power) {
    enum { N = 5, CHANNELS = 4, COUNT = N * CHANNELS, BATCHES = 5 };
    for (int divisor = 0; divisor < 2; divisor++) {
        struct lone_norm lone;
        lone_norm_init(&lone, norm_find("pn"), 1, N, CHANNELS);
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
            const struct result results[] = {{k < BATCHES ? "y" : "eval_y", COUNT, y},
                                             {"dx", COUNT, dx},
                                             {"running_phi", CHANNELS, norm->state[0]},
                                             {"ema_gz", CHANNELS, norm->state[1]}};
            expect_results("tests/golden/power.txt", divisor ? "batch:" : "psi:", k,
                           k < BATCHES ? 4 : 1, results);
        }
        lone_norm_free(&lone);
    }
}

/* PRepBN alone: four batches in training, in three of which lambda falls, a fifth in evaluation. */
Test(golden, prepbn) {
    enum { N = 5, CHANNELS = 4, COUNT = N * CHANNELS, BATCHES = 4 };
    const char *path = "tests/golden/prepbn.txt";
    double tolerance = in_double() ? 1e-8 : 1e-5;
    struct lone_norm lone;
    lone_norm_init(&lone, norm_find("prepbn"), 1, N, CHANNELS);
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
        expect_golden(path, key, COUNT, y, tolerance, 0);
        if (k == BATCHES) break;
        memset(lone.lists.param.grad, 0, lone.lists.param.size * sizeof(real));
        lone_norm_backward(&lone, dx, dy, x);
        snprintf(key, sizeof key, "dx:%d", k);
        expect_golden(path, key, COUNT, dx, tolerance, 0);
        for (int i = 0; norm->kind->param[i].name; i++) {
            snprintf(key, sizeof key, "%s:%d", norm->kind->param[i].name, k);
            expect_golden(path, key, norm->kind->param[i].scalar ? 1 : CHANNELS,
                          norm->param[i].grad, tolerance, 1);
        }
    }
    lone_norm_free(&lone);
}
