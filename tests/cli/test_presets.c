/* Every preset learns with every usual norm: the loss of 60 updates is finite and falls. */
#include "model/lab/preset.h"
#include "tests/command.h"
#include "tests/runs.h"
#include <criterion/criterion.h>
#include <math.h>

TestSuite(presets, .init = folder_enter, .fini = folder_leave);

static void check_learns(const char *preset, const char *norm) {
    struct ending ending =
        train(TINY "--preset=%s --norm=%s --max-iters=60 --learning-rate=0.01 --eval-interval=20 "
                   "--eval-iters=4 --force --quiet --out=out text.txt",
              preset, norm);
    cr_assert(ending.status == 0, "%s %s: %s", preset, norm, ending.err);
    struct log log = log_of("out");
    cr_assert(log.rows > 1);
    for (int row = 0; row < log.rows; row++)
        for (int column = TRAIN_LOSS; column <= GRAD_NORM; column++)
            cr_expect(!*log.cell[row][column] || isfinite(log_number(&log, row, column)),
                      "%s %s: row %d, column %d", preset, norm, row, column);
    double first = log_number(&log, 0, VAL_LOSS), last = log_number(&log, log.rows - 1, VAL_LOSS);
    cr_expect(last < first, "%s %s: from %g to %g", preset, norm, first, last);
}

Test(presets, learn_with_every_usual_norm) {
    static const char *const norms[] = {"ln", "bn", "rms"};
    corpus_put_tiny("text.txt", 2000);
    for (int64_t i = 0; preset_name(i); i++)
        for (size_t k = 0; k < sizeof norms / sizeof *norms; k++)
            check_learns(preset_name(i), norms[k]);
}
