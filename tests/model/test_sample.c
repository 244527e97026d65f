/* Sampling from logits of known probabilities. */
#include "model/lab/sample.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

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
