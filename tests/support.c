/* Held memory is a list, freed when a test ends. Small models have the program's default
   options, except where a formula would not show (small_norms()). */
#include "tests/support.h"
#include "data/random.h"
#include "data/text/corpus.h"
#include "model/options/config.h"
#include <stdlib.h>
#include <string.h>

static struct held {
    struct held *before;
    struct arena *arena; // to be freed too, or NULL
    char bytes[];
} * held;

void *hold(size_t bytes) {
    struct held *memory = calloc(1, sizeof *memory + bytes);
    cr_assert(memory, "no memory");
    memory->before = held;
    held = memory;
    return memory->bytes;
}

void let_go(void) {
    for (struct held *before; held; held = before) {
        before = held->before;
        if (held->arena) arena_free(held->arena);
        free(held);
    }
}

/* Frees a copy of the arena with the rest. */
void hold_arena(struct arena arena) {
    struct arena *copy = hold(sizeof arena);
    *copy = arena;
    held->arena = copy;
}

struct arena held_arena(size_t bytes) {
    char *memory = hold(bytes + 64);
    return (struct arena){.base = memory + 64 - (uintptr_t)memory % 64, .bytes = bytes};
}

real *random_reals(size_t count, uint64_t key) {
    real *x = hold(count * sizeof(real));
    for (size_t i = 0; i < count; i++) x[i] = (real)random_normal(random_key(key, "test", 0), i);
    return x;
}

real *copy_reals(size_t count, const real *x) {
    real *copy = hold(count * sizeof(real));
    if (count) memcpy(copy, x, count * sizeof(real));
    return copy;
}

int split(char *line, char **words, int max) {
    int count = 0;
    char *rest;
    for (char *word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        cr_assert(count < max - 1, "too many words");
        words[count++] = word;
    }
    words[count] = NULL;
    return count;
}

double difference(size_t count, const real *a, const real *b) {
    double max = 0;
    for (size_t i = 0; i < count; i++) max = worse(max, fabs((double)a[i] - (double)b[i]));
    return max;
}

bool reals_agree(const char *what, size_t count, const real *got, const real *want,
                 double tolerance) {
    double scale = largest(count, want), error = difference(count, got, want);
    if (case_failed() || (count > 0 && error <= tolerance * scale)) return true;
    return fail_case("%s: off by %g where the largest is %g", what, error, scale);
}

static void set_value(union option_data *values, const struct option *const *list, const char *name,
                      double value) {
    size_t i = 0;
    while (list[i] && strcmp(list[i]->name, name) != 0) i++;
    cr_assert(list[i], "there is no --%s", name);
    if (list[i]->kind == OPTION_REAL)
        values[i].real = value;
    else
        values[i].integer = (int64_t)value;
}

void norms_set(struct norm_options *options, const char *name, double value) {
    set_value(options->value, norm_option_list(), name, value);
}

void norm_set(struct norm *norm, const char *name, double value) {
    set_value(norm->option, norm->kind->options, name, value);
}

void optimizer_set(struct optimizer_options *options, const char *name, double value) {
    set_value(options->value, optimizer_option_list(), name, value);
}

/* The default of every option, "auto" not resolved. */
static struct model_config default_config(void) {
    struct config config;
    config_start(&config);
    return config.model;
}

/* A rule for "auto" gets a small number, so that a new option with such a rule needs no row. */
struct norm_options small_norms(void) {
    static const struct {
        const char *option;
        double value;
    } other[] = {{"dyt-alpha-attn", 0.6}, {"bhyt-kappa", 2},   {"gated-rank", 2},
                 {"ts-prior-count", 3},   {"prepbn-eta", 0.5}, {"pn-warmup", 1000},
                 {"brn-warmup", 1000}}; // r and d are no constants to a difference
    struct norm_options norms = default_config().norms;
    const struct option *const *list = norm_option_list();
    norms.bias = norms.heads = 1; // in a model these are those of the model
    for (size_t i = 0; list[i]; i++)
        if (list[i]->automatic[0]) norms.value[i].integer = list[i]->automatic[1] ? 4 : 2;
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        norms_set(&norms, other[i].option, other[i].value);
    return norms;
}

