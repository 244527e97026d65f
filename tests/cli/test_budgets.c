/* What ends a run: --max-seconds and --stop-at (no test knows how long a run takes); and
   --max-tokens, after the first update at which this many targets were seen. */
#include "data/die.h"
#include "model/options/config.h"
#include "tests/command.h"
#include "tests/runs.h"
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

TestSuite(budgets, .init = text_enter, .fini = folder_leave);

#define RUN TINY "--quiet --force --learning-rate=0.01 --eval-interval=5 --eval-iters=2 text.txt "

/* A run that stops at a loss leaves what a run of as many updates leaves. */
Test(budgets, stop_at_the_first_evaluation_that_is_low_enough) {
    output_of(RUN "--max-iters=40 --out=whole");
    cr_expect(!json_member(summary_of("whole"), "ended_by"));
    struct log full = log_of("whole");
    for (int row = 0; row < full.rows; row += 10) {
        double loss = log_number(&full, row, VAL_LOSS) + 1e-6; // the log rounds
        int first = 0;
        while (log_number(&full, first, VAL_LOSS) > loss) first += 5; // updates, a row for each
        output_of(RUN "--max-iters=40 --stop-at=%.17g --out=part", loss);
        expect_member("part", "ended_by", first < 40 ? "stop-at" : "max-iters");
        output_of(RUN "--max-iters=%d --lr-decay-iters=40 --out=short", first);
        expect_same_arrays("part/model.safetensors", "short/model.safetensors");
        struct log part = log_of("part"), few = log_of("short");
        cr_expect_eq(part.rows, few.rows);
        cr_expect_str_eq(part.cell[first][VAL_LOSS], few.cell[first][VAL_LOSS]);
    }
    output_of(RUN "--max-iters=10 --stop-at=1e-6 --out=out");
    expect_member("out", "ended_by", "max-iters");
    expect_member("out", "steps", "10");
}

/* 0 means no limit, also where the loss is 0: a text of one character has nothing to learn. */
Test(budgets, no_limit_at_a_loss_of_zero) {
    char same[400];
    memset(same, 'e', sizeof same);
    file_put("same.txt", same, sizeof same);
    output_of(TINY "--quiet --eval-interval=1 --out=out same.txt");
    expect_member("out", "val_loss", "0");
    expect_member("out", "steps", "4");
}

/* A run without time ends with an evaluation before its first update, and continues with more time
   as if it had not stopped; one whose last update is far away ends by time, with an evaluation of
   its last step. */
Test(budgets, seconds) {
    output_of(RUN "--max-iters=10 --out=whole");
    output_of(RUN "--max-iters=10 --max-seconds=1e-9 --out=part");
    expect_member("part", "ended_by", "max-seconds");
    expect_member("part", "steps", "0");
    output_of("--resume=part --quiet --max-seconds=1e6");
    expect_member("part", "ended_by", "max-iters");
    expect_same_arrays("part/model.safetensors", "whole/model.safetensors");
    output_of(RUN
              "--max-iters=1e9 --eval-interval=1e9 --log-interval=1e9 --max-seconds=0.2 --out=out");
    expect_member("out", "ended_by", "max-seconds");
    struct log log = log_of("out");
    cr_expect(log.rows > 1 && *log.cell[log.rows - 1][VAL_LOSS], "no loss at the end");
    expect_member("out", "steps", log.cell[log.rows - 1][STEP]);
}

TestSuite(max_tokens, .init = corpora_enter, .fini = folder_leave);

/* 8 x 2 characters per batch. */
#define ENDLESS TINY "--quiet --force --max-iters=auto --learning-rate=0.01 --out=out "

/* The number of updates of a run with these options. Fails unless its last row has reached `tokens`
   and the one before has not, its rate ends at a tenth, and its config.ini gives the same run
   again. */
static int updates_with(long long tokens, const char *options) {
    expect_done(train(ENDLESS "--max-tokens=%lld %s", tokens, options));
    struct log log = log_of("out");
    int last = log.rows - 1, updates = (int)log_number(&log, last, STEP);
    cr_expect(updates == last, "%s: not a row for each update", options);
    cr_expect(log_number(&log, last, TOKENS) >= (double)tokens, "%s: too few tokens", options);
    if (last > 0) {
        cr_expect(log_number(&log, last - 1, TOKENS) < (double)tokens, "%s: an update too many",
                  options);
        cr_expect_float_eq(log_number(&log, last, LR), 0.001, 1e-9, "%s: %s", options,
                           log.cell[last][LR]);
        cr_expect(log_number(&log, last - 1, LR) > 0.0010000001,
                  "%s: the rate does not end at a tenth", options);
        output_of("--quiet --force --config=out/config.ini --out=again");
        expect_same_file("out", "again", "model.safetensors");
        expect_same_file("out", "again", "config.ini");
    }
    return updates;
}

