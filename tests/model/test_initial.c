/* The standard deviation of every initial matrix: each rule of --init, with the factors of
   placements on top. */
#include "tests/support.h"
#include <math.h>
#include <string.h>

enum { C = 64, L = 3, T = 32, V = 50, HS = C / 4, H = 96 };

/* The factors that the papers have for their matrices in layer l of L. */
static const struct {
    const char *placement;
    bool by_depth;                     // its factors replace GPT-2's 1 / sqrt(2L)
    bool qk;                           // q and k have the factor too
    double base, base_of_layer, power; // (base + base_of_layer l)^power
    bool embedding;                    // the embeddings have the factor of layer 0
} factors[] = {
    {"pre", .base = 1},
    {"peri", .base = 1},
    {"deepnorm", .by_depth = true, .base = 8 * L, .power = -0.25},
    {"dsinit", .by_depth = true, .qk = true, .base = 1, .base_of_layer = 1, .power = -0.5},
    {"tfixup", .by_depth = true, .base = 6 * L, .power = -0.25, .embedding = true},
};

static const struct {
    int64_t init;
    double std, embd_std, token, position, head; // the last three: what a model of C channels gets
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
    return into_stream ? std / sqrt(2 * L) : std;
}

static void check_layer(const struct layer *layer, size_t l, int rule, int f) {
    const double factor =
        pow(factors[f].base + factors[f].base_of_layer * (double)l, factors[f].power);
    const bool depth = !factors[f].by_depth;
    const size_t kv = 2 * HS; // channels of k, and of v
    const struct sublayer *attention = &layer->attention, *mlp = &layer->mlp;
    const real *qkv = attention->in.weight.value; // (C + 2 kv, C)
    const double square = plain(rule, C, C, false);
    expect_std("q, k", (C + kv) * C, qkv, square * (factors[f].qk ? factor : 1));
    expect_std("v", kv * C, qkv + (C + kv) * C, square * factor);
    expect_std("proj", C * C, attention->proj.weight.value, plain(rule, C, C, depth) * factor);
    expect_std("fc", 2 * H * C, mlp->in.weight.value, plain(rule, C, H, false) * factor);
    expect_std("fc proj", H * C, mlp->proj.weight.value, plain(rule, H, C, depth) * factor);
}

static void check(int rule, int f, int64_t head) {
    struct model_config config = small_config(norm_index("ln"), 0);
    while (strcmp(placements[config.placement].name, factors[f].placement) != 0) config.placement++;
    while (!activations[config.activation].gated) config.activation++;
    config.init = rules[rule].init, config.init_std = rules[rule].std;
    config.init_embd_std = rules[rule].embd_std;
    config.n_embd = C, config.n_layer = L, config.block_size = T, config.ffn_width = H;
    config.n_head = C / HS, config.n_kv_head = 2, config.head = head;
    struct model model;
    model_init(&model, &config, V, 1, 1);
    const double embedding = factors[f].embedding ? pow(factors[f].base, factors[f].power) : 1;
    expect_std("wte", V * C, model.wte.value, rules[rule].token * embedding);
    expect_std("wpe", T * C, model.wpe.value, rules[rule].position * embedding);
    if (head == HEAD_UNTIED)
        expect_std("head", V * C, model.head.weight.value, rules[rule].head * embedding);
    for (size_t l = 0; l < L; l++) check_layer(&model.layer[l], l, rule, f);
    model_free(&model);
}

Test(initial, every_rule_with_the_factors_of_placements) {
    for (int rule = 0; rule < RULES; rule++)
        for (int f = 0; f < FACTORS; f++)
            for (int64_t head = HEAD_TIED; head <= HEAD_UNTIED; head++) check(rule, f, head);
}
