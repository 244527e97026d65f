/* What ends a run: --max-seconds and --stop-at (no test knows how long a run takes); and --max-tokens,
   after the first update at which this many targets were seen. */
#include "data/die.h"
#include "model/lab/config.h"
#include "tests/command.h"
#include "tests/runs.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

TestSuite(budgets, .init = text_enter, .fini = folder_leave);

#define RUN TINY "--quiet --force --learning-rate=0.01 --eval-interval=5 --eval-iters=2 text.txt "

/* Fails unless the summary says what ended the run; NULL: it says nothing. */
static void expect_ended_by(const char *folder, const char *option) {
    const char *text = json_member(file_text(say("%s/summary.json", folder), NULL), "ended_by");
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
        for (int i = 0; i < part.rows; i++)
            cr_expect_str_eq(part.cell[i][VAL_LOSS], few.cell[i][VAL_LOSS]);
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
        expect_done(train("--quiet --force --config=out/config.ini --out=again"));
        expect_same_file("out", "again", "model.safetensors");
        expect_same_file("out", "again", "config.ini");
    }
    return updates;
}

Test(max_tokens, of_text) {
    cr_expect(updates_with(16 * 5, "text.txt") == 5);
    cr_expect(updates_with(16 * 5 + 1, "text.txt") == 6);
    cr_expect(updates_with(16 * 5 - 1, "text.txt") == 5);
    cr_expect(updates_with(1, "text.txt") == 1);
    cr_expect(updates_with(0, "text.txt") == 0);
    cr_expect(updates_with(16 * 3 * 4, "--grad-accum=3 text.txt") == 4);
    cr_expect(updates_with(16 * 3 * 4 + 1, "--grad-accum=3 text.txt") == 5);
    cr_expect(updates_with(24 * 5, "--batch-size=3 text.txt") == 5);
    cr_expect(updates_with(14 * 5, "--block-size=7 text.txt") == 5);
    cr_expect(updates_with(16 * 5, "--corpus=random") == 5);
    cr_expect(updates_with(16 * 5, "--grammar-chars=3000") == 5);
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
        for (long long tokens = 1; tokens < 1000; tokens = 3 * tokens + 20) {
            updates_with(tokens, say("--items %s items.txt", ways[way]));
        }
}

Test(max_tokens, prepbn_ends_with_the_run) {
    updates_with(16 * 2 * 5, "--norm=prepbn --grad-accum=2 text.txt");
    cr_expect(strstr(file_text("out/config.ini", NULL), "prepbn-steps = 10\n"));
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
    expect_done(train("--quiet --config=out/config.ini --max-tokens=320 --out=more text.txt"));
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
    struct ending ending =
        train(ENDLESS "--max-tokens=1000000000000000 --items --out=no items.txt"); // at once
    expect_refusal(&ending, STATUS_USAGE, "needs more than 1000000000 updates");
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
        expect_done(train("--quiet --resume=parts")); // nothing to do
        cr_expect(log_of("parts").rows < log_of("out").rows);
        expect_done(train("--quiet --resume=parts --max-tokens=200"));
        expect_same_log("out", "parts");
        expect_same_file("out", "parts", "model.safetensors");
        train_refuses(STATUS_USAGE, ": the run in parts has done ",
                      "--resume=parts --max-tokens=100");
        train_refuses(STATUS_USAGE, "--max-iters=500: contradicts --max-tokens=300",
                      "--resume=parts --max-tokens=300 --max-iters=500");
    }
}

static struct config parsed(const char *options) {
    static struct config config;
    char *words[32] = {"train"};
    config_parse(&config, 1 + split(say("%s", options), words + 1, 31), words);
    return config;
}

/* --prepbn-steps, which is the number of batches unless it is given. */
static int64_t batches_of(const struct config *config) {
    struct config copy = *config;
    return *option_int(options_find(config_options, "prepbn-steps"), &copy);
}

Test(max_tokens, without_it_a_run_has_its_usual_length) {
    struct config config = parsed("--grad-accum=3");
    cr_expect(config.max_iters == 2000 && config.schedule.decay == 2000);
    cr_expect(batches_of(&config) == 6000 && config.max_tokens == OPTION_AUTO);
    config = parsed("--max-iters=7");
    cr_expect(config.max_iters == 7 && config.schedule.decay == 7);
    config = parsed("--max-tokens=100 --lr-decay-iters=9");
    config_set_updates(&config, 4);
    cr_expect(config.max_iters == 4 && config.schedule.decay == 9);
    cr_expect(batches_of(&config) == 4 && config.max_tokens == OPTION_AUTO);
}
