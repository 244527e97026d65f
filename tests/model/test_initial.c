/* Initial values. The standard deviation of every initial matrix: each rule of --init, with the
   factors of placements on top. What depends on the first batch: Admin. */
#include "data/text/corpus.h"
#include "tests/support.h"
#include <omp.h>
#include <string.h>

enum { B = 8, T = 8, N = B * T, C = 64, V = 16 };

static void start(struct model *model, const char *placement, const char *norm, size_t L) {
    struct model_config config = small_config(norm_index(norm), placement_index(placement));
    config.init = INIT_XAVIER;
    config.n_layer = (int64_t)L;
    config.n_embd = C;
    config.block_size = T;
    omp_set_num_threads(2);
    *model = held_model(&config, V, B, 1);
}

static void expect_near(const char *what, double value, double want, double tolerance) {
    cr_expect(fabs(value / want - 1) < tolerance, "%s: %g, not %g", what, value, want);
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

/* omega_1 = 1, and omega_i^2 is the variance of the embeddings and of all branches before, since
   the stream after a norm has a variance of 1. */
Test(start, admin_s_omega_is_the_deviation_of_what_was_added) {
    enum { L = 6 };
    struct model model;
    struct batch batch = make_batch(B, T, V, 3);
    start(&model, "admin", "ln", L);
    cr_assert(model_needs_first_batch(&model.config));
    real *initial = copy_values(&model.lists.param);
    model_set_initial(&model, &batch);
    real *from_batch = copy_values(&model.lists.param);
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
            cr_expect_arr_eq(initial + t->offset, from_batch + t->offset, t->size * sizeof(real));
    }
    model.threads = 1;
    model_set_initial(&model, &batch);
    cr_expect_arr_eq(model.lists.param.value, from_batch, model.lists.param.size * sizeof(real));
}

/* The first batch leaves no trace in running statistics, and only Admin needs it. */
Test(start, first_batch_leaves_running_statistics_alone) {
    struct model model;
    struct batch batch = make_batch(B, T, V, 3);
    start(&model, "admin", "bn", 2);
    real *state = copy_values(&model.lists.state);
    model_set_initial(&model, &batch);
    cr_expect_arr_eq(model.lists.state.value, state, model.lists.state.size * sizeof(real));
    cr_expect_neq(model.layer[1].mlp.connection.param[0].value[0], 1);
    start(&model, "layerscale", "bn", 2);
    cr_expect(!model_needs_first_batch(&model.config));
}

enum { WIDTH = 64, LAYERS = 3, LENGTH = 32, SYMBOLS = 50, HS = WIDTH / 4, H = 96 };

/* The factors that the papers have for their matrices in layer l of LAYERS. */
static const struct {
    const char *placement;
    bool by_depth;                     // its factors replace GPT-2's 1 / sqrt(2L)
    bool qk;                           // q and k have the factor too
    double base, base_of_layer, power; // (base + base_of_layer l)^power
    bool embedding;                    // the embeddings have the factor of layer 0
} factors[] = {
    {"pre", .base = 1},
    {"peri", .base = 1},
    {"deepnorm", .by_depth = true, .base = 8 * LAYERS, .power = -0.25},
    {"dsinit", .by_depth = true, .qk = true, .base = 1, .base_of_layer = 1, .power = -0.5},
    {"tfixup", .by_depth = true, .base = 6 * LAYERS, .power = -0.25, .embedding = true},
};

static const struct {
    int64_t init;
    double std, embd_std, token, position,
        head; // the last three: what a model of WIDTH channels gets
} rules[] = {
    {INIT_GPT2, 0.02, 0, 0.02, 0.02, 0.02},     {INIT_GPT2, 0.08, 0, 0.08, 0.08, 0.08},
    {INIT_GPT2, 0.08, 0.3, 0.3, 0.3, 0.08},     {INIT_XAVIER, 0.02, 0, 0.125, 1, 0.125},
    {INIT_WIDTH, 0.02, 0, 0.125, 0.125, 0.125}, {INIT_WIDTH, 0.02, 0.3, 0.3, 0.3, 0.125},
};

enum { RULES = sizeof rules / sizeof *rules, FACTORS = sizeof factors / sizeof *factors };

static void expect_std(const char *what, size_t count, const real *x, double want) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (double)x[i] / (double)count;
        squares += pow((double)x[i], 2) / (double)count;
    }
    cr_expect(fabs(sqrt(squares) / want - 1) < 0.06, "%s: %g, not %g", what, sqrt(squares), want);
    cr_expect(fabs(sum) < 0.1 * want, "%s: the mean is %g", what, sum);
}

/* The rule's standard deviation of a matrix of layers, without a factor. */
static double plain(int rule, double in, double out, bool into_stream) {
    double std = rules[rule].std;
    if (rules[rule].init == INIT_XAVIER) return sqrt(2 / (in + out));
    if (rules[rule].init == INIT_WIDTH) std = 1 / sqrt(in);
    return into_stream ? std / sqrt(2 * LAYERS) : std;
}