struct model_config small_config(int norm, int placement) {
    struct model_config config = default_config();
    config.norm = norm;
    config.placement = placement;
    config.n_layer = 2;
    config.n_head = 2;
    config.n_embd = 6;
    config.block_size = SMALL_T;
    config.mix_fraction = 0.5;
    config.norms = small_norms();
    return config;
}

struct batch make_batch(size_t B, size_t T, size_t V, uint64_t key) {
    struct batch batch = {.B = B,
                          .T = T,
                          .B_max = B,
                          .T_max = T,
                          .ids = hold(B * T * sizeof *batch.ids),
                          .targets = hold(B * T * sizeof *batch.targets),
                          .marks = hold(B * T)};
    for (size_t n = 0; n < B * T; n++) {
        batch.ids[n] = (int32_t)random_below(random_key(key, "ids", 0), n, V);
        batch.targets[n] = (int32_t)random_below(random_key(key, "targets", 0), n, V);
    }
    return batch;
}

int norm_index(const char *name) {
    int row = 0;
    while (norm_kinds[row] != norm_find(name)) row++;
    return row;
}

int placement_index(const char *name) {
    return (int)(placement_find(name) - placements);
}

double dot(size_t count, const real *a, const real *b) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

double largest(size_t count, const real *x) {
    double max = 0;
    for (size_t i = 0; i < count; i++) { // fmax() here crashes GCC 12 for ARM
        double size = fabs((double)x[i]);
        if (size > max) max = size;
    }
    return max;
}

struct lone_norm lone_norm(const struct norm_kind *kind, size_t B, size_t T, size_t C) {
    const struct norm_options options = small_norms();
    return lone_norm_with(kind, &options, B, T, C);
}

struct lone_norm lone_norm_with(const struct norm_kind *kind, const struct norm_options *options,
                                size_t B, size_t T, size_t C) {
    struct lone_norm lone = {
        .options = *options, .tokens = {.B = B, .T = T, .training = true}, .threads = 1};
    if (C % 2) norms_set(&lone.options, "norm-groups", 1);
    struct tensor_lists counted = {0};
    struct tensor tensors[3][NORM_TENSORS];
    struct arena arena = {0};
    for (int pass = 0; pass < 2; pass++) {
        struct tensor_list *list[] = {&lone.lists.param, &lone.lists.state, &lone.lists.fixed};
        const struct tensor_list *size[] = {&counted.param, &counted.state, &counted.fixed};
        for (int i = 0; i < 3; i++) {
            list[i]->tensor = pass ? tensors[i] : NULL;
            list[i]->value = arena_reals(&arena, size[i]->size);
            list[i]->grad = arena_reals(&arena, size[i]->size);
        }
        norm_attach(&lone.norm, kind, &lone.options, "norm", C,
                    &(struct layout){B, T, &lone.lists, &arena, 1});
        if (pass) break;
        counted = lone.lists;
        lone.lists = (struct tensor_lists){0};
        size_t total = counted.param.size + counted.state.size + counted.fixed.size;
        arena = held_arena(arena.used + 2 * total * sizeof(real) + 6 * 64);
    }
    tensor_initialize(&lone.lists.param, 1);
    tensor_initialize(&lone.lists.state, 1);
    tensor_initialize(&lone.lists.fixed, 1);
    lone.lists.param.tensor = lone.lists.state.tensor = lone.lists.fixed.tensor = NULL;
    return lone;
}

void lone_norm_forward(const struct lone_norm *lone, real *y, const real *x) {
    size_t N = lone->tokens.B * lone->tokens.T, C = lone->norm.C;
#pragma omp parallel num_threads(lone->threads)
    {
        struct range rows = team_part(N, ROWS);
        norm_statistics(&lone->norm, &lone->tokens, x);
        for (size_t n = rows.begin; n < rows.end; n += ROWS)
            norm_forward(&lone->norm, &lone->tokens, team_row_block(n, rows), y + n * C, x + n * C);
    }
}

