/* Generation and a growing text give what the full forward gives, and the number of threads changes
   nothing. */
#include "data/text/corpus.h"
#include "model/instruments/sample.h"
#include "model/math/simd.h"
#include "tests/support.h"
#include <omp.h>
#include <string.h>

/* The start of the window that a sampler sees before character i, from the description in its
   header: each time that the block is full, the window moves until half of the block is left. */
static size_t window_start(size_t i, size_t T) {
    size_t begin = 0;
    while (i - begin > T) begin += T - T / 2;
    return begin;
}

static void check_generation(struct model_config config) {
    struct model model = fit_small(&config, SMALL_B);
    enum { GIVEN = 3, TEXT = 4 * SMALL_T };
    int32_t ids[TEXT] = {2, 0, 1};
    struct sampler sampler;
    sampler_init(&sampler, &model, (struct sample_options){.top_p = 1}, 1);
    for (size_t i = 0; i < GIVEN; i++) sampler_add(&sampler, ids[i]);
    real *grown =
        hold(TEXT * SMALL_V * sizeof *grown); // the logits that each character was sampled from
    for (size_t i = GIVEN; i < TEXT; i++) {
        ids[i] = sampler_next(&sampler, false);
        size_t last = i - window_start(i, SMALL_T) - 1; // in the window that it was sampled from
        memcpy(grown + i * SMALL_V, head_logits(&model, last), SMALL_V * sizeof *grown);
    }
    sampler_free(&sampler);
    for (size_t i = GIVEN; i < TEXT; i++) {
        size_t begin = window_start(i, SMALL_T);
        struct batch window = {.B = 1, .T = i - begin, .ids = ids + begin};
        model_forward(&model, &window, false, 0);
        const real *logits = head_logits(&model, window.T - 1);
        expect_close("logits", SMALL_V, grown + i * SMALL_V, logits, in_double() ? 1e-13 : 1e-6);
        for (size_t v = 0; v < SMALL_V; v++) cr_expect(logits[v] <= logits[ids[i]]);
    }
}

static void check_generation_equals_the_full_forward(const struct pair *pair) {
    check_generation(pair_config(pair));
}

Test(model, generation_equals_the_full_forward) {
    every_norm_and_placement(check_generation_equals_the_full_forward);
}

/* A text that grows by pieces of any length, across row blocks, on any number of threads. */
enum { LENGTH = 75, V = 11 };

/* `logits` (LENGTH,V) are those of a forward pass of `ids` (LENGTH). */
static void grow(struct model *model, const int32_t *ids, const real *logits) {
    static const size_t ends[] = {1, 2, 33, 34, 70, 71, 72, LENGTH};
    for (size_t first = 0, i = 0; i < sizeof ends / sizeof *ends; first = ends[i++]) {
        model_extend(model, ids, first, ends[i]);
        for (size_t n = first; n < ends[i]; n++)
            expect_close("logits", V, head_logits(model, n), logits + n * V, 0); // the same bits
    }
}

static void check_growth(struct model_config config) {
    config.n_embd = 40;
    config.block_size = LENGTH;
    omp_set_num_threads(3);
    struct model model = held_model(&config, V, 1, 1);
    struct batch batch = make_batch(1, LENGTH, V, 5), other = make_batch(1, LENGTH, V, 6);
    model_forward(&model, &batch, true,
                  0); // so that bn's running statistics are not the initial ones
    for (model.threads = 1; model.threads <= 3; model.threads += 2) {
        model_forward(&model, &batch, false, 0);
        const real *logits = copy_logits(&model, LENGTH);
        model_forward(&model, &other, false, 0); // no trace of it may be left
        grow(&model, batch.ids, logits);
    }
    omp_set_num_threads(1);
}

static void check_a_text_grows_as_the_whole_of_it_would(const struct pair *pair) {
    check_growth(pair_config(pair));
}

Test(model, a_text_grows_as_the_whole_of_it_would) {
    every_norm_and_placement(check_a_text_grows_as_the_whole_of_it_would);
}

/* The result of some updates on `threads` threads: weights, running statistics, and the loss in
   evaluation. There are enough tokens for 16 threads, and for several slabs. */
struct trained {
    real *values;
    size_t count;
    double loss;
};

