/* Models against PyTorch: logits, every gradient (or its products with two waves), the losses of 20
   AdamW steps and the running statistics of each model in tests/golden/. `make check` runs the
   tests in the project's folder. */
#include "data/text/corpus.h"
#include "model/optimizer/optimizer.h"
#include "tests/model/golden.h"
#include "tests/support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { V = GOLDEN_V, B = GOLDEN_B, T = GOLDEN_T, STEPS = 20 };

/* A model's golden numbers, and how closely to agree with them. */
struct golden_model {
    const char *path;
    char model[64];      // before each key
    bool full;           // the file has all gradients and logits, else dot products and losses only
    double first, after; // tolerances at the first step and after training
};

/* A key of the file, valid until the next call. */
static const char *key_of(const struct golden_model *golden, const char *key, const char *tensor) {
    static char text[192];
    snprintf(text, sizeof text, "%s%s%s", golden->model, key, tensor);
    return text;
}

/* A gradient's error is measured relative to its largest element, or to 1 % of the largest gradient
   of the model if that is larger. A sum that cancels to 0, as the gradient of a bias before bn
   does, has the rounding errors of its terms, and these are as large as other gradients. */
static double typical_gradient(const char *path, const char *key, size_t count,
                               double max_gradient) {
    real *want = hold(count * sizeof(real));
    golden_read(path, key, count, want);
    bool cancels = !in_double() && largest(count, want) < 1e-12 * max_gradient;
    return (cancels ? 1e-1 : 1e-2) * max_gradient;
}

/* The pair's connection if no placement has it, else NULL. */
static const struct connection_kind *own_connection(const struct pair *pair) {
    if (!pair->connection) return NULL;
    const struct connection_kind *kind = connection_kinds[pair->connection - 1];
    for (const struct placement *row = placements; row->name; row++)
        if (placement_connection(row) == kind) return NULL;
    return kind;
}

/* Which models the golden files hold: norms that PyTorch has in pre and post, ln in every placement
   and with norms inside the sub-layers, and in pre with connections that no placement has. */
static bool in_torch(const struct pair *pair, const char *norm, const char *placement) {
    const char *const norms[] = {"none", "ln", "bn", "rms"};
    const bool ln = !strcmp(norm, "ln");
    if (pair->connection) return ln && own_connection(pair) && !strcmp(placement, "pre");
    if (ln || pair->block) return ln;
    for (int i = 0; i < 4; i++)
        if (!strcmp(norm, norms[i]))
            return !pair->inner && (!strcmp(placement, "pre") || !strcmp(placement, "post"));
    return false;
}

/* Compares a gradient, or its dot products with a cosine and a sine. */
static void expect_gradients(const struct golden_model *golden, const struct tensor *t,
                             const real *gradient, double max_gradient) {
    const char *path = golden->path,
               *key = key_of(golden, golden->full ? "grad:" : "dots:", t->name);
    if (golden->full) {
        golden_expect(path, key, t->size, gradient, golden->first,
                      typical_gradient(path, key, t->size, max_gradient));
        return;
    }
    real dots[2];
    golden_dots(t->size, gradient, dots);
    // as many rounding errors as elements
    golden_expect(path, key, 2, dots, golden->first,
                  typical_gradient(path, key, 2, max_gradient) * (double)t->size);
}

/* Results of the first batch, before training amplifies rounding errors. */
static void expect_first_step(const struct golden_model *golden, struct model *model, real loss,
                              real grad_norm) {
    const struct tensor_list *param = &model->lists.param;
    double max_gradient = largest(param->size, param->grad);
    real *logits = copy_logits(model, B * T);
    if (golden->full)
        golden_expect(golden->path, key_of(golden, "logits", ""), B * T * V, logits, golden->first,
                      0);
    golden_expect(golden->path, key_of(golden, "loss", ""), 1, &loss, golden->first, 0);
    golden_expect(golden->path, key_of(golden, "grad_norm", ""), 1, &grad_norm, golden->first, 0);
    for (size_t i = 0; i < param->count; i++)
        expect_gradients(golden, &param->tensor[i], param->grad + param->tensor[i].offset,
                         max_gradient);
}

/* Running statistics after training, and the results of an evaluation. */
static void expect_evaluation(const struct golden_model *golden, struct model *model) {
    const struct tensor_list *state = &model->lists.state;
    for (size_t i = 0; i < state->count; i++) {
        const struct tensor *t = &state->tensor[i];
        if (!t->dimensions) continue; // num_batches_tracked
        golden_expect(golden->path, key_of(golden, "state:", t->name), t->size,
                      state->value + t->offset, golden->after, 0);
    }
    struct batch batch = golden_batch(STEPS);
    model_forward(model, &batch, false, 0);
    double sum;
    real loss = (real)(head_loss(model, &batch, &sum) ? sum / (B * T) : 0);
    real *logits = copy_logits(model, B * T);
    if (golden->full)
        golden_expect(golden->path, key_of(golden, "eval_logits", ""), B * T * V, logits,
                      golden->after, 0);
    golden_expect(golden->path, key_of(golden, "eval_loss", ""), 1, &loss, golden->after, 0);
}

