/* Optimizers of every kind: the tests iterate optimizer_kinds, so a new kind is tested at once. */
#include "model/options/config.h"
#include "tests/model/golden.h"
#include "tests/support.h"
#include <string.h>

enum { STEPS = 20, THREADS = 8 };

/* A kind with the program's default options. */
static struct optimizer_options options_of(size_t kind) {
    struct config config;
    config_start(&config);
    config.optimizer.kind = (int64_t)kind;
    config.optimizer.peak = config.schedule.rate;
    return config.optimizer;
}

/* A model with grouped queries and a gate, as small as the golden ones. */
static struct model make_model(void) {
    const struct pair pair = {.norm = norm_index("ln"), .block = BLOCK_GEMMA};
    struct model_config config = pair_config(&pair);
    return held_model(&config, GOLDEN_V, GOLDEN_B, 1);
}

/* One update on golden batch number k; returns the loss before it. */
static real update(struct model *model, struct optimizer *optimizer, int k, double lr) {
    struct batch batch = golden_batch(k);
    return (real)train_step(model, optimizer, &batch, (uint64_t)k, lr);
}

/* A golden case, as in make_golden.py: a kind and the options that are not the defaults. */
struct golden_case {
    const char *name, *kind;
    struct {
        const char *option;
        double value; // of a switch or an integer, too
    } set[4];
};

static const struct golden_case golden_cases[] = {
    {"adamw", "adamw", {{0}}},
    {"sgd", "sgd", {{0}}},
    {"muon", "muon", {{0}}},
    {"sgd-plain", "sgd", {{"sgd-nesterov", 0}, {"sgd-momentum", 0.5}}},
    {"muon-plain",
     "muon",
     {{"muon-nesterov", 0}, {"muon-momentum", 0.5}, {"muon-steps", 3}, {"muon-lr", 0.03}}},
};

static void expect_golden(const struct golden_case *golden, size_t kind) {
    static const char path[] = "tests/golden/optimizers.txt";
    const double lr = 1e-2, tolerance = in_double() ? 1e-8 : 2e-4;
    struct optimizer_options options = options_of(kind);
    struct model model = make_model();
    real losses[STEPS], dots[2];
    char key[128];
    gradient_case("%s", golden->name);
    golden_start(&model.lists.param);
    model.lists.param.version++;
    options.peak = lr;
    optimizer_set(&options, "adam-eps", 1e-4);
    for (int i = 0; i < 4 && golden->set[i].option; i++)
        optimizer_set(&options, golden->set[i].option, golden->set[i].value);
    struct optimizer optimizer = held_optimizer(&options, &model.lists.param, 1);
    for (int step = 0; step < STEPS; step++) losses[step] = update(&model, &optimizer, step, lr);
    snprintf(key, sizeof key, "%s:losses", golden->name);
    golden_expect(path, key, STEPS, losses, tolerance, 0);
    for (size_t k = 0; k < model.lists.param.count; k++) {
        const struct tensor *t = &model.lists.param.tensor[k];
        snprintf(key, sizeof key, "%s:dots:%s", golden->name, t->name);
        golden_dots(t->size, model.lists.param.value + t->offset, dots);
        golden_expect(path, key, 2, dots, tolerance, sqrt((double)t->size));
    }
}

Test(optimizer, trains_as_pytorch_does) {
    for (size_t kind = 0; optimizer_kinds[kind]; kind++) {
        bool found = false;
        for (size_t i = 0; i < sizeof golden_cases / sizeof *golden_cases; i++) {
            if (strcmp(golden_cases[i].kind, optimizer_kinds[kind]->name) != 0) continue;
            expect_golden(&golden_cases[i], kind);
            found = true;
        }
        cr_expect(found, "%s: make_golden.py has no case of it", optimizer_kinds[kind]->name);
    }
}

