/* Initial values that depend on the depth or on the first batch: T-Fixup, DS-Init and Admin. */
#include "data/text/corpus.h"
#include "tests/support.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { B = 8, T = 8, N = B * T, C = 64, V = 16 };

static void start(struct model *model, const char *placement, const char *norm, size_t L) {
    struct model_config config = small_config(norm_index(norm), 0);
    while (strcmp(placements[config.placement].name, placement) != 0) config.placement++;
    config.init = INIT_XAVIER;
    config.n_layer = (int64_t)L;
    config.n_embd = C;
    config.block_size = T;
    omp_set_num_threads(2);
    model_init(model, &config, V, B, 1);
}

static double deviation(size_t count, const real *x) {
    return sqrt(dot(count, x, x) / (double)count);
}

static void expect_near(const char *what, double value, double want, double tolerance) {
    cr_expect(fabs(value / want - 1) < tolerance, "%s: %g, not %g", what, value, want);
}

/* Each weight of Xavier's, times the factors of q and k, of the other matrices, of the embeddings. */
static void expect_weights(const char *placement, size_t L, size_t layer, double qk, double others,
                           double embedding) {
    struct model model;
    start(&model, placement, "ln", L);
    const struct sublayer *attention = &model.layer[layer].attention,
                          *mlp = &model.layer[layer].mlp;
    double square = sqrt(1.0 / C), wide = sqrt(2.0 / (5 * C));
    expect_near("qk", deviation(2 * C * C, attention->in.weight.value), qk * square, 0.05);
    expect_near("v", deviation(C * C, attention->in.weight.value + 2 * C * C), others * square,
                0.05);
    expect_near("proj", deviation(C * C, attention->proj.weight.value), others * square, 0.05);
    expect_near("fc", deviation(4 * C * C, mlp->in.weight.value), others * wide, 0.05);
    expect_near("fc proj", deviation(4 * C * C, mlp->proj.weight.value), others * wide, 0.05);
    expect_near("wte", deviation(V * C, model.wte.value), embedding / sqrt(C), 0.1);
    expect_near("wpe", deviation(T * C, model.wpe.value), embedding, 0.15);
    model_free(&model);
}

Test(start, weights_of_tfixup_and_dsinit) {
    double g = pow(6 * 10, -0.25);
    expect_weights("tfixup", 10, 7, 1, g, g);
    expect_weights("dsinit", 10, 0, 1, 1, 1);
    expect_weights("dsinit", 10, 8, 1.0 / 3, 1.0 / 3, 1);
    struct model model;
    start(&model, "dsinit", "ln", 4); // GPT-2's, without its factor of projections by depth
    model_free(&model);
    model.config.init = INIT_GPT2;
    struct model_config config = model.config;
    model_init(&model, &config, V, B, 1);
    expect_near("proj", deviation(C * C, model.layer[3].attention.proj.weight.value), 0.01, 0.05);
    model_free(&model);
}

/* How much a step of plain gradient descent changes the stream that the head reads. */
static double change_after_a_step(const char *placement, const char *norm, size_t L) {
    struct model model;
    struct batch batch = make_batch(B, T, V, 3);
    start(&model, placement, norm, L);
    model_zero_grad(&model);
    model_forward(&model, &batch, true, 0);
    model_backward(&model, &batch, 0, 1);
    real *before = malloc(N * C * sizeof *before);
    memcpy(before, model.head_in, N * C * sizeof *before);
    struct tensor_list *param = &model.lists.param;
    for (size_t i = 0; i < param->size; i++) param->value[i] -= (real)1e-3 * param->grad[i];
    param->version++;
    model_forward(&model, &batch, true, 0);
    for (size_t i = 0; i < N * C; i++) before[i] -= model.head_in[i];
    double change = deviation(N * C, before);
    free(before);
    batch_free(&batch);
    model_free(&model);
    return change;
}

/* Without norms a step changes the function the more the deeper it is, without bound; with T-Fixup's
   weights hardly (Huang et al. 2020). */