static void check_model(const struct pair *pair) {
    const char *norm = norm_kinds[pair->norm]->name, *placement = placements[pair->placement].name;
    static const char *const block[] = {"", "-llama", "-gemma", "-other"};
    if (!in_torch(pair, norm, placement)) return;
    if (pair->inner && strcmp(placement, "pre") != 0) return; // no file
    // Adam divides a gradient by its own size, so rounding of small gradients counts for more.
    const bool plain = !pair->inner && !pair->block && !pair->connection;
    const char *row = pair->inner == INNER_HEADS   ? "inner"
                      : pair->inner == INNER_WIDTH ? "qkv"
                      : pair->inner == INNER_SUB   ? "sub"
                                                   : placement;
    struct golden_model golden = {.path = pair->connection ? "tests/golden/connections.txt"
                                          : plain          ? "tests/golden/placements.txt"
                                                           : "tests/golden/blocks.txt",
                                  .full = plain && !strcmp(placement, "pre"),
                                  .first = in_double() ? 1e-8 : 2e-5,
                                  .after = in_double() ? 1e-8 : 2e-4};
    snprintf(golden.model, sizeof golden.model, "%s-%s%s%s%s:", norm, row, block[pair->block],
             pair->connection ? "-" : "", pair->connection ? own_connection(pair)->name : "");

    struct model_config config = pair_config(pair);
    struct model model = held_model(&config, V, B, 1);
    struct optimizer adam =
        held_adamw((struct adamw_numbers){0.9, 0.99, 1e-4, 0.1, 1}, &model.lists.param, 1);
    struct tensor_list *param = &model.lists.param;
    golden_start(param);
    param->version++;

    real losses[STEPS];
    for (int step = 0; step < STEPS; step++) {
        struct batch batch = golden_batch(step);
        losses[step] = (real)gradient_of(&model, &batch, step, 1);
        double grad_norm = optimizer_grad_norm(&adam, param);
        if (step == 0) expect_first_step(&golden, &model, losses[0], (real)grad_norm);
        optimizer_step(&adam, param, 1e-2, grad_norm);
    }
    golden_expect(golden.path, key_of(&golden, "losses", ""), STEPS, losses, golden.after, 0);
    expect_evaluation(&golden, &model);
}

Test(golden, model) {
    every_pair_at_all(check_model);
}

void golden_read(const char *path, const char *key, size_t count, real *values) {
    FILE *file = fopen(path, "r");
    cr_assert(file != NULL, "%s is missing: make it with scripts/pytorch/make_golden.py", path);
    char *line = NULL;
    size_t size = 0;
    bool found = false;
    while (!found && getline(&line, &size, file) >= 0) {
        char *rest = line, *word = strsep(&rest, " ");
        if (strcmp(word, key) != 0 || !rest) continue;
        found = true;
        cr_assert_eq((size_t)strtoull(rest, &rest, 10), count, "%s: %s has another size", path,
                     key);
        for (size_t i = 0; i < count; i++) {
            char *end;
            values[i] = (real)strtod(rest, &end);
            cr_assert(end != rest, "%s: %s is cut", path, key);
            rest = end;
        }
    }
    free(line);
    fclose(file);
    cr_assert(found, "%s: no %s (give it a case in scripts/pytorch/make_golden.py, and run that)",
              path, key);
}

bool golden_agrees(const char *path, const char *key, size_t count, const real *got,
                   double tolerance, double typical) {
    if (case_failed()) return true;
    real *want = hold(count * sizeof(real));
    golden_read(path, key, count, want);
    double error = difference(count, got, want), scale = fmax(largest(count, want), typical);
    if (error <= tolerance * scale) return true;
    size_t i = 0; // of the first element with this error
    while (isnan(error) ? !isnan(got[i]) : fabs((double)got[i] - (double)want[i]) < error) i++;
    return fail_case("%s: %s: element %zu of %zu is %g, by PyTorch %g: off by %g where the largest "
                     "is %g, a relative error of %g (zero gives 1, the opposite sign 2)",
                     path, key, i, count, (double)got[i], (double)want[i], error, scale,
                     error / scale);
}

void golden_start(struct tensor_list *list) {
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

struct batch golden_batch(int k) {
    struct batch batch = make_batch(GOLDEN_B, GOLDEN_T, GOLDEN_V, 1);
    for (int b = 0; b < GOLDEN_B; b++)
        for (int t = 0; t < GOLDEN_T; t++) {
            int x = (3 * b + 2 * t + b * t + k) % GOLDEN_V;
            batch.ids[b * GOLDEN_T + t] = x;
            batch.targets[b * GOLDEN_T + t] = (5 * x + t + 1) % GOLDEN_V;
        }
    return batch;
}

void golden_dots(size_t count, const real *x, real dots[2]) {
    double sums[2] = {0, 0};
    for (size_t i = 0; i < count; i++) {
        sums[0] += (double)x[i] * cos(0.7 * (double)i);
        sums[1] += (double)x[i] * sin(0.7 * (double)i);
    }
    dots[0] = (real)sums[0], dots[1] = (real)sums[1];
}