/* Queries, keys, values and gates, of 8 channels in 2 heads. */
Test(optimizer, muon_s_matrices_are_those_of_attention) {
    static const size_t rows[BLOCKS][TENSOR_MATRICES] = {
        [BLOCK_LLAMA] = {8, 8, 8, 2}, [BLOCK_GEMMA] = {8, 4, 4}, [BLOCK_OTHER] = {8, 4, 4, 8}};
    for (int block = BLOCK_LLAMA; block < BLOCKS; block++) {
        struct model_config config =
            pair_config(&(struct pair){.norm = norm_index("ln"), .block = block});
        const struct model model = held_model(&config, SMALL_V, SMALL_B, 1);
        const struct tensor *weight = model.layer[0].attention.in.weight.tensor;
        cr_expect_arr_eq(weight->matrix_rows, rows[block], sizeof rows[block], "%d", block);
    }
}

/* --muon-lr falls as --learning-rate does: at half of that rate's peak it is half of its own. */
Test(optimizer, muon_s_own_rate_follows_the_schedule) {
    size_t muon = 0;
    while (strcmp(optimizer_kinds[muon]->name, "muon") != 0) muon++;
    real *first = NULL;
    for (int own_rate = 0; own_rate < 2; own_rate++) {
        struct optimizer_options options = options_of(muon);
        struct model model = make_model();
        options.peak = 0.01;
        optimizer_set(&options, "muon-lr", own_rate ? 0.03 : -1);
        struct optimizer optimizer = held_optimizer(&options, &model.lists.param, 1);
        update(&model, &optimizer, 0, own_rate ? 0.005 : 0.015);
        const struct param weight = model.layer[0].mlp.in.weight;
        if (own_rate)
            expect_close("weight", 8 * 8, weight.value, first, in_double() ? 1e-14 : 1e-6);
        else
            first = copy_reals(8 * 8, weight.value);
    }
}

/* Whether x (n,n) is symmetric and positive definite: it is L L^T. */
static bool positive_definite(size_t n, double *x) {
    for (size_t j = 0; j < n; j++) {
        for (size_t k = 0; k < j; k++)
            for (size_t i = j; i < n; i++) x[i * n + j] -= x[i * n + k] * x[j * n + k];
        if (!(x[j * n + j] > 0)) return false;
        const double root = sqrt(x[j * n + j]);
        for (size_t i = j; i < n; i++) x[i * n + j] /= root;
    }
    return true;
}

/* Whether the singular values of x (m,n), m >= n, are above `limit`, with sign = -1 below it. */
static bool singular_beyond(size_t m, size_t n, const real *x, int sign, double limit) {
    double *beyond = hold(n * n * sizeof *beyond);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            double product = 0;
            for (size_t k = 0; k < m; k++) product += (double)x[k * n + i] * (double)x[k * n + j];
            beyond[i * n + j] = sign * (product - (i == j) * limit * limit);
        }
    return positive_definite(n, beyond);
}

/* Gradients as small as those of rezero's first updates, or of a model near the smallest floats,
   move weights as far as large ones do: singular values of an update are 0.68 to 1.21 of nominal,
   the range of five Newton-Schulz steps. */
Test(optimizer, muon_s_update_does_not_depend_on_the_size_of_gradients) {
    enum { M = 32, N = 8 }; // half of the weight of a gated MLP
    static const int exponents[] = {-8, -30, -60, -110};
    const double rate = 0.01;
    size_t muon = 0;
    while (strcmp(optimizer_kinds[muon]->name, "muon") != 0) muon++;
    struct optimizer_options options = options_of(muon);
    options.weight_decay = 0;
    const real *first = NULL;
    for (size_t k = 0; k < sizeof exponents / sizeof *exponents; k++) {
        struct model model = make_model();
        struct tensor_list *param = &model.lists.param;
        struct optimizer optimizer = held_optimizer(&options, param, 1);
        const real *grad = random_reals(param->size, 1), *w = model.layer[0].mlp.in.weight.value;
        for (size_t i = 0; i < param->size; i++)
            param->grad[i] = (real)ldexp((double)grad[i], exponents[k]);
        cr_assert_eq(model.layer[0].mlp.in.weight.tensor->matrix_rows[0], M);
        memset(param->value, 0, param->size * sizeof(real)); // what is left is the update
        optimizer_step(&optimizer, param, rate, optimizer_grad_norm(&optimizer, param));
        const double nominal = rate * 0.2 * sqrt(M);
        cr_expect(singular_beyond(M, N, w, 1, 0.68 * nominal), "2^%d", exponents[k]);
        cr_expect(singular_beyond(M, N, w, -1, 1.21 * nominal), "2^%d", exponents[k]);
        if (first) cr_expect(difference(M * N, w, first) == 0, "2^%d", exponents[k]);
        first = copy_reals(M * N, w);
    }
}

