/* Learned factors of the residual sum, and initial weights that depend on the depth: what the papers
   promise of the first step. */
#include "data/text/corpus.h"
#include "model/connection/lambda.h"
#include "model/optimizer/optimizer.h"
#include "tests/support.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { B = 4, T = 8, N = B * T, C = 16, V = 11 };

static struct model_config config_of(const char *placement, size_t L) {
    struct model_config config = small_config(norm_index("ln"), 0);
    while (strcmp(placements[config.placement].name, placement) != 0) config.placement++;
    config.n_embd = C;
    config.n_layer = (int64_t)L;
    config.block_size = T;
    return config;
}

/* A model after forward and backward of one batch. */
static void run(struct model *model, const struct model_config *config, struct batch *batch) {
    omp_set_num_threads(1);
    *batch = make_batch(B, T, V, 3);
    model_init(model, config, V, B, 1);
    model_zero_grad(model);
    model_forward(model, batch, true, 0);
    model_backward(model, batch, 0, 1);
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
        cr_expect_arr_eq(model.stream_out, model.embedded, N * C * sizeof(real));
        cr_expect_eq(model.head_in, model.stream_out, "no norm before the head");
        for (int of_mlp = 0; of_mlp < 2; of_mlp++)
            cr_expect(size_of_gradient(&model, names[i][1 + of_mlp]) > 1e-4);
        cr_expect_eq(tensor_of(&model, names[i][1])->size, 1);
        cr_expect(!tensor_of(&model, names[i][3]));
        cr_expect_eq(size_of_gradient(&model, "transformer.h.1.attn.c_attn.weight"), 0);
        cr_expect_eq(size_of_gradient(&model, "transformer.h.1.mlp.c_proj.weight"), 0);
        cr_expect(!tensor_of(&model, "transformer.h.1.ln_1.weight"), "no norms");
        batch_free(&batch);
        model_free(&model);
    }
}

/* With lambda = 1 they are the residual sum itself: a placement of norms that are none. */
Test(lambda, one_is_the_plain_residual_sum) {
    struct model_config plain = config_of("pre", 3);
    struct model models[3];
    struct batch batches[3];
    plain.norm = norm_index("none");
    run(&models[0], &plain, &batches[0]);
    static const char *const names[] = {"rezero", "skipinit"};
    for (int i = 0; i < 2; i++) {
        struct model_config config = config_of(names[i], 3);
        config.lambda_start = 1;
        run(&models[1 + i], &config, &batches[1 + i]);
        cr_expect_arr_eq(models[1 + i].stream_out, models[0].stream_out, N * C * sizeof(real));
        const struct tensor *one = tensor_of(&models[0], "transformer.h.0.attn.c_attn.weight");
        const struct tensor *other = tensor_of(&models[1 + i], one->name);
        cr_expect_arr_eq(models[1 + i].lists.param.grad + other->offset,
                         models[0].lists.param.grad + one->offset, one->size * sizeof(real));
    }
    // one number a layer gets the gradients of both of its sub-layers
    real both = models[1].layer[1].attention.connection.param[0].grad[0];
    real parts = models[2].layer[1].attention.connection.param[0].grad[0] +
                 models[2].layer[1].mlp.connection.param[0].grad[0];
    cr_expect(fabs((double)(both - parts)) < 1e-5 * fabs((double)both) && both != 0, "%g, not %g",
              (double)both, (double)parts);
    cr_expect_eq(models[1].layer[1].mlp.connection.param[0].value,
                 models[1].layer[1].attention.connection.param[0].value);
    for (int i = 0; i < 3; i++) batch_free(&batches[i]), model_free(&models[i]);
}

/* Lambda is a vector that starts by the depth, or as asked for; at 1 the placement is pre. */
Test(lambda, layerscale_starts_by_the_depth) {
    const struct lambda_form *form = placement_connection(placement_find("layerscale"))->own;
    static const struct {
        size_t L;
        double start;
    } cases[] = {{1, 0.1}, {18, 0.1}, {19, 1e-5}, {24, 1e-5}, {25, 1e-6}, {36, 1e-6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_eq(form->start(0, cases[i].L), cases[i].start);
    struct model_config config = config_of("layerscale", 2), pre = config_of("pre", 2);
    struct model models[3];
    struct batch batches[3];
    run(&models[0], &pre, &batches[0]);
    for (int i = 1; i < 3; i++) {
        config.lambda_start = i == 1 ? 1 : 0;
        run(&models[i], &config, &batches[i]);
        cr_expect_eq(tensor_of(&models[i], "transformer.h.0.gamma_1")->size, C);
        cr_expect_eq(models[i].layer[1].mlp.connection.param[0].value[C - 1], config.lambda_start);
    }
    cr_expect_arr_eq(models[1].head_in, models[0].head_in, N * C * sizeof(real));
    cr_expect_arr_eq(models[2].stream_out, models[2].embedded, N * C * sizeof(real));
    cr_expect(norm_present(&models[2].final));
    for (int i = 0; i < 3; i++) batch_free(&batches[i]), model_free(&models[i]);
}

/* Adam's weight decay acts on matrices alone: with a gradient of zero lambda does not move. */
Test(lambda, is_not_decayed) {
    struct model_config config = config_of("layerscale", 1);
    struct model model;
    struct batch batch;
    struct optimizer adam;
    run(&model, &config, &batch);
    adamw_init(&adam, (struct adamw_numbers){0.9, 0.99, 1e-8, 0.1, 1}, &model.lists.param, 1);
    model_zero_grad(&model);
    real before = model.layer[0].mlp.proj.weight.value[0];
    optimizer_step(&adam, &model.lists.param, 0.1, 1);
    cr_expect_eq(model.layer[0].mlp.connection.param[0].value[3], (real)0.1);
    cr_expect_neq(model.layer[0].mlp.proj.weight.value[0], before);
    optimizer_free(&adam);
    batch_free(&batch);
    model_free(&model);
}
