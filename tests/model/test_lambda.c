/* Learned factors of the residual sum, and initial weights that depend on the depth: what the
   papers promise of the first step. What nGPT promises (Loshchilov et al. 2024, arXiv:2410.01131),
   in a model with --norm=scale, whose stream has the length sqrt(C) where the paper's has 1. */
#include "data/text/corpus.h"
#include "model/optimizer/optimizer.h"
#include "tests/support.h"
#include <omp.h>
#include <string.h>

enum { N = SMALL_B * SMALL_T };

static struct model_config config_of(const char *norm, const char *placement, int64_t L) {
    struct model_config config = small_config(norm_index(norm), placement_index(placement));
    config.n_layer = L;
    return config;
}

/* A model after forward and backward of one batch. */
static struct model run(const struct model_config *config) {
    struct batch batch = make_batch(SMALL_B, SMALL_T, SMALL_V, 3);
    omp_set_num_threads(1);
    struct model model = held_model(config, SMALL_V, SMALL_B, 1);
    gradient_of(&model, &batch, 0, 1);
    return model;
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
        struct model_config config = config_of("ln", names[i][0], 3);
        config.init = INIT_XAVIER;
        const struct model model = run(&config);
        cr_expect_arr_eq(model.stream_out, model.embedded, N * model.C * sizeof(real));
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
        int64_t L;
        double start;
    } cases[] = {{1, 0.1}, {18, 0.1}, {19, 1e-5}, {24, 1e-5}, {25, 1e-6}, {36, 1e-6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct model_config deep = config_of("ln", "layerscale", cases[i].L);
        const struct model model = held_model(&deep, SMALL_V, 1, 1);
        cr_expect_eq(tensor_of(&model, "transformer.h.0.gamma_1")->mean, cases[i].start);
    }
    struct model_config config = config_of("ln", "layerscale", 2), pre = config_of("ln", "pre", 2);
    const struct model plain = run(&pre);
    const size_t bytes = N * plain.C * sizeof(real);
    for (int start = 0; start < 2; start++) {
        config.connections.value[0].real = start; // the only option
        const struct model model = run(&config);
        cr_expect_eq(tensor_of(&model, "transformer.h.0.gamma_1")->size, model.C);
        cr_expect_eq(model.layer[1].mlp.connection.param[0].value[model.C - 1], (real)start);
        cr_expect_arr_eq(model.stream_out, start ? plain.stream_out : model.embedded, bytes);
        cr_expect(norm_present(&model.final));
    }
}

Test(ngpt, the_first_steps_are_a_twentieth) {
    const struct model_config config = config_of("scale", "ngpt", 2);
    struct model model = run(&config);
    const struct connection *alpha = &model.layer->attention.connection;
    for (size_t c = 0; c < model.C; c++) {
        cr_expect(fabs(connection_kept(alpha, c) - 0.95 * (double)alpha->x[c]) < 1e-6);
        cr_expect(fabs((double)alpha->param[0].value[c] * sqrt((double)model.C) - 1) < 1e-6);
    }
    const struct gain *sqk = &model.layer->attention.in_gain;
    cr_expect(fabs((double)(sqk->param.value[0] * sqk->scale) - 1) < 1e-6);
}