Test(max_tokens, of_text) {
    static const struct {
        long long tokens;
        const char *options;
        int updates;
    } cases[] = {{16 * 5, "text.txt", 5},
                 {16 * 5 + 1, "text.txt", 6},
                 {16 * 5 - 1, "text.txt", 5},
                 {1, "text.txt", 1},
                 {0, "text.txt", 0},
                 {16 * 3 * 4, "--grad-accum=3 text.txt", 4},
                 {16 * 3 * 4 + 1, "--grad-accum=3 text.txt", 5},
                 {24 * 5, "--batch-size=3 text.txt", 5},
                 {14 * 5, "--block-size=7 text.txt", 5},
                 {16 * 5, "--corpus=random", 5},
                 {16 * 5, "--grammar-chars=3000", 5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect(updates_with(cases[i].tokens, cases[i].options) == cases[i].updates, "%s",
                  cases[i].options);
}

/* Batches of varying length, so that no formula gives their number; also more than two epochs. */
Test(max_tokens, of_items) {
    static const char *const ways[] = {"",
                                       "--bucket",
                                       "--grad-accum=2",
                                       "--norm=bn --bucket --grad-accum=3 --seed=2",
                                       "--block-size=4 --batch-size=5",
                                       "--pad-to=block --dropout=0.2"};
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++)
        for (long long tokens = 1; tokens < 1000; tokens = 3 * tokens + 20)
            updates_with(tokens, say("--items %s items.txt", ways[way]));
}

Test(max_tokens, prepbn_ends_with_the_run) {
    updates_with(16 * 2 * 5, "--norm=prepbn --grad-accum=2 text.txt");
    expect_part(summary_of("out"), "\"prepbn-steps\": 10,");
}

Test(max_tokens, beside_max_iters) {
    expect_done(train(ENDLESS "--max-iters=5 --max-tokens=80 text.txt")); // they agree
    train_refuses(STATUS_USAGE,
                  "--max-iters=5: contradicts --max-tokens=81, which needs 6 updates (try "
                  "--max-iters=auto)",
                  ENDLESS "--max-iters=5 --max-tokens=81 text.txt");
    train_refuses(STATUS_USAGE, "--max-iters=1: contradicts --max-tokens=40",
                  ENDLESS "--max-tokens=40 --items --max-iters=1 --batch-size=1 items.txt");
    expect_done(train(ENDLESS "--config=out/config.ini --max-tokens=160 text.txt"));
    expect_member("out", "steps", "10");
    // the command line overrides a file's number of updates and its number of tokens
    output_of("--quiet --config=out/config.ini --max-tokens=320 --out=more text.txt");
    expect_member("more", "steps", "20");
    file_put("tokens.ini", "max-tokens = 320\n", 17);
    expect_done(train(ENDLESS "--config=tokens.ini --max-iters=3 --out=fewer text.txt"));
    expect_member("fewer", "steps", "3");
    train_refuses(STATUS_USAGE, "--max-tokens=-1: must be a whole number from 0",
                  ENDLESS "--max-tokens=-1 text.txt");
}

Test(max_tokens, more_updates_than_there_may_be) {
    train_refuses(STATUS_USAGE, "--max-tokens=16000000001: needs more than 1000000000 updates",
                  ENDLESS "--max-tokens=16000000001 --out=no text.txt");
    train_refuses(STATUS_USAGE, "needs more than 1000000000 updates", // at once
                  ENDLESS "--max-tokens=1000000000000000 --items --out=no items.txt");
    // of four targets each
    file_put("same.txt", "abc\nabd\nacd\n", 12);
    train_refuses(STATUS_USAGE, "--max-tokens=8000000001: needs more than 1000000000 updates",
                  ENDLESS "--max-tokens=8000000001 --items --out=no same.txt");
    train_refuses(STATUS_USAGE, "--max-tokens=7999999996, which needs 1000000000 updates",
                  ENDLESS
                  "--max-tokens=7999999996 --max-iters=5 --items --bucket --out=no same.txt");
    train_refuses(STATUS_USAGE, "needs more than 1000000000 updates",
                  ENDLESS
                  "--max-tokens=1000000000000000 --items --batch-size=100000 --out=no items.txt");
    cr_expect(!file_there("no"));
}

/* A resumed run may be given another number, as with --max-iters; the schedule stays. */
Test(max_tokens, of_a_run_that_goes_on) {
    static const char *const corpora[] = {"text.txt", "--items items.txt"};
    for (int i = 0; i < 2; i++) {
        expect_done(train(ENDLESS "--max-tokens=200 --prepbn-steps=9 %s", corpora[i]));
        expect_done(train(ENDLESS "--max-tokens=100 --prepbn-steps=9 --lr-decay-iters=%d "
                                  "--out=parts %s",
                          log_of("out").rows - 1, corpora[i]));
        output_of("--quiet --resume=parts"); // nothing to do
        cr_expect(log_of("parts").rows < log_of("out").rows);
        output_of("--quiet --resume=parts --max-tokens=200");
        expect_same_log("out", "parts");
        expect_same_arrays("out/model.safetensors", "parts/model.safetensors");
        train_refuses(STATUS_USAGE, ": the run in parts has done ",
                      "--resume=parts --max-tokens=100");
        train_refuses(STATUS_USAGE, "--max-iters=500: contradicts --max-tokens=300",
                      "--resume=parts --max-tokens=300 --max-iters=500");
    }
}

Test(max_tokens, without_it_a_run_has_its_usual_length) {
    output_of(ENDLESS "--max-iters=7 --grad-accum=3 --norm=prepbn text.txt");
    const char *config = file_text("out/config.ini", NULL);
    expect_part(config, "\nlr-decay-iters = auto\n");
    expect_part(config, "\"lr-decay-iters\": 7,");
    expect_part(config, "\"prepbn-steps\": 21,");
    output_of(ENDLESS "--max-tokens=50 --lr-decay-iters=9 text.txt");
    config = file_text("out/config.ini", NULL);
    expect_part(config, "\nmax-iters = 4\n");
    expect_part(config, "\nlr-decay-iters = 9\n");
}