static void check_layer(const struct layer *layer, size_t l, int rule, int f) {
    const double factor =
        pow(factors[f].base + factors[f].base_of_layer * (double)l, factors[f].power);
    const bool depth = !factors[f].by_depth;
    const size_t kv = 2 * HS; // channels of k, and of v
    const struct sublayer *attention = &layer->attention, *mlp = &layer->mlp;
    const real *qkv = attention->in.weight.value; // (WIDTH + 2 kv, WIDTH)
    const double square = plain(rule, WIDTH, WIDTH, false);
    expect_std("q, k", (WIDTH + kv) * WIDTH, qkv, square * (factors[f].qk ? factor : 1));
    expect_std("v", kv * WIDTH, qkv + (WIDTH + kv) * WIDTH, square * factor);
    expect_std("proj", WIDTH * WIDTH, attention->proj.weight.value,
               plain(rule, WIDTH, WIDTH, depth) * factor);
    expect_std("fc", 2 * H * WIDTH, mlp->in.weight.value, plain(rule, WIDTH, H, false) * factor);
    expect_std("fc proj", H * WIDTH, mlp->proj.weight.value, plain(rule, H, WIDTH, depth) * factor);
}

static void check(int rule, int f, int64_t head) {
    struct model_config config =
        small_config(norm_index("ln"), placement_index(factors[f].placement));
    while (!activations[config.activation].gated) config.activation++;
    config.init = rules[rule].init, config.init_std = rules[rule].std;
    config.init_embd_std = rules[rule].embd_std;
    config.n_embd = WIDTH, config.n_layer = LAYERS, config.block_size = LENGTH,
    config.ffn_width = H;
    config.n_head = WIDTH / HS, config.n_kv_head = 2, config.head = head;
    struct model model = held_model(&config, SYMBOLS, 1, 1);
    const double embedding = factors[f].embedding ? pow(factors[f].base, factors[f].power) : 1;
    expect_std("wte", SYMBOLS * WIDTH, model.wte.value, rules[rule].token * embedding);
    expect_std("wpe", LENGTH * WIDTH, model.wpe.value, rules[rule].position * embedding);
    if (head == HEAD_UNTIED)
        expect_std("head", SYMBOLS * WIDTH, model.head.weight.value, rules[rule].head * embedding);
    for (size_t l = 0; l < LAYERS; l++) check_layer(&model.layer[l], l, rule, f);
    for (size_t k = 0; k < model.lists.param.count; k++) { // gamma is 1; beta and biases are 0
        const struct tensor *t = &model.lists.param.tensor[k];
        const double want = strstr(t->name, "ln_") && strstr(t->name, "weight") ? 1 : 0;
        const real *value = model.lists.param.value + t->offset;
        for (size_t i = 0; t->dimensions < 2 && i < t->size; i++)
            cr_assert_eq((double)value[i], want, "%s", t->name);
    }
}

Test(initial, every_rule_with_the_factors_of_placements) {
    for (int rule = 0; rule < RULES; rule++)
        for (int f = 0; f < FACTORS; f++)
            for (int64_t head = HEAD_TIED; head <= HEAD_UNTIED; head++) check(rule, f, head);
}

/* Each intervention changes what it names by its factor, and no other weight. */
static void check_interventions(int64_t init, const char *placement, int64_t positions) {
    struct model_config config = small_config(norm_index("ln"), placement_index(placement));
    config.init = init, config.block_size = positions;
    struct model plain = held_model(&config, SYMBOLS, 1, 1);
    config.init_branch_scale = 0.25, config.outlier_channel = 100, config.outlier_position = 1000;
    struct model changed = held_model(&config, SYMBOLS, 1, 1);
    size_t branches = 0;
    for (size_t k = 0; k < plain.lists.param.count; k++) {
        const struct tensor *t = &plain.lists.param.tensor[k];
        const bool branch = strstr(t->name, "c_proj.weight"), wpe = strstr(t->name, "wpe");
        branches += branch;
        for (size_t i = 0; i < t->size; i++) {
            double factor = branch ? 0.25 : 1;
            if (wpe && i % plain.C == 0) factor *= 100;
            if (wpe && i / plain.C == (size_t)positions / 2) factor *= 1000;
            cr_assert_float_eq((double)changed.lists.param.value[t->offset + i],
                               (double)plain.lists.param.value[t->offset + i] * factor,
                               1e-5 * factor, "init %d, %s, context %d: %s %zu", (int)init,
                               placement, (int)positions, t->name, i);
        }
    }
    cr_expect_eq(branches, 2 * plain.L);
}

Test(initial, interventions_change_one_thing) {
    static const int64_t inits[] = {INIT_GPT2, INIT_XAVIER, INIT_WIDTH};
    for (int i = 0; i < 3; i++)
        for (int f = 0; f < FACTORS; f++)
            for (int64_t positions = 1; positions <= 5; positions++)
                check_interventions(inits[i], factors[f].placement, positions);
}

/* There are no positions to change where they are not learned. */
Test(initial, interventions_leave_fixed_positions_alone) {
    for (int64_t position = 0; position <= POSITION_NONE; position++) {
        struct model_config config = small_config(norm_index("ln"), placement_index("pre"));
        config.position = position;
        if (position == POSITION_LEARNED) continue;
        const struct model plain = held_model(&config, SYMBOLS, 1, 1);
        config.outlier_channel = 100, config.outlier_position = 1000;
        const struct model same = held_model(&config, SYMBOLS, 1, 1);
        if (position == POSITION_SINUSOIDAL)
            expect_close("wpe", plain.T * plain.C, same.wpe.value, plain.wpe.value, 0);
        expect_close("weights", plain.lists.param.size, same.lists.param.value,
                     plain.lists.param.value, 0);
    }
}