static struct trained train_by(const struct model_config *config, size_t threads, int max_threads) {
    enum { SEQUENCES = 28, CHARACTERS = 33 }; // more tokens than the head takes at once
    struct trained trained;
    omp_set_num_threads(max_threads);
    struct batch batch = make_batch(SEQUENCES, config->block_size, CHARACTERS, 3);
    struct model model = held_model(config, CHARACTERS, SEQUENCES, 1);
    omp_set_num_threads(16);
    model.threads = threads;
    fit_batch(&model, &batch, model_team(&model), SANITIZED || !sweep() ? 2 : 5);
    size_t piece = ROWS * vec_padded(CHARACTERS); // of logits, which all tokens of a thread use
    if (gain_present(&model.logit_gain)) piece *= 2;
    for (size_t thread = 0; threads && thread < (size_t)max_threads; thread++)
        cr_expect((model.logits[thread * piece] != 0) == (thread < threads),
                  "thread %zu of %zu has %s", thread, threads,
                  thread < threads ? "nothing to do" : "something to do");
    model_forward(&model, &batch, false, 0);
    head_loss(&model, &batch, &trained.loss);
    size_t weights = model.lists.param.size, states = model.lists.state.size;
    trained.count = weights + states;
    trained.values =
        memcpy(hold(trained.count * sizeof(real)), model.lists.param.value, weights * sizeof(real));
    if (states) memcpy(trained.values + weights, model.lists.state.value, states * sizeof(real));
    return trained;
}

enum { FEW_TEAMS = 4, TEAMS = 8 };

/* With the first `count` of the teams below. Many threads on few cores are slow. */
static void check_threads(struct model_config config, int64_t length, size_t count) {
    config.n_embd = 40;
    config.block_size = length;
    config.dropout = 0.1;
    struct trained one = train_by(&config, 1, 16);
    const struct {
        size_t threads;
        int max_threads;
    } teams[TEAMS] = {{3, 16}, {2, 2}, {4, 4},   {0, 8}, // 0: as the work deserves
                      {2, 16}, {8, 8}, {16, 16}, {8, 3}};
    for (size_t i = 0; i < count; i++) {
        struct trained many = train_by(&config, teams[i].threads, teams[i].max_threads);
        cr_expect(!memcmp(one.values, many.values, one.count * sizeof(real)) &&
                      one.loss == many.loss,
                  "%zu threads of %d", teams[i].threads, teams[i].max_threads);
    }
    cr_expect(one.count > 1000 && difference(one.count, one.values, one.values) == 0, "and no NaN");
}

static void check_same_bits_for_any_number_of_threads(const struct pair *pair) {
    check_threads(pair_config(pair), 37, !sweep() ? 1 : SANITIZED ? 2 : FEW_TEAMS);
}

Test(model, same_bits_for_any_number_of_threads) {
    (sweep() || !in_double() ? every_row : every_norm)(check_same_bits_for_any_number_of_threads);
}

/* Sequences of 64 tokens fit into the parts of 1 and 2 threads, not of 3, 8 and 16: some threads
   compute attention alone, sequence by sequence, others synchronize for it. 28 sequences of 32
   tokens are 4 parts: of 2 and 4 threads, each has parts of its own. */
Test(model, same_bits_however_threads_divide_sequences_and_parts) {
    int ln = norm_index("ln"), residual = placement_index("residual");
    const struct pair pairs[] = {{.norm = ln, .inner = INNER_HEADS},
                                 {.norm = norm_index("bn"), .placement = 1},
                                 {.norm = ln, .placement = residual},
                                 {.norm = ln, .block = BLOCK_GEMMA}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (int64_t length = 32; length <= 64; length *= 2)
            check_threads(pair_config(&pairs[i]), length, sweep() ? TEAMS : FEW_TEAMS);
}

Test(model, batchnorm_by_position_grows_generates_and_has_the_same_bits) {
    for (int placement = 0; placement < 2; placement++) {
        struct model_config config = small_config(norm_index("bn"), placement);
        norms_set(&config.norms, "bn-axis", BN_AXIS_BATCH);
        check_generation(config);
        check_growth(config);
        check_threads(config, 37, FEW_TEAMS);
    }
}
