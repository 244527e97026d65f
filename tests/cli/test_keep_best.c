/* --keep-best: best.safetensors is the model of the evaluation with the lowest validation loss,
   however the run continued. */
#include "data/die.h"
#include "data/files/safetensors.h"
#include "tests/command.h"
#include "tests/runs.h"
#include "tests/support.h"
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The validation split is written backwards: its loss falls while the characters' frequencies are
   learned and then rises, so the best step is neither the first nor the last. */
static void enter(void) {
    enum { LENGTH = 2000, TRAIN = 1800 };
    size_t bytes;
    folder_enter();
    corpus_put_tiny("text.txt", LENGTH);
    char *text = file_text("text.txt", &bytes);
    for (size_t i = TRAIN, j = bytes - 1; i < j; i++, j--) {
        char c = text[i];
        text[i] = text[j];
        text[j] = c;
    }
    file_put("text.txt", text, bytes);
    items_put("items.txt", 100);
}

TestSuite(keep_best, .init = enter, .fini = folder_leave);

#define ROUGH                                                                                      \
    TINY "--quiet --dropout=0.2 --grad-accum=2 --learning-rate=0.1 --schedule=constant "           \
         "--lr-decay-iters=12 --eval-interval=2 --eval-iters=0 --pn-warmup=5 --prepbn-steps=20 "

enum { STEPS = 12 };

/* The step of the log's lowest validation loss, and that loss as the log has it. */
static int best_of(const char *folder, double *loss) {
    struct log log = log_of(folder);
    int best = -1;
    for (int row = 0; row < log.rows; row++)
        if (*log.cell[row][VAL_LOSS] &&
            (best < 0 || log_number(&log, row, VAL_LOSS) < log_number(&log, best, VAL_LOSS)))
            best = row;
    cr_assert(best >= 0, "%s: no validation loss", folder);
    *loss = log_number(&log, best, VAL_LOSS);
    return (int)log_number(&log, best, STEP);
}

/* The number in the file's text of this name. */
static double number_in(const char *path, const char *name) {
    struct safetensors file;
    safetensors_open(&file, path);
    double number = strtod(safetensors_text(&file, name), NULL);
    safetensors_close(&file);
    return number;
}

static void check_is_the_model_of_the_lowest_loss(const struct pair *pair) {
    const char *model = pair_options(pair);
    double loss;
    expect_done(
        train(ROUGH "%s --force --max-iters=%d --keep-best --out=out text.txt", model, STEPS));
    int step = best_of("out", &loss);
    expect_member("out", "best_step", say("%d", step));
    cr_expect(number_in("out/best.safetensors", "step") == step);
    cr_expect_float_eq(number_in("out/best.safetensors", "val_loss"), loss, 1e-8);
    // measured by another process, it is the logged loss to the last digit
    struct ending ending = train("--evaluate=out/best.safetensors");
    cr_assert(ending.status == 0, "%s", ending.err);
    char *measured = say("loss %.9g nats", loss);
    cr_expect(strstr(ending.out, measured), "no \"%s\" in %s", measured, ending.out);
    // a run that stops there has this model, and without --keep-best the same last model
    expect_done(train(ROUGH "%s --force --max-iters=%d --out=stopped text.txt", model, step));
    expect_same_arrays("stopped/model.safetensors", "out/best.safetensors");
    expect_done(train(ROUGH "%s --force --max-iters=%d --out=off text.txt", model, STEPS));
    expect_same_arrays("off/model.safetensors", "out/model.safetensors");
    expect_same_log("off", "out");
}

Test(keep_best, is_the_model_of_the_lowest_loss) {
    every_row(check_is_the_model_of_the_lowest_loss);
}

/* Of equal losses the first one counts: without updates all are equal. */
Test(keep_best, is_the_first_of_equal_losses) {
    expect_done(
        train(ROUGH "--learning-rate=0 --max-iters=%d --keep-best --out=out text.txt", STEPS));
    struct log log = log_of("out");
    cr_expect(log_number(&log, 0, VAL_LOSS) == log_number(&log, log.rows - 1, VAL_LOSS));
    expect_member("out", "best_step", "0");
    cr_expect(number_in("out/best.safetensors", "step") == 0);
}

/* Returns the best step. */
static int check_resume(const char *options, const char *corpus) {
    double loss;
    expect_done(
        train(ROUGH "%s --max-iters=%d --keep-best --out=whole %s", options, STEPS, corpus));
    for (int step = 0; step < STEPS; step++) {
        expect_done(train(ROUGH "%s --max-iters=%d --keep-best --force --out=parts %s", options,
                          step, corpus));
        expect_done(train("--quiet --max-iters=%d --resume=parts", STEPS));
        expect_same_folder("whole", "parts");
    }
    return best_of("whole", &loss);
}

Test(keep_best, resumed_after_every_step) {
    static const char *const norms[] = {"bn", "ln", "pn"};
    for (int i = 0; i < 3; i++) {
        int step = check_resume(say("--norm=%s --force", norms[i]), "text.txt");
        cr_expect(step > 0 && step < STEPS, "%s: the best step is %d", norms[i], step);
    }
    check_resume("--norm=ln --items --force", "items.txt");
}

