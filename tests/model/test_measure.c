/* Models measured under other statistics than their running ones, and how much training sees of the
   future. Sampling from logits of known probabilities. */
#include "data/text/corpus.h"
#include "model/instruments/measure.h"
#include "model/instruments/sample.h"
#include "model/optimizer/optimizer.h"
#include "tests/support.h"
#include <string.h>

enum { B = SMALL_B, T = SMALL_T };

static double loss_by(struct model *model, enum statistics_source source, const struct batch *batch,
                      const struct batch *other) {
    const struct tensor_list *state = &model->lists.state;
    real *before = copy_values(state);
    struct score score = measure_score(model, source, batch, other);
    cr_expect(score.correct <= (double)score.targets);
    cr_expect(!state->size || !memcmp(before, state->value, state->size * sizeof(real)));
    return score.loss / (double)score.targets;
}

static void check_every_source_of_statistics(const struct pair *pair) {
    struct model_config config = pair_config(pair);
    const struct norm_kind *kind = norm_kinds[pair->norm];
    const bool present = model_has_norm(&config, kind); // not in placements without norms
    struct batch batch = make_batch(B, T, SMALL_V, 7), other = make_batch(B, T, SMALL_V, 8);
    double loss[STATISTICS_SOURCES], sum;
    config.dropout = 0.3; // which is left out
    config.norms.measures_positions = true;
    struct model model = fit_small(&config, B);
    for (int source = 0; source < STATISTICS_SOURCES; source++)
        if (measure_has(&config, source)) loss[source] = loss_by(&model, source, &batch, &other);
    model_forward(&model, &batch, false, 0);
    size_t valid = head_loss(&model, &batch, &sum);
    cr_expect(loss[STATISTICS_RUNNING] == sum / (double)valid);
    cr_expect(measure_has(&config, STATISTICS_POSITION) == (present && !strcmp(kind->name, "bn")));
    for (int source = STATISTICS_OWN; source <= STATISTICS_SINGLE; source++)
        if (present && kind_mixes_tokens(kind))
            cr_expect(fabs(loss[source] - loss[STATISTICS_RUNNING]) > 1e-6, "%s: nothing changes",
                      statistics_name[source]);
        else
            cr_expect(fabs(loss[source] - loss[STATISTICS_RUNNING]) < 1e-6, "%s: by %g",
                      statistics_name[source], loss[source] - loss[STATISTICS_RUNNING]);
    // each sequence is a batch of its own
    double by_one = 0;
    for (size_t b = 0; b < B; b++) {
        struct batch one = batch;
        one.B = 1;
        one.ids += b * T;
        one.targets += b * T;
        by_one += loss_by(&model, STATISTICS_OWN, &one, NULL) / B;
    }
    cr_expect(fabs(by_one - loss[STATISTICS_SINGLE]) < 1e-6);
    if (measure_has(&config, STATISTICS_POSITION)) {
        cr_expect(fabs(loss[STATISTICS_POSITION] - loss[STATISTICS_OWN]) > 1e-6);
        // With a single position the batch's statistics are its own. But by head they are over all
        // heads, and those of a position over one; then q and k have no effect, and v has one.
        const bool by_head =
            model_inner_norm(&config, INNER_V)->forward && config.qk_norm_over == EXTENT_HEAD;
        struct batch short_one = batch;
        short_one.T = 1;
        double change = loss_by(&model, STATISTICS_POSITION, &short_one, NULL) -
                        loss_by(&model, STATISTICS_OWN, &short_one, NULL);
        cr_expect((fabs(change) < 1e-5) == !by_head, "changes by %g", change);
    }
}

Test(measure, every_source_of_statistics) {
    every_norm_and_placement(check_every_source_of_statistics);
}

/* Statistics of one batch do not depend on the run before: on the running statistics and on how far
   it was. What a kind that pools over tokens does by a schedule, it does not do there (kind.h). */
