/* --max-seconds and --stop-at: a run ends by time, or at a loss. No test knows how long a run
   takes. */
#include "data/die.h"
#include "tests/command.h"
#include "tests/json.h"
#include "tests/runs.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(budgets, .init = text_enter, .fini = folder_leave);

#define RUN TINY "--quiet --force --learning-rate=0.01 --eval-interval=5 --eval-iters=2 text.txt "

static double summary_number(const char *folder, const char *member) {
    char path[64];
    snprintf(path, sizeof path, "%s/summary.json", folder);
    return strtod(json_member(file_text(path, NULL), member), NULL);
}

/* Fails unless the summary says what ended the run; NULL: it says nothing. */
static void expect_ended_by(const char *folder, const char *option) {
    char path[64];
    snprintf(path, sizeof path, "%s/summary.json", folder);
    const char *text = json_member(file_text(path, NULL), "ended_by");
    if (!option)
        cr_expect(!text, "%s", text);
    else
        cr_expect(text && !strncmp(text + 1, option, strlen(option)), "%s, not %s", text, option);
}

/* A run that stops at a loss leaves what a run of as many updates leaves. */
Test(budgets, stop_at_the_first_evaluation_that_is_low_enough) {
    expect_done(train(RUN "--max-iters=40 --out=whole"));
    expect_ended_by("whole", NULL);
    struct log whole = log_of("whole");
    for (int row = 0; row < whole.rows; row += 10) {
        double loss = log_number(&whole, row, VAL_LOSS) + 1e-6, first = -1; // the log rounds
        for (int i = 0; i < whole.rows && first < 0; i += 5)
            if (log_number(&whole, i, VAL_LOSS) <= loss) first = log_number(&whole, i, STEP);
        expect_done(train(RUN "--max-iters=40 --stop-at=%.17g --out=part", loss));
        expect_ended_by("part", first < 40 ? "stop-at" : "max-iters");
        cr_expect(summary_number("part", "steps") == first, "%g", first);
        cr_expect(summary_number("part", "val_loss") <= loss + 1e-8);
        expect_done(train(RUN "--max-iters=%.0f --lr-decay-iters=40 --out=short", first));
        struct log part = log_of("part"), few = log_of("short");
        cr_expect_eq(part.rows, few.rows);
        cr_expect_str_eq(part.cell[part.rows - 1][VAL_LOSS], few.cell[few.rows - 1][VAL_LOSS]);
        cr_expect(file_there("part/model.safetensors"));
    }
}

Test(budgets, a_loss_that_is_never_reached) {
    expect_done(train(RUN "--max-iters=10 --stop-at=1e-6 --out=out"));
    expect_ended_by("out", "max-iters");
    cr_expect(summary_number("out", "steps") == 10);
}

/* 0 means no limit, also where the loss is 0: a text of one character has nothing to learn. */
Test(budgets, no_limit_at_a_loss_of_zero) {
    char same[400];
    memset(same, 'e', sizeof same);
    file_put("same.txt", same, sizeof same);
    expect_done(train(TINY "--quiet --eval-interval=1 --out=out same.txt"));
    cr_expect(summary_number("out", "val_loss") == 0);
    cr_expect(summary_number("out", "steps") == 4);
}

/* A run without time ends with an evaluation before its first update; one whose last update is far
   away ends by time, with an evaluation of its last step. */
Test(budgets, seconds) {
    expect_done(train(RUN "--max-iters=10 --max-seconds=1e-9 --out=none"));
    expect_ended_by("none", "max-seconds");
    cr_expect(summary_number("none", "steps") == 0);
    expect_done(train(
        RUN "--max-iters=1e9 --eval-interval=1e9 --log-interval=1e9 --max-seconds=0.2 --out=out"));
    expect_ended_by("out", "max-seconds");
    struct log log = log_of("out");
    cr_expect(log.rows > 1 && *log.cell[log.rows - 1][VAL_LOSS], "no loss at the end");
    cr_expect(log_number(&log, log.rows - 1, STEP) == summary_number("out", "steps"));
    expect_done(train(RUN "--max-iters=10 --max-seconds=1e6 --out=enough"));
    expect_ended_by("enough", "max-iters");
}

/* A run that time has ended continues with more of it, as if it had not stopped. */
Test(budgets, more_seconds) {
    expect_done(train(RUN "--max-iters=20 --out=whole"));
    expect_done(train(RUN "--max-iters=20 --max-seconds=1e-9 --out=part"));
    expect_done(train("--resume=part --quiet --max-seconds=0"));
    cr_expect(summary_number("part", "val_loss") == summary_number("whole", "val_loss"));
    cr_expect(summary_number("part", "steps") == 20);
}
