/* The whole model: it learns, it is causal, it does not depend on threads, and runs of different
   norms are paired. */
#include "data/random.h"
#include "data/text/corpus.h"
#include "model/lab/adam.h"
#include "model/lab/sample.h"
#include "model/lab/schedule.h"
#include "model/math/simd.h"
#include "tests/support.h"
#include <criterion/parameterized.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

static const struct adam_options adam_defaults = {0.9, 0.99, 1e-8, 0.1, 1};

/* `steps` updates on the same batch, the rate warming up for 100 (Post-LN needs it), fewer once the
   loss is below `enough`: where gradients vanish, Adam's steps grow until they leave the minimum.
   Returns the last loss. */
static double fit(struct model *model, struct adam *adam, const struct batch *batch, int steps,
                  double lr, double enough) {
    double loss = INFINITY;
    for (int step = 0; step < steps && loss >= enough; step++) {
        model_zero_grad(model);
        model_forward(model, batch, true, step);
        loss = model_backward(model, batch, step, 1);
        adam_step(adam, &model->lists.param, lr * fmin(1, (step + 1) / 100.0),
                  adam_grad_norm(adam, &model->lists.param));
    }
    return loss;
}

ParameterizedTestParameters(model, overfits_one_batch) {
    return every_row();
}

ParameterizedTest(struct pair *pair, model, overfits_one_batch) {
    struct model_config config = pair_config(pair);
    config.n_embd = 32;
    config.block_size = 8;
    struct model model;
    struct adam adam;
    struct batch batch = make_batch(4, 8, 9, 5);
    for (size_t n = 0; n < 32; n++) // the context up to here determines the target
        batch.targets[n] = n % 8 == 7 ? 0 : batch.ids[n + 1];
    for (size_t b = 0; b < 4; b++) batch.ids[8 * b] = (int32_t)b; // sequences can be told apart
    model_init(&model, &config, 9, 4, 1);
    adam_init(&adam, &adam_defaults, &model.lists.param);
    double first = fit(&model, &adam, &batch, 1, 3e-3, 0),
           last = fit(&model, &adam, &batch, 700, 3e-3, 0.01);
    cr_expect(fabs(first - log(9)) < 0.6, "starts near ln V: %g", first);
    cr_expect(last < 0.02, "ends near 0: %g", last);
    batch_free(&batch);
    adam_free(&adam);
    model_free(&model);
}

/* A trained small model, its running statistics no longer those of the start. */
static void train_small(struct model *model, const struct model_config *config, size_t B) {
    struct adam adam;
    struct batch batch = make_batch(B, config->block_size, SMALL_V, 3);
    model_init(model, config, SMALL_V, B, 1);
    adam_init(&adam, &adam_defaults, &model->lists.param);
    fit(model, &adam, &batch, 30, 1e-2, 0);
    batch_free(&batch);
    adam_free(&adam);
}

ParameterizedTestParameters(model, is_causal_in_evaluation) {
    return every_pair();
}

ParameterizedTest(struct pair *pair, model, is_causal_in_evaluation) {
    struct model_config config = pair_config(pair);
    struct model model;
    train_small(&model, &config, SMALL_B);
    struct batch batch = make_batch(SMALL_B, SMALL_T, SMALL_V, 9);
    size_t row = SMALL_T * SMALL_V;
    model_forward(&model, &batch, false, 0);
    real *before = copy_logits(&model, SMALL_B * SMALL_T);
    batch.ids[3] = (batch.ids[3] + 1) % SMALL_V; // token 3 of sequence 0
    model_forward(&model, &batch, false, 0);
    real *after = copy_logits(&model, SMALL_B * SMALL_T);
    cr_expect(difference(3 * SMALL_V, after, before) == 0, "earlier tokens");
    cr_expect(difference(SMALL_V, after + 3 * SMALL_V, before + 3 * SMALL_V) > 0, "itself");
    cr_expect(difference(2 * row, after + row, before + row) == 0, "other sequences");
    free(before);
    free(after);
    batch_free(&batch);
    model_free(&model);
}