static void check_measured_models_forget_their_run(const struct pair *pair) {
    struct model_config config = pair_config(pair);
    struct batch batch = make_batch(B, T, SMALL_V, 7);
    struct batch other = make_batch(B, T, SMALL_V, 8);
    struct model fresh, old;
    config.norms.measures_positions = true;
    norms_set(&config.norms, "pn-warmup", 3); // over before the run ends, as --prepbn-steps is
    fresh = held_model(&config, SMALL_V, B, 1);
    old = held_model(&config, SMALL_V, B, 1);
    for (int step = 0; step < 6; step++) { // the weights stay
        struct batch one = make_batch(B, T, SMALL_V, 40 + step);
        model_forward(&old, &one, true, step);
        model_backward(&old, &one, step, 1);
    }
    bool pools = kind_mixes_tokens(norm_kinds[pair->norm]);
    bool moved = loss_by(&old, STATISTICS_RUNNING, &batch, NULL) !=
                 loss_by(&fresh, STATISTICS_RUNNING, &batch, NULL);
    cr_expect(moved == pools, "running statistics");
    for (int source = STATISTICS_OWN; source < STATISTICS_SOURCES; source++) {
        if (!measure_has(&config, source)) continue;
        double a = loss_by(&fresh, source, &batch, &other),
               b = loss_by(&old, source, &batch, &other);
        cr_expect(fabs(a - b) <= (in_double() ? 1e-12 : 1e-5) * fabs(a), "%s: %.9g, %.9g",
                  statistics_name[source], a, b);
    }
}

Test(measure, measured_models_forget_their_run) {
    every_norm(check_measured_models_forget_their_run);
}

/* Scores a model whose every second target is one of its likeliest characters, and whose token 3
   has none. Returns the largest number of characters that are equally likely. */
static size_t check_accuracy(struct model *model) {
    struct batch batch = make_batch(B, T, SMALL_V, 7);
    size_t largest = 0;
    double correct = 0;
    model_forward(model, &batch, false, 0);
    for (size_t n = 0; n < B * T; n++) {
        const real *logits = head_logits(model, n);
        size_t ties = 0;
        int32_t last = 0; // of the likeliest
        for (int32_t v = 1; v < SMALL_V; v++)
            if (logits[v] >= logits[last]) last = v;
        for (size_t v = 0; v < SMALL_V; v++) ties += logits[v] == logits[last];
        if (n % 2) batch.targets[n] = last;
        if (n == 3) batch.targets[n] = -1;
        if (n != 3 && logits[batch.targets[n]] == logits[last]) correct += 1 / (double)ties;
        largest = size_max(largest, ties);
    }
    struct score score = measure_score(model, STATISTICS_RUNNING, &batch, NULL);
    cr_expect(fabs(score.correct - correct) < 1e-6, "%g, not %g", score.correct, correct);
    cr_expect(score.targets == B * T - 1);
    return largest;
}

/* A target counts if no other character is likelier, and 1/k if it is one of k equally likely ones:
   a model that knows nothing is right once in V. A token without a target never counts. */
Test(measure, accuracy) {
    struct model_config config = small_config(norm_index("ln"), 0);
    struct model model = fit_small(&config, B);
    cr_expect(check_accuracy(&model) == 1);
    config.logit_softcap = 1e-3; // logits are 1e-3 or -1e-3, nearly all
    model = fit_small(&config, B);
    const size_t ties = check_accuracy(&model);
    cr_expect(ties > 1 && ties < SMALL_V, "%zu", ties);
    memset(model.lists.param.value, 0, model.lists.param.size * sizeof(real));
    model.lists.param.version++;
    cr_expect(check_accuracy(&model) == SMALL_V);
}

