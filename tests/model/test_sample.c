/* Sampling from logits of known probabilities. */
#include "model/lab/sample.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

Test(sample, draws_by_probability_temperature_and_rank) {
    const real logits[4] = {0, (real)log(3), -1000, (real)log(6)}; // 0.1, 0.3, 0, 0.6
    struct sample_options one = {1, 0, 1, 0}, cold = {0, 0, 1, 0}, two = {1, 2, 1, 0},
                          hot = {2, 0, 1, 0};
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

/* The fractions of 10000 samples that fall on each of four logits. */
static void fractions(const real *logits, struct sample_options options, double fraction[4]) {
    for (int i = 0; i < 4; i++) fraction[i] = 0;
    for (int i = 0; i < 10000; i++)
        fraction[sample_index(4, logits, options, (i + 0.5) / 10000)] += 1e-4;
}

static void expect_fractions(const char *what, const double *got, const double *want) {
    for (int i = 0; i < 4; i++)
        cr_expect(fabs(got[i] - want[i]) < 3e-4, "%s: %g at %d, not %g", what, got[i], i, want[i]);
}

/* Probabilities 0.1, 0.3, 0.05, 0.55; at temperature 1/2 their squares' fractions. */
Test(sample, nucleus_and_minimum) {
    const real logits[4] = {(real)log(2), (real)log(6), 0, (real)log(11)};
    const struct {
        const char *what;
        struct sample_options options;
        double want[4];
    } cases[] = {
        {"all", {1, 0, 1, 0}, {0.1, 0.3, 0.05, 0.55}},
        {"half", {1, 0, 0.5, 0}, {0, 0, 0, 1}},
        {"just more than one", {1, 0, 0.56, 0}, {0, 0.3 / 0.85, 0, 0.55 / 0.85}},
        {"just more than two", {1, 0, 0.86, 0}, {0.1 / 0.95, 0.3 / 0.95, 0, 0.55 / 0.95}},
        {"nothing", {1, 0, 0, 0}, {0, 0, 0, 1}},
        {"of three", {1, 3, 0.9, 0}, {0.1 / 0.95, 0.3 / 0.95, 0, 0.55 / 0.95}},
        {"of three, two", {1, 3, 0.89, 0}, {0, 0.3 / 0.85, 0, 0.55 / 0.85}},
        {"a minimum", {1, 0, 1, 0.15}, {0.1 / 0.95, 0.3 / 0.95, 0, 0.55 / 0.95}},
        {"a larger one", {1, 0, 1, 0.19}, {0, 0.3 / 0.85, 0, 0.55 / 0.85}},
        {"the largest", {1, 0, 1, 1}, {0, 0, 0, 1}},
        {"both", {1, 0, 0.86, 0.19}, {0, 0.3 / 0.85, 0, 0.55 / 0.85}},
        {"colder", {0.5, 0, 1, 0.03}, {0.01 / 0.4025, 0.09 / 0.4025, 0, 0.3025 / 0.4025}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double got[4];
        fractions(logits, cases[i].options, got);
        expect_fractions(cases[i].what, got, cases[i].want);
    }
}