/* The window that a sampler sees before character i, from what its head says: it moves by as much
   as leaves half a block, each time that a block is full. */
static size_t window_begin(size_t i, size_t T) {
    size_t begin = 0;
    while (i - begin > T) begin += T - T / 2;
    return begin;
}

static void check_generation(struct model_config config) {
    struct model model;
    train_small(&model, &config, SMALL_B);
    enum { GIVEN = 3, TEXT = 4 * SMALL_T };
    int32_t ids[TEXT] = {2, 0, 1};
    struct sampler sampler;
    sampler_init(&sampler, &model, (struct sample_options){0, 0}, 1);
    for (size_t i = 0; i < GIVEN; i++) sampler_add(&sampler, ids[i]);
    real *grown = malloc(TEXT * SMALL_V * sizeof *grown); // what each character was drawn from
    for (size_t i = GIVEN; i < TEXT; i++) {
        ids[i] = sampler_next(&sampler);
        size_t last = i - window_begin(i, SMALL_T) - 1; // in the window it was drawn from
        memcpy(grown + i * SMALL_V, model_logits(&model, last), SMALL_V * sizeof *grown);
    }
    sampler_free(&sampler);
    for (size_t i = GIVEN; i < TEXT; i++) {
        size_t begin = window_begin(i, SMALL_T);
        struct batch window = {.B = 1, .T = i - begin, .ids = ids + begin};
        model_forward(&model, &window, false, 0);
        const real *logits = model_logits(&model, window.T - 1);
        expect_close("logits", SMALL_V, grown + i * SMALL_V, logits, in_double() ? 1e-13 : 1e-6);
        for (size_t v = 0; v < SMALL_V; v++) cr_expect(logits[v] <= logits[ids[i]]);
    }
    free(grown);
    model_free(&model);
}

ParameterizedTestParameters(model, generation_equals_the_full_forward) {
    return every_pair();
}

ParameterizedTest(struct pair *pair, model, generation_equals_the_full_forward) {
    check_generation(pair_config(pair));
}

/* Pieces of any length, across blocks of tokens, and by any number of threads. */
static void check_growth(struct model_config config) {
    enum { LENGTH = 75, V = 11 };
    static const size_t ends[] = {1, 2, 33, 34, 70, 71, 72, LENGTH};
    config.n_embd = 40;
    config.block_size = LENGTH;
    omp_set_num_threads(3);
    struct model model;
    model_init(&model, &config, V, 1, 1);
    struct batch batch = make_batch(1, LENGTH, V, 5), other = make_batch(1, LENGTH, V, 6);
    model_forward(&model, &batch, true, 0); // bn's running statistics are no longer what they were
    for (model.threads = 1; model.threads <= 3; model.threads += 2) {
        real *whole = malloc(LENGTH * V * sizeof *whole);
        model_forward(&model, &batch, false, 0);
        for (size_t n = 0; n < LENGTH; n++)
            memcpy(whole + n * V, model_logits(&model, n), V * sizeof *whole);
        model_forward(&model, &other, false, 0); // nothing is left of it
        size_t first = 0;
        for (size_t i = 0; i < sizeof ends / sizeof *ends; first = ends[i++]) {
            model_extend(&model, batch.ids, first, ends[i]);
            for (size_t n = first; n < ends[i]; n++)
                expect_close("logits", V, model_logits(&model, n), whole + n * V,
                             0); // the same bits
        }
        free(whole);
    }
    omp_set_num_threads(1);
    batch_free(&batch);
    batch_free(&other);
    model_free(&model);
}

ParameterizedTestParameters(model, a_text_grows_as_the_whole_of_it_would) {
    return every_pair();
}

ParameterizedTest(struct pair *pair, model, a_text_grows_as_the_whole_of_it_would) {
    check_growth(pair_config(pair));
}

/* What 5 updates by a team of so many threads lead to: weights and running statistics, and the loss
   in evaluation. There are enough tokens for 16 threads, and several slabs of them. */
struct trained {
    real *values;
    size_t count;
    double loss;
};