static void check_the_future_in_training_and_in_evaluation(const struct pair *pair) {
    struct model_config config = pair_config(pair);
    const struct norm_kind *kind = norm_kinds[pair->norm];
    const bool mixes = kind_mixes_tokens(kind) && model_has_norm(&config, kind);
    struct batch batch = make_batch(B, T, SMALL_V, 7);
    struct model model = fit_small(&config, B);
    for (size_t t = 1; t < T; t++) {
        struct leak leak = measure_leak(&model, STATISTICS_RUNNING, &batch, t);
        cr_expect(leak.largest == 0 && leak.mean == 0, "in evaluation: %g", leak.largest);
        leak = measure_leak(&model, STATISTICS_OWN, &batch, t);
        if (mixes)
            cr_expect(leak.largest > 1e-4 && leak.mean > 0 && leak.mean < leak.largest, "%g",
                      leak.largest);
        else
            cr_expect(leak.largest == 0 && leak.mean == 0, "%g", leak.largest);
    }
}

Test(measure, the_future_in_training_and_in_evaluation) {
    every_norm_and_placement(check_the_future_in_training_and_in_evaluation);
}

Test(measure, batchnorm_by_position_sees_no_future) {
    struct model_config config = small_config(norm_index("bn"), 0);
    struct batch batch = make_batch(B, T, SMALL_V, 7);
    norms_set(&config.norms, "bn-axis", BN_AXIS_BATCH);
    struct model model = fit_small(&config, B);
    for (size_t t = 1; t < T; t++)
        cr_expect(measure_leak(&model, STATISTICS_OWN, &batch, t).largest == 0);
}

/* Of two characters the other one takes the place of each. */
Test(measure, every_later_character_is_replaced) {
    struct model_config config = small_config(norm_index("bn"), 0);
    struct model model = held_model(&config, 2, B, 1);
    for (int32_t id = 0; id < 2; id++) {
        struct batch batch = make_batch(B, T, 2, 7);
        for (size_t n = 0; n < B * T; n++) batch.ids[n] = id;
        cr_expect(measure_leak(&model, STATISTICS_OWN, &batch, 2).largest > 0, "character %d",
                  (int)id);
    }
}

/* The statistics of bn include them, so the logits of earlier pads change too. */
Test(measure, what_pads_see_is_not_measured) {
    struct model_config config = small_config(norm_index("bn"), 0);
    config.pad_stats = PAD_STATS_INCLUDE;
    struct model model = held_model(&config, SMALL_V, B, 1);
    struct batch batch = make_batch(B, T, SMALL_V, 7);
    batch.valid = batch.marks;
    for (size_t n = 0; n < B * T; n++) batch.valid[n] = n % T >= 2;
    cr_expect(measure_leak(&model, STATISTICS_OWN, &batch, 2).largest == 0);
    cr_expect(measure_leak(&model, STATISTICS_OWN, &batch, 3).largest > 0);
}

/* Characters that nothing predicts: all equally frequent, different in each batch and for each
   seed, but the same in each validation. */
Test(measure, random_characters) {
    enum { V = 20, SEQUENCES = 50, LENGTH = 40, TOKENS = SEQUENCES * LENGTH };
    struct corpus corpus;
    corpus_make_random(&corpus, V, NULL);
    cr_assert(corpus.vocabulary.V == V);
    corpus_check(&corpus, 100000);
    struct batch batch = batch_make(SEQUENCES, LENGTH), again = batch_make(SEQUENCES, LENGTH);
    double after[V][V] = {{0}};
    for (uint64_t count = 0; count < 10; count++) {
        corpus_sample(&corpus, 1, count, &batch);
        for (size_t n = 0; n < TOKENS; n++) {
            cr_assert(batch.ids[n] >= 0 && batch.ids[n] < V && batch.targets[n] < V);
            after[batch.ids[n]][batch.targets[n]]++;
            if (n % LENGTH) cr_assert(batch.ids[n] == batch.targets[n - 1]);
        }
        corpus_sample(&corpus, 1, count, &again);
        cr_expect(!memcmp(batch.ids, again.ids, TOKENS * sizeof *batch.ids));
        corpus_sample(&corpus, 2, count, &again);
        cr_expect(memcmp(batch.ids, again.ids, TOKENS * sizeof *batch.ids) != 0);
        corpus_sample(&corpus, 1, count + 1, &again);
        cr_expect(memcmp(batch.ids, again.ids, TOKENS * sizeof *batch.ids) != 0);
    }
    double squares = 0, pair = 10.0 * TOKENS / V / V;
    for (int i = 0; i < V * V; i++) squares += pow(after[i / V][i % V] - pair, 2) / pair;
    cr_expect(squares < 520 && squares > 290, "chi-square of 399 degrees: %g", squares);
    cr_assert(corpus_blocks(&corpus, CORPUS_VALIDATION, LENGTH) == RANDOM_BLOCKS);
    corpus_validation(&corpus, 0, SEQUENCES, &batch);
    corpus_sample(&corpus, 0, 0, &again);
    cr_expect(memcmp(batch.ids, again.ids, TOKENS * sizeof *batch.ids) != 0);
    corpus_validation(&corpus, 10, SEQUENCES, &again);
    cr_expect(!memcmp(batch.ids + 10 * LENGTH, again.ids, 40 * LENGTH * sizeof *batch.ids));
    corpus_validation(&corpus, RANDOM_BLOCKS - 3, SEQUENCES, &again);
    cr_expect(again.B == 3);
    batch_free(&batch);
    batch_free(&again);
    corpus_free(&corpus);
}