/* A gradient of rank 1 has singular values of 0, which rounding makes a little negative in X^T X.
   However many the steps, no singular value of the update exceeds 1.21 of nominal. */
Test(optimizer, muon_s_update_stays_bounded_after_many_steps) {
    enum { M = 32, N = 8 };
    const double rate = 0.01, nominal = rate * 0.2 * sqrt(M);
    size_t muon = 0;
    while (strcmp(optimizer_kinds[muon]->name, "muon") != 0) muon++;
    struct optimizer_options options = options_of(muon);
    options.weight_decay = 0;
    for (int steps = 1; steps <= 100; steps += steps < 20 ? 1 : 40) {
        struct model model = make_model();
        struct tensor_list *param = &model.lists.param;
        optimizer_set(&options, "muon-steps", steps);
        struct optimizer optimizer = held_optimizer(&options, param, 1);
        const real *factor = random_reals(param->size, 1), *w = model.layer[0].mlp.in.weight.value;
        real *grad = model.layer[0].mlp.in.weight.grad;
        for (size_t i = 0; i < M * N; i++) grad[i] = factor[i / N] * factor[M + i % N];
        memset(param->value, 0, param->size * sizeof(real)); // what is left is the update
        optimizer_step(&optimizer, param, rate, optimizer_grad_norm(&optimizer, param));
        cr_expect(singular_beyond(M, N, w, -1, 1.21 * nominal), "%d steps", steps);
    }
}

/* A square's gradient of rank 1 keeps its digits: its only singular value becomes p(p(p(p(p(1))))),
   and the others stay near 0. */
Test(optimizer, muon_s_update_of_a_square_is_exact) {
    const double rate = 0.01;
    size_t muon = 0;
    while (strcmp(optimizer_kinds[muon]->name, "muon") != 0) muon++;
    struct optimizer_options options = options_of(muon);
    options.weight_decay = 0;
    struct model model = make_model();
    struct tensor_list *param = &model.lists.param;
    struct optimizer optimizer = held_optimizer(&options, param, 1);
    const struct param *square = &model.layer[0].attention.proj.weight;
    const size_t C = model.C;
    const real *factor = random_reals(2 * C, 1), *w = square->value;
    double squares = 0, s = 1, error = 0;
    for (size_t i = 0; i < C * C; i++) {
        square->grad[i] = factor[i / C] * factor[C + i % C];
        squares += (double)square->grad[i] * (double)square->grad[i];
    }
    for (int step = 0; step < 5; step++)
        s = 3.4445 * s - 4.7750 * s * s * s + 2.0315 * s * s * s * s * s;
    memset(param->value, 0, param->size * sizeof(real)); // what is left is the update
    optimizer_step(&optimizer, param, rate, optimizer_grad_norm(&optimizer, param));
    const double nominal = rate * 0.2 * sqrt((double)C);
    for (size_t i = 0; i < C * C; i++)
        error =
            fmax(error, fabs((double)w[i] / nominal + s * (double)square->grad[i] / sqrt(squares)));
    cr_expect(error < 1e-4, "%g", error);
}

Test(optimizer, same_bits_for_any_number_of_threads) {
    for (size_t kind = 0; optimizer_kinds[kind]; kind++) {
        const struct optimizer_options options = options_of(kind);
        real *one = NULL;
        for (int threads = 1; threads <= THREADS; threads++) {
            omp_set_num_threads(threads);
            struct model model = make_model();
            struct optimizer optimizer = held_optimizer(&options, &model.lists.param, threads);
            for (int step = 0; step < 3; step++) update(&model, &optimizer, step, 0.01);
            if (one)
                cr_expect(difference(model.lists.param.size, one, model.lists.param.value) == 0,
                          "%s: %d threads", optimizer_kinds[kind]->name, threads);
            else
                one = copy_values(&model.lists.param);
        }
    }
}