static struct trained train_by(const struct model_config *config, size_t threads, int most) {
    enum { SEQUENCES = 28, CHARACTERS = 33 }; // more tokens than the head takes at once
    struct model model;
    struct adam adam;
    struct trained trained;
    omp_set_num_threads(most);
    struct batch batch = make_batch(SEQUENCES, config->block_size, CHARACTERS, 3);
    model_init(&model, config, CHARACTERS, SEQUENCES, 1);
    omp_set_num_threads(16);
    model.threads = threads;
    adam_init(&adam, &adam_defaults, &model.lists.param);
    adam.threads = model_team(&model);
    fit(&model, &adam, &batch, 5, 1e-2, 0);
    size_t piece = ROWS * vec_padded(CHARACTERS); // of logits, which all tokens of a thread need
    for (size_t thread = 0; threads && thread < (size_t)most; thread++)
        cr_expect((model.logits[thread * piece] != 0) == (thread < threads),
                  "thread %zu of %zu has %s", thread, threads,
                  thread < threads ? "nothing to do" : "something to do");
    model_forward(&model, &batch, false, 0);
    model_loss(&model, &batch, &trained.loss);
    size_t weights = model.lists.param.size, states = model.lists.state.size;
    trained.count = weights + states;
    trained.values = malloc(trained.count * sizeof(real));
    memcpy(trained.values, model.lists.param.value, weights * sizeof(real));
    if (states) memcpy(trained.values + weights, model.lists.state.value, states * sizeof(real));
    batch_free(&batch);
    adam_free(&adam);
    model_free(&model);
    return trained;
}

static void check_threads(struct model_config config, int64_t length) {
    config.n_embd = 40;
    config.block_size = length;
    config.dropout = 0.1;
    struct trained one = train_by(&config, 1, 16);
    const struct {
        size_t threads;
        int most;
    } teams[] = {{2, 16},  {3, 16}, {8, 8},
                 {16, 16}, {0, 8},  {8, 3}}; // 0: as many as the work is worth
    for (size_t i = 0; i < sizeof teams / sizeof *teams; i++) {
        struct trained many = train_by(&config, teams[i].threads, teams[i].most);
        cr_expect(!memcmp(one.values, many.values, one.count * sizeof(real)) &&
                      one.loss == many.loss,
                  "%zu threads of %d", teams[i].threads, teams[i].most);
        free(many.values);
    }
    cr_expect(one.count > 1000 && difference(one.count, one.values, one.values) == 0, "and no NaN");
    free(one.values);
}

ParameterizedTestParameters(model, same_bits_for_any_number_of_threads) {
    return every_row();
}

ParameterizedTest(struct pair *pair, model, same_bits_for_any_number_of_threads) {
    check_threads(pair_config(pair), 37);
}

/* Sequences of 64 are whole in the shares of 1 and 2 threads, not in those of 3, 8 and 16: some
   attend alone, sequence by sequence, and some meet for it. */