/* The file is newer than the checkpoint from which the run resumes; also when the run is told to
   end before the step of that file. */
Test(keep_best, killed_between_the_file_and_the_checkpoint) {
    for (int step = 1; step < STEPS; step += 2) {
        size_t bytes;
        expect_done(
            train(ROUGH "--norm=bn --max-iters=%d --keep-best --force --out=out text.txt", step));
        char *checkpoint = file_text("out/checkpoint.safetensors", &bytes);
        for (int last = STEPS; last >= step; last -= STEPS - step) {
            expect_done(train("--quiet --max-iters=%d --resume=out", STEPS));
            file_put("out/checkpoint.safetensors", checkpoint, bytes);
            cr_assert(!remove("out/model.safetensors") && !remove("out/summary.json"));
            expect_done(train("--quiet --max-iters=%d --resume=out", last));
            expect_done(train(ROUGH "--norm=bn --max-iters=%d --keep-best --force --out=whole "
                                    "text.txt",
                              last));
            expect_same_folder("whole", "out");
        }
    }
}

/* A run that is killed before its first checkpoint starts again; the file of the first attempt is
   removed. */
Test(keep_best, killed_before_the_first_checkpoint) {
    expect_done(train(ROUGH "--norm=bn --max-iters=5 --keep-best --out=whole text.txt"));
    expect_done(train(ROUGH "--norm=bn --max-iters=5 --keep-best --out=out text.txt"));
    cr_assert(!remove("out/checkpoint.safetensors") && !remove("out/model.safetensors"));
    file_put("out/best.safetensors", "of another time", 15);
    expect_done(train("--quiet --resume=out"));
    expect_same_folder("whole", "out");
}

#define LONG                                                                                       \
    ROUGH "--norm=bn --max-iters=900 --learning-rate=0.003 --eval-iters=3 "                        \
          "--checkpoint-interval=50 --log-interval=100 --keep-best "

Test(keep_best, after_a_kill_at_any_moment, .timeout = 300) {
    expect_to_survive_kills(LONG, 12, SIGTERM, expect_same_folder);
}

Test(keep_best, a_fresh_run_removes_it) {
    expect_done(train(ROUGH "--keep-best --out=out text.txt"));
    cr_assert(file_there("out/best.safetensors"));
    train_refuses(STATUS_USAGE, "out: already contains a run", ROUGH "--out=out text.txt");
    expect_done(train(ROUGH "--force --out=out text.txt"));
    cr_expect(!file_there("out/best.safetensors"));
    size_t bytes;
    char *checkpoint = file_text("out/checkpoint.safetensors", &bytes);
    cr_expect(!strstr(checkpoint + 8, "\"best."), "a copy without --keep-best");
}

Test(keep_best, stays_where_the_run_diverges) {
    struct ending ending = train(
        TINY "--quiet --norm=none --learning-rate=1000 --grad-clip=0 --schedule=constant "
             "--eval-iters=0 --eval-interval=1 --max-iters=1000 --keep-best --out=out text.txt");
    cr_assert(ending.status == STATUS_DIVERGED, "status %d: %s", ending.status, ending.err);
    struct log log = log_of("out");
    double best = log_number(&log, 0, VAL_LOSS);
    for (int row = 1; row < log.rows; row++)
        if (*log.cell[row][VAL_LOSS] && log_number(&log, row, VAL_LOSS) < best)
            best = log_number(&log, row, VAL_LOSS);
    ending = train("--evaluate=out/best.safetensors");
    char *measured = say("loss %.9g nats", best);
    cr_expect(ending.status == 0 && strstr(ending.out, measured), "%s%s", ending.out, ending.err);
}

Test(keep_best, writes_text_and_items) {
    expect_done(train(ROUGH "--norm=bn --keep-best --out=text text.txt"));
    expect_done(train(ROUGH "--norm=bn --items --keep-best --out=items items.txt"));
    cr_assert(!remove("text.txt"));
    struct ending ending = train("--generate=text/best.safetensors --num-chars=30 --prompt=the");
    cr_expect(ending.status == 0 && !strncmp(ending.out, "the", 3), "%s%s", ending.out, ending.err);
    cr_expect(strlen(ending.out) == 30 + 1 || strlen(ending.out) == 33 + 1, "%s", ending.out);
    ending = train("--generate=items/best.safetensors --num-items=3");
    cr_expect(ending.status == 0 && strstr(ending.err, "3 items"), "%s%s", ending.out, ending.err);
}

Test(keep_best, a_full_disk) {
    struct ending ending = train_in((struct surroundings){.file_limit = 4000},
                                    ROUGH "--keep-best --checkpoint-interval=0 --out=out text.txt");
    expect_refusal(&ending, STATUS_MACHINE, "out/best.safetensors: File too large");
    cr_expect(!file_there("out/best.safetensors") && !file_there("out/best.safetensors.tmp"));
}
