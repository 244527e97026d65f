/* Learned factors of the residual sum, and initial weights that depend on the depth: what the papers
   promise of the first step. What nGPT promises (Loshchilov et al. 2024, arXiv:2410.01131), in a model
   with --norm=scale, whose stream has the length sqrt(C) where the paper's has 1. */
#include "data/text/corpus.h"
#include "model/optimizer/optimizer.h"
#include "tests/support.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 4, LENGTH = 8, TOKENS = BATCH * LENGTH, WIDTH = 16, SYMBOLS = 11 };

static struct model_config config_of(const char *placement, size_t L) {
    struct model_config config = small_config(norm_index("ln"), placement_index(placement));
    config.n_embd = WIDTH;
    config.n_layer = (int64_t)L;
    config.block_size = LENGTH;
    return config;
}

/* A model after forward and backward of one batch. */
static void run(struct model *model, const struct model_config *config, struct batch *batch) {
    omp_set_num_threads(1);
    *batch = make_batch(BATCH, LENGTH, SYMBOLS, 3);
    *model = held_model(config, SYMBOLS, BATCH, 1);
    gradient_of(model, batch, 0, 1);
}

static const struct tensor *tensor_of(const struct model *model, const char *name) {
    const struct tensor_list *param = &model->lists.param;
    for (size_t i = 0; i < param->count; i++)
        if (!strcmp(param->tensor[i].name, name)) return &param->tensor[i];
    return NULL;
}

static double size_of_gradient(const struct model *model, const char *name) {
    const struct tensor *t = tensor_of(model, name);
    cr_assert(t, "%s", name);
    return largest(t->size, model->lists.param.grad + t->offset);
}

/* Initially each layer is the identity, whatever its weights: only lambda has a gradient. */
Test(lambda, rezero_and_skipinit_start_as_the_identity) {
    static const char *const names[][4] = {
        {"rezero", "transformer.h.1.resweight", "transformer.h.1.resweight",
         "transformer.h.1.skip_gain_1"},
        {"skipinit", "transformer.h.1.skip_gain_1", "transformer.h.1.skip_gain_2",
         "transformer.h.1.resweight"}};
    for (int i = 0; i < 2; i++) {
        struct model_config config = config_of(names[i][0], 3);
        struct model model;
        struct batch batch;
        config.init = INIT_XAVIER;
        run(&model, &config, &batch);
        cr_expect_arr_eq(model.stream_out, model.embedded, TOKENS * WIDTH * sizeof(real));
        cr_expect_eq(model.head_in, model.stream_out, "no norm before the head");
        for (int of_mlp = 0; of_mlp < 2; of_mlp++)
            cr_expect(size_of_gradient(&model, names[i][1 + of_mlp]) > 1e-4);
        cr_expect_eq(tensor_of(&model, names[i][1])->size, 1);
        cr_expect(!tensor_of(&model, names[i][3]));
        cr_expect_eq(size_of_gradient(&model, "transformer.h.1.attn.c_attn.weight"), 0);
        cr_expect_eq(size_of_gradient(&model, "transformer.h.1.mlp.c_proj.weight"), 0);
        cr_expect(!tensor_of(&model, "transformer.h.1.ln_1.weight"), "no norms");
    }
}