Test(model, same_bits_with_attention_alone_and_in_meetings) {
    int ln = norm_index("ln"), residual = (int)(placement_find("residual") - placements);
    const struct pair pairs[] = {
        {ln, 0, false}, {ln, 0, true}, {norm_index("bn"), 1, false}, {ln, residual, false}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        check_threads(pair_config(&pairs[i]), 64);
}

/* Statistics of each position for itself let no token see what follows it; those over all tokens
 * do.
 */
static void check_causality_in_training(int64_t axis, bool causal) {
    struct model_config config = small_config(norm_index("bn"), 0);
    config.norms.bn_axis = axis;
    struct model model;
    train_small(&model, &config, SMALL_B);
    struct batch batch = make_batch(SMALL_B, SMALL_T, SMALL_V, 9);
    model_forward(&model, &batch, true, 0);
    real *before = copy_logits(&model, SMALL_B * SMALL_T);
    batch.ids[3] = (batch.ids[3] + 1) % SMALL_V; // token 3 of sequence 0
    model_forward(&model, &batch, true, 0);
    real *after = copy_logits(&model, SMALL_B * SMALL_T);
    for (size_t b = 0, at = 0; b < SMALL_B; b++, at += SMALL_T * SMALL_V) {
        cr_expect((difference(3 * SMALL_V, after + at, before + at) == 0) == causal, "earlier");
        cr_expect(difference(SMALL_V, after + at + 3 * SMALL_V, before + at + 3 * SMALL_V) > 0,
                  "at the same position, of any sequence");
    }
    free(before);
    free(after);
    batch_free(&batch);
    model_free(&model);
}

Test(model, batchnorm_by_position_is_causal_in_training) {
    check_causality_in_training(BN_AXIS_BATCH, true);
    check_causality_in_training(BN_AXIS_BATCH_TIME, false);
}

Test(model, batchnorm_by_position_grows_generates_and_is_shared_out) {
    for (int placement = 0; placement < 2; placement++) {
        struct model_config config = small_config(norm_index("bn"), placement);
        config.norms.bn_axis = BN_AXIS_BATCH;
        check_generation(config);
        check_growth(config);
        check_threads(config, 37);
    }
}

Test(model, runs_of_different_norms_are_paired) {
    struct model_config ln = small_config(1, 0), other = small_config(2, 1);
    struct model a, b;
    model_init(&a, &ln, SMALL_V, SMALL_B, 1);
    model_init(&b, &other, SMALL_V, SMALL_B, 1);
    int same = 0;
    for (size_t i = 0; i < a.lists.param.count; i++)
        for (size_t j = 0; j < b.lists.param.count; j++) {
            const struct tensor *s = &a.lists.param.tensor[i], *t = &b.lists.param.tensor[j];
            if (strcmp(s->name, t->name) != 0) continue;
            same++;
            cr_expect(difference(s->size, a.lists.param.value + s->offset,
                                 b.lists.param.value + t->offset) == 0,
                      "%s", s->name);
        }
    cr_expect(same > 20);
    model_free(&a);
    model_free(&b);
}

Test(model, initial_weights_are_nanogpt_s) {
    struct model_config config = small_config(1, 0);
    config.n_embd = 64;
    config.n_layer = 3;
    struct model model;
    model_init(&model, &config, 50, 2, 4);
    for (size_t i = 0; i < model.lists.param.count; i++) {
        const struct tensor *t = &model.lists.param.tensor[i];
        const real *w = model.lists.param.value + t->offset;
        bool proj = strstr(t->name, "c_proj.weight"), norm = strstr(t->name, "ln_");
        double mean = 0, square = 0, want = proj ? 0.02 / sqrt(6) : 0.02;
        for (size_t j = 0; j < t->size; j++) {
            mean += (double)w[j] / (double)t->size;
            square += (double)w[j] * (double)w[j] / (double)t->size;
        }
        if (t->dimensions == 2)
            cr_expect(fabs(sqrt(square) / want - 1) < 0.2 && fabs(mean) < want / 4, "%s", t->name);
        else
            cr_expect(square == (norm && strstr(t->name, "weight") ? 1 : 0), "%s", t->name);
    }
    model_free(&model);
}

Test(model, counts_nanogpt_s_parameters) {
    struct model_config config = small_config(1, 0);
    config.n_layer = 6, config.n_head = 6, config.n_embd = 384, config.block_size = 256;
    config.bias = 0;
    struct model model;
    model_init(&model, &config, 65, 1, 1);
    cr_expect_eq(model_parameters(&model), 10745088); // "10.65M" and 98304 of wpe
    model_free(&model);
}

Test(model, accumulated_gradients_are_those_of_the_whole_batch) {
    struct model_config config = small_config(1, 0);
    struct model model;
    model_init(&model, &config, SMALL_V, 4, 1);
    struct batch whole = make_batch(4, SMALL_T, SMALL_V, 1), half = whole;
    size_t size = model.lists.param.size;
    real *want = malloc(size * sizeof(real));
    model_zero_grad(&model);
    model_forward(&model, &whole, true, 0);
    double loss = model_backward(&model, &whole, 0, 1), sum = 0;
    memcpy(want, model.lists.param.grad, size * sizeof(real));
    model_zero_grad(&model);
    half.B = 2;
    for (int i = 0; i < 2; i++) {
        half.ids = whole.ids + i * 2 * SMALL_T;
        half.targets = whole.targets + i * 2 * SMALL_T;
        model_forward(&model, &half, true, 0);
        sum += model_backward(&model, &half, 0, 0.5) / 2;
    }
    expect_close("gradient", size, model.lists.param.grad, want, in_double() ? 1e-13 : 1e-5);
    cr_expect(fabs(sum - loss) < 1e-6);
    free(want);
    batch_free(&whole);
    model_free(&model);
}

ParameterizedTestParameters(model, many_tokens_are_the_sum_of_their_halves) {
    return every_pair();
}

/* More tokens than the head takes at a time, against halves that it takes at once. */
ParameterizedTest(struct pair *pair, model, many_tokens_are_the_sum_of_their_halves) {
    enum { SEQUENCES = 40, LENGTH = 37, HALF = SEQUENCES / 2 * LENGTH };
    struct model_config config = pair_config(pair);
    if (norm_kinds[pair->norm]->statistics) return; // pools over tokens: a half is something else
    config.block_size = LENGTH;
    omp_set_num_threads(3);
    struct model model;
    model_init(&model, &config, SMALL_V, SEQUENCES, 1);
    model.threads = 3;
    struct batch whole = make_batch(SEQUENCES, LENGTH, SMALL_V, 1), half = whole;
    whole.targets[5] = -1;
    whole.targets[HALF + 5] = -1; // as many in each half
    size_t size = model.lists.param.size, count = 2 * HALF * SMALL_V;
    real *want = malloc(size * sizeof(real));
    double sum, part[2];
    model_zero_grad(&model);
    model_forward(&model, &whole, true, 0);
    double loss = model_backward(&model, &whole, 0, 1), halves = 0;
    cr_expect_eq(model_loss(&model, &whole, &sum), 2 * HALF - 2);
    real *logits = copy_logits(&model, 2 * HALF), *again = malloc(count * sizeof(real));
    memcpy(want, model.lists.param.grad, size * sizeof(real));
    model_zero_grad(&model);
    half.B = SEQUENCES / 2;
    for (int i = 0; i < 2; i++) {
        half.ids = whole.ids + i * HALF;
        half.targets = whole.targets + i * HALF;
        model_forward(&model, &half, true, 0);
        halves += model_backward(&model, &half, 0, 0.5) / 2;
        cr_expect_eq(model_loss(&model, &half, &part[i]), HALF - 1);
        real *own = copy_logits(&model, HALF);
        memcpy(again + count / 2 * i, own, count / 2 * sizeof(real));
        free(own);
    }
    double error = in_double() ? 1e-13 : 1e-5;
    expect_close("gradient", size, model.lists.param.grad, want, error);
    expect_close("logits", count, again, logits, error);
    cr_expect(fabs(loss - halves) < 0.1 * error, "%g, not %g", loss, halves);
    cr_expect(fabs(sum / (part[0] + part[1]) - 1) < 0.1 * error);
    cr_expect(fabs(loss * (2 * HALF - 2) / sum - 1) < 0.1 * error);
    free(want);
    free(logits);
    free(again);
    batch_free(&whole);
    model_free(&model);
}

Test(model, evaluation_moves_nothing) {
    struct model_config config = small_config(2, 0); // bn
    config.dropout = 0.5;
    struct model model;
    train_small(&model, &config, SMALL_B);
    struct batch batch = make_batch(SMALL_B, SMALL_T, SMALL_V, 9);
    size_t count = SMALL_B * SMALL_T * SMALL_V, states = model.lists.state.size;
    real *logits[3], *state = malloc(states * sizeof(real));
    model_forward(&model, &batch, false, 0);
    logits[0] = copy_logits(&model, SMALL_B * SMALL_T);
    memcpy(state, model.lists.state.value, states * sizeof(real));
    model_forward(&model, &batch, false, 1);
    logits[1] = copy_logits(&model, SMALL_B * SMALL_T);
    cr_expect(difference(count, logits[0], logits[1]) == 0);
    cr_expect(states > 0 && difference(states, state, model.lists.state.value) == 0);
    model_forward(&model, &batch, true, 1);
    logits[2] = copy_logits(&model, SMALL_B * SMALL_T);
    cr_expect(difference(count, logits[0], logits[2]) > 0);
    cr_expect(difference(states, state, model.lists.state.value) > 0);
    for (int i = 0; i < 3; i++) free(logits[i]);
    free(state);
    batch_free(&batch);
    model_free(&model);
}

Test(model, every_site_layer_and_step_has_a_dropout_mask_of_its_own) {
    struct model_config config = small_config(0, 0); // no norm: a dropped element passes x on
    config.n_embd = 60;
    config.dropout = 0.5;
    struct model model;
    model_init(&model, &config, SMALL_V, SMALL_B, 1);
    struct batch batch = make_batch(SMALL_B, SMALL_T, SMALL_V, 9);
    enum { COUNT = SMALL_B * SMALL_T * 60, MASKS = 8 };
    static bool dropped[MASKS][COUNT];
    for (int step = 0, k = 0; step < 2; step++) {
        model_forward(&model, &batch, true, step);
        for (int l = 0; l < 2; l++) {
            const struct sublayer *sublayers[] = {&model.layer[l].attention, &model.layer[l].mlp};
            for (int i = 0; i < 2; i++, k++)
                for (int n = 0; n < COUNT; n++)
                    dropped[k][n] = sublayers[i]->sum[n] == sublayers[i]->x[n];
        }
    }
    for (int j = 0; j < MASKS; j++)
        for (int k = 0; k < j; k++) {
            int same = 0;
            for (int n = 0; n < COUNT; n++) same += dropped[j][n] == dropped[k][n];
            cr_expect(same > COUNT * 4 / 10 && same < COUNT * 6 / 10, "masks %d and %d: %d of %d",
                      j, k, same, COUNT);
        }
    batch_free(&batch);
    model_free(&model);
}

Test(schedule, warms_up_and_decays) {
    struct schedule s = {SCHEDULE_COSINE, 100, 2000, 1e-3, 1e-4};
    cr_expect_float_eq(schedule_rate(&s, 0), 1e-3 / 101, 1e-12);
    cr_expect_float_eq(schedule_rate(&s, 99), 1e-3 * 100 / 101, 1e-12);
    cr_expect_float_eq(schedule_rate(&s, 100), 1e-3, 1e-12);
    cr_expect_float_eq(schedule_rate(&s, 1050), 5.5e-4, 1e-12);
    cr_expect_float_eq(schedule_rate(&s, 2000), 1e-4, 1e-12);
    cr_expect_float_eq(schedule_rate(&s, 9999), 1e-4, 1e-12);
    s.kind = SCHEDULE_LINEAR;
    cr_expect_float_eq(schedule_rate(&s, 575), 7.75e-4, 1e-12);
    s.kind = SCHEDULE_CONSTANT;
    cr_expect_float_eq(schedule_rate(&s, 9999), 1e-3, 1e-12);
}

Test(sample, draws_by_probability_temperature_and_rank) {
    const real logits[4] = {0, (real)log(3), -1000, (real)log(6)}; // 0.1, 0.3, 0, 0.6
    struct sample_options one = {1, 0}, cold = {0, 0}, two = {1, 2}, hot = {2, 0};
    int count[4] = {0}, limited[4] = {0}, warm[4] = {0};
    for (int i = 0; i < 10000; i++) {
        double u = (i + 0.5) / 10000;
        count[sample_index(4, logits, one, u)]++;
        limited[sample_index(4, logits, two, u)]++;
        warm[sample_index(4, logits, hot, u)]++;
        cr_assert_eq(sample_index(4, logits, cold, u), 3);
    }
    cr_expect(abs(count[0] - 1000) < 3 && abs(count[1] - 3000) < 3 && abs(count[3] - 6000) < 3);
    cr_expect(limited[0] == 0 && abs(limited[1] - 3333) < 3 && abs(limited[3] - 6667) < 3);
    cr_expect(abs(warm[0] - 1930) < 3 && abs(warm[1] - 3343) < 3, "%d %d", warm[0], warm[1]);
    cr_expect(count[2] == 0);
}