/* Probabilities 0.1, 0.3, 0.05, 0.55; at temperature 1/2 their squares' fractions. */
Test(sample, draws_by_probability_temperature_rank_nucleus_and_minimum) {
    const real logits[4] = {(real)log(2), (real)log(6), 0, (real)log(11)};
    const struct {
        const char *what;
        struct sample_options options;
        double want[4];
    } cases[] = {
        {"all", {1, 0, 1, 0}, {0.1, 0.3, 0.05, 0.55}},
        {"cold", {0, 0, 1, 0}, {0, 0, 0, 1}},
        {"of the two likeliest", {1, 2, 1, 0}, {0, 0.3 / 0.85, 0, 0.55 / 0.85}},
        {"half", {1, 0, 0.5, 0}, {0, 0, 0, 1}},
        {"just more than one", {1, 0, 0.56, 0}, {0, 0.3 / 0.85, 0, 0.55 / 0.85}},
        {"just more than two", {1, 0, 0.86, 0}, {0.1 / 0.95, 0.3 / 0.95, 0, 0.55 / 0.95}},
        {"of three, two", {1, 3, 0.89, 0}, {0, 0.3 / 0.85, 0, 0.55 / 0.85}},
        {"a minimum", {1, 0, 1, 0.15}, {0.1 / 0.95, 0.3 / 0.95, 0, 0.55 / 0.95}},
        {"a larger one", {1, 0, 1, 0.19}, {0, 0.3 / 0.85, 0, 0.55 / 0.85}},
        {"both", {1, 0, 0.86, 0.19}, {0, 0.3 / 0.85, 0, 0.55 / 0.85}},
        {"colder", {0.5, 0, 1, 0.03}, {0.01 / 0.4025, 0.09 / 0.4025, 0, 0.3025 / 0.4025}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double got[4] = {0};
        for (int k = 0; k < 10000; k++)
            got[sample_index(4, logits, cases[i].options, (k + 0.5) / 10000)] += 1e-4;
        for (int k = 0; k < 4; k++)
            cr_expect(fabs(got[k] - cases[i].want[k]) < 3e-4, "%s: %g at %d, not %g", cases[i].what,
                      got[k], k, cases[i].want[k]);
    }
}

/* A character that is exactly min_p times as likely as the likeliest stays. */
Test(sample, a_minimum_that_is_reached_exactly) {
    const real logits[3] = {0, -1, -2};
    const struct {
        double temperature, min_p;
        int32_t last; // that stays
    } cases[] = {{1, exp(-1), 1}, {1, exp(-2), 2}, {2, exp(-0.5), 1}, {1, 1, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct sample_options options = {cases[i].temperature, 0, 1, cases[i].min_p};
        cr_expect(sample_index(3, logits, options, 1 - 1e-9) == cases[i].last, "%zu", i);
    }
}