/* Lambda is a vector that starts by the depth, or as asked for; at 1 the placement is pre. */
Test(lambda, layerscale_starts_by_the_depth) {
    static const struct {
        size_t L;
        double start;
    } cases[] = {{1, 0.1}, {18, 0.1}, {19, 1e-5}, {24, 1e-5}, {25, 1e-6}, {36, 1e-6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct model_config deep = config_of("layerscale", cases[i].L);
        const struct model model = held_model(&deep, SYMBOLS, 1, 1);
        cr_expect_eq(tensor_of(&model, "transformer.h.0.gamma_1")->mean, cases[i].start);
    }
    struct model_config config = config_of("layerscale", 2), pre = config_of("pre", 2);
    struct model models[3];
    struct batch batches[3];
    run(&models[0], &pre, &batches[0]);
    for (int i = 1; i < 3; i++) {
        config.lambda_start = i == 1 ? 1 : 0;
        run(&models[i], &config, &batches[i]);
        cr_expect_eq(tensor_of(&models[i], "transformer.h.0.gamma_1")->size, WIDTH);
        cr_expect_eq(models[i].layer[1].mlp.connection.param[0].value[WIDTH - 1],
                     config.lambda_start);
    }
    cr_expect_arr_eq(models[1].head_in, models[0].head_in, TOKENS * WIDTH * sizeof(real));
    cr_expect_arr_eq(models[2].stream_out, models[2].embedded, TOKENS * WIDTH * sizeof(real));
    cr_expect(norm_present(&models[2].final));
}

enum { B = SMALL_B, T = SMALL_T, V = SMALL_V, N = B * T };

struct ngpt {
    struct model model;
    struct batch batch;
};

static struct ngpt make(const char *norm) {
    int placement = placement_index("ngpt");
    struct model_config config = small_config(norm_index(norm), placement);
    struct ngpt m = {.batch = make_batch(B, T, V, 3)};
    omp_set_num_threads(1);
    m.model = held_model(&config, V, B, 1);
    return m;
}

/* Updates at a rate at which the weights move far from their initial values. */
static void update(struct ngpt *m, int steps) {
    struct tensor_list *param = &m->model.lists.param;
    struct optimizer adam = held_adamw(fit_options, param, 1);
    for (int step = 0; step < steps; step++) {
        train_step(&m->model, &adam, &m->batch, step, 0.03);
    }
}

static real *logits(struct ngpt *m) {
    m->model.lists.param.version++; // the test may have changed weights
    model_forward(&m->model, &m->batch, false, 0);
    return copy_logits(&m->model, N);
}

/* The parameters whose names end so: multiplies them. */
static void multiply(struct ngpt *m, const char *end, real factor) {
    const struct tensor_list *param = &m->model.lists.param;
    size_t found = 0, length = strlen(end);
    for (size_t k = 0; k < param->count; k++) {
        const struct tensor *t = &param->tensor[k];
        if (strlen(t->name) < length || strcmp(t->name + strlen(t->name) - length, end)) continue;
        for (size_t i = 0; i < t->size; i++) param->value[t->offset + i] *= factor;
        found++;
    }
    cr_assert(found > 0, "no parameter %s", end);
}

/* How far the lengths of `count` vectors of n numbers are from `want`. */
static double off_length(const real *x, size_t count, size_t n, size_t stride, size_t step,
                         double want) {
    double worst = 0;
    for (size_t i = 0; i < count; i++) {
        double squares = 0;
        for (size_t j = 0; j < n; j++) squares += pow((double)x[i * stride + j * step], 2);
        worst = worse(worst, fabs(sqrt(squares) / want - 1));
    }
    return worst;
}

static double rounding(void) {
    return in_double() ? 1e-14 : 2e-6;
}

Test(ngpt, every_matrix_has_unit_vectors_at_first_and_after_each_update) {
    struct ngpt m = make("scale");
    const struct tensor_list *param = &m.model.lists.param;
    for (int step = 0; step < 4; step++) {
        for (size_t k = 0; k < param->count; k++) {
            const struct tensor *t = &param->tensor[k];
            const real *w = param->value + t->offset;
            size_t rows = t->shape[0], columns = t->shape[1], C = m.model.C;
            if (t->dimensions < 2) continue;
            bool down = strstr(t->name, "c_proj"); // C is the number of its rows
            cr_expect_eq(down ? rows : columns, C);
            double off =
                down ? off_length(w, columns, C, 1, columns, 1) : off_length(w, rows, C, C, 1, 1);
            cr_expect(off < rounding(), "%s after %d updates: %g", t->name, step, off);
        }
        update(&m, 1);
    }
}

Test(ngpt, alpha_is_a_step_size_without_a_sign) {
    struct ngpt m = make("scale");
    const struct layer *layer = m.model.layer;
    size_t size = N * m.model.C;
    logits(&m);
    const struct connection *alpha = &layer->attention.connection;
    for (size_t c = 0; c < m.model.C; c++) {
        cr_expect(fabs(connection_kept(alpha, c) - 0.95 * (double)alpha->x[c]) < 1e-6);
        cr_expect(fabs((double)alpha->param[0].value[c] * sqrt((double)m.model.C) - 1) < 1e-6);
    }
    const struct gain *sqk = &layer->attention.in_gain;
    cr_expect(fabs((double)(sqk->param.value[0] * sqk->scale) - 1) < 1e-6);
    update(&m, 5);
    real *before = logits(&m);
    multiply(&m, "alpha", -1);
    multiply(&m, "sqk", -1); // of both q and k
    real *after = logits(&m);
    cr_expect(difference(N * V, after, before) == 0);
    multiply(&m, "alpha", 0);
    logits(&m);
    expect_close("y without a step", size, m.model.stream_out, m.model.stream_in, rounding());
}

Test(ngpt, norms_learn_neither_gamma_nor_beta) {
    struct ngpt m = make("ln");
    const struct tensor_list *param = &m.model.lists.param;
    for (size_t k = 0; k < param->count; k++)
        cr_expect(!strstr(param->tensor[k].name, "ln_") && !strstr(param->tensor[k].name, "norm"),
                  "%s", param->tensor[k].name);
    cr_expect(norm_present(&m.model.layer[0].attention.qkv_norm.norm[QKV_Q]));
}