void lone_norm_backward(const struct lone_norm *lone, real *dx, const real *dy, const real *x) {
    size_t N = lone->tokens.B * lone->tokens.T, C = lone->norm.C;
    const struct parts parts = parts_one(N);
#pragma omp parallel num_threads(lone->threads)
    {
        struct range rows = team_part(N, ROWS);
        norm_gradient_statistics(&lone->norm, &lone->tokens, dy, x);
        for (size_t n = rows.begin; n < rows.end; n += ROWS)
            norm_backward(&lone->norm, &lone->tokens, team_row_block(n, rows), dx + n * C,
                          dy + n * C, x + n * C);
        team_barrier();
        for (int i = 0; lone->norm.kind->param[i].name; i++)
            parts_add_sums(&parts, &lone->norm.param[i]);
    }
}

real *copy_values(const struct tensor_list *list) {
    return copy_reals(list->size, list->value);
}

void restore_values(struct tensor_list *list, const real *values) {
    memcpy(list->value, values, list->size * sizeof(real));
}

real *copy_logits(struct model *model, size_t N) {
    real *logits = hold(N * model->V * sizeof(real));
    for (size_t n = 0; n < N; n++)
        memcpy(logits + n * model->V, head_logits(model, n), model->V * sizeof(real));
    return logits;
}

struct model held_model(const struct model_config *config, size_t V, size_t B, uint64_t seed) {
    struct model model;
    model_init(&model, config, V, B, seed);
    hold_arena(model.arena);
    return model;
}

struct optimizer held_optimizer(const struct optimizer_options *options,
                                const struct tensor_list *list, int threads) {
    struct optimizer optimizer;
    optimizer_init(&optimizer, options, list, threads);
    hold_arena(optimizer.arena);
    return optimizer;
}

struct optimizer held_adamw(struct adamw_numbers numbers, const struct tensor_list *list,
                            int threads) {
    struct optimizer_options options = {.weight_decay = numbers.weight_decay,
                                        .grad_clip = numbers.grad_clip};
    optimizer_set(&options, "beta1", numbers.beta1);
    optimizer_set(&options, "beta2", numbers.beta2);
    optimizer_set(&options, "adam-eps", numbers.eps);
    return held_optimizer(&options, list, threads);
}

void shake(struct tensor_list *param) {
    real *noise = random_reals(param->size, 2);
    for (size_t i = 0; i < param->size; i++) param->value[i] += (real)0.3 * noise[i];
    param->version++;
}

double gradient_of(struct model *model, const struct batch *batch, uint64_t step, double scale) {
    model_zero_grad(model);
    model_forward(model, batch, true, step);
    return model_backward(model, batch, step, scale);
}

double train_step(struct model *model, struct optimizer *optimizer, const struct batch *batch,
                  uint64_t step, double lr) {
    struct tensor_list *param = &model->lists.param;
    double loss = gradient_of(model, batch, step, 1);
    optimizer_step(optimizer, param, lr, optimizer_grad_norm(optimizer, param));
    return loss;
}

const struct adamw_numbers fit_options = {0.9, 0.99, 1e-8, 0.1, 1};

void fit_batch(struct model *model, const struct batch *batch, int threads, int updates) {
    struct optimizer adam = held_adamw(fit_options, &model->lists.param, threads);
    for (int step = 0; step < updates; step++)
        train_step(model, &adam, batch, step, 1e-4 * (step + 1));
}

struct model fit_small(const struct model_config *config, size_t B) {
    struct batch batch = make_batch(B, config->block_size, SMALL_V, 3);
    struct model model = held_model(config, SMALL_V, B, 1);
    fit_batch(&model, &batch, 1, 30);
    return model;
}