Test(start, tfixup_bounds_the_first_step) {
    double few = change_after_a_step("tfixup", "ln", 4);
    double many = change_after_a_step("tfixup", "ln", 32);
    double plain_few = change_after_a_step("pre", "none", 4);
    double plain_many = change_after_a_step("pre", "none", 32);
    cr_expect(many < 4 * few, "from %g to %g", few, many);
    cr_expect(plain_few > 1000 * few, "%g, not %g", plain_few, few);
    cr_expect(!(plain_many < 1000 * plain_few), "from %g to %g", plain_few, plain_many);
}

/* The parts of a sub-layer's sum: variance of the stream's part and of F. */
static void variances(const struct sublayer *s, double *stream, double *branch) {
    double sum[2] = {0, 0}, squares[2] = {0, 0};
    for (size_t i = 0; i < N * C; i++) {
        double kept = (double)s->connection.param[0].value[i % C] * (double)s->connection.x[i];
        double part[2] = {kept, (double)s->connection.sum[i] - kept};
        for (int k = 0; k < 2; k++) sum[k] += part[k], squares[k] += part[k] * part[k];
    }
    *stream = squares[0] / (N * C) - pow(sum[0] / (N * C), 2);
    *branch = squares[1] / (N * C) - pow(sum[1] / (N * C), 2);
}

/* omega_1 = 1, and omega_i^2 is the variance of the embeddings and of all branches before, since the
   stream after a norm has a variance of 1. */
Test(start, admin_s_omega_is_the_deviation_of_what_was_added) {
    enum { L = 6 };
    struct model model;
    struct batch batch = make_batch(B, T, V, 3);
    start(&model, "admin", "ln", L);
    cr_assert(model_profiled(&model));
    real *initial = copy_values(&model.lists.param);
    model_profile(&model, &batch);
    real *profiled = copy_values(&model.lists.param);
    model_forward(&model, &batch, true, 0);
    double expected = 1, before = 0;
    for (size_t i = 0; i < 2 * L; i++) {
        const struct sublayer *s = i % 2 ? &model.layer[i / 2].mlp : &model.layer[i / 2].attention;
        double stream, branch, omega = (double)s->connection.param[0].value[0];
        variances(s, &stream, &branch);
        for (size_t c = 1; c < C; c++)
            cr_expect_eq(s->connection.param[0].value[c], s->connection.param[0].value[0]);
        expect_near("omega", omega * omega, expected, 1e-4);
        cr_expect(i < 2 || omega > before, "%g after %g", omega, before);
        if (i) expect_near("the stream's part", stream, omega * omega, 1e-3);
        expected = stream + branch;
        before = omega;
    }
    // all else is as it was, and a second call gives the same bits
    for (size_t i = 0; i < model.lists.param.count; i++) {
        const struct tensor *t = &model.lists.param.tensor[i];
        if (!strstr(t->name, "ratio_change"))
            cr_expect_arr_eq(initial + t->offset, profiled + t->offset, t->size * sizeof(real));
    }
    model.threads = 1;
    model_profile(&model, &batch);
    cr_expect_arr_eq(model.lists.param.value, profiled, model.lists.param.size * sizeof(real));
    free(initial);
    free(profiled);
    batch_free(&batch);
    model_free(&model);
}

/* Profiling leaves no trace in running statistics, and only Admin is profiled. */
Test(start, profiling_leaves_running_statistics_alone) {
    struct model model;
    struct batch batch = make_batch(B, T, V, 3);
    start(&model, "admin", "bn", 2);
    real *state = copy_values(&model.lists.state);
    model_profile(&model, &batch);
    cr_expect_arr_eq(model.lists.state.value, state, model.lists.state.size * sizeof(real));
    cr_expect_neq(model.layer[1].mlp.connection.param[0].value[0], 1);
    free(state);
    model_free(&model);
    start(&model, "layerscale", "bn", 2);
    cr_expect(!model_profiled(&model));
    batch_free(&batch);
    model_free(&model);
}
