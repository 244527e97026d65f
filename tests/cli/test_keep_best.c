/* --keep-best: best.safetensors is the model of the evaluation with the lowest validation loss,
   however the run continued. */
#include "data/die.h"
#include "tests/command.h"
#include "tests/runs.h"
#include "tests/support.h"
#include <stdio.h>
#include <string.h>

/* The validation split is written backwards: its loss falls while the characters' frequencies are
   learned and then rises, so the best step is neither the first nor the last. */
static void enter(void) {
    enum { TRAIN = 1800 };
    size_t bytes;
    corpora_enter();
    char *text = file_text("text.txt", &bytes);
    for (size_t i = TRAIN, j = bytes - 1; i < j; i++, j--) {
        char c = text[i];
        text[i] = text[j];
        text[j] = c;
    }
    file_put("text.txt", text, bytes);
}

TestSuite(keep_best, .init = enter, .fini = folder_leave);

#define ROUGH                                                                                      \
    TINY "--quiet --dropout=0.2 --grad-accum=2 --learning-rate=0.1 --schedule=constant "           \
         "--lr-decay-iters=12 --eval-interval=2 --eval-iters=0 --pn-warmup=5 --prepbn-steps=20 "

enum { STEPS = 12 };

/* The row of the log's lowest validation loss. */
static int best_row(const struct log *log) {
    int best = -1;
    for (int row = 0; row < log->rows; row++)
        if (*log->cell[row][VAL_LOSS] &&
            (best < 0 || log_number(log, row, VAL_LOSS) < log_number(log, best, VAL_LOSS)))
            best = row;
    cr_assert(best >= 0, "no validation loss");
    return best;
}

static void check_is_the_model_of_the_lowest_loss(const struct pair *pair) {
    const char *model = say("--force %s text.txt", pair_options(pair));
    output_of(ROUGH "--max-iters=%d --keep-best --out=out %s", STEPS, model);
    struct log log = log_of("out");
    const char **best = log.cell[best_row(&log)];
    expect_member("out", "best_step", best[STEP]);
    // measured by another process, it is the logged loss to the last digit
    expect_part(output_of("--evaluate=out/best.safetensors"), say("loss: %s nats", best[VAL_LOSS]));
    // a run that stops there has this model, and without --keep-best the same last model
    output_of(ROUGH "--max-iters=%s --out=stopped %s", best[STEP], model);
    expect_same_arrays("stopped/model.safetensors", "out/best.safetensors");
    output_of(ROUGH "--max-iters=%d --out=off %s", STEPS, model);
    expect_same_arrays("off/model.safetensors", "out/model.safetensors");
    expect_same_log("off", "out");
}

Test(keep_best, is_the_model_of_the_lowest_loss) {
    every_row(check_is_the_model_of_the_lowest_loss);
}

/* Of equal losses the first one counts: without updates all are equal. */
Test(keep_best, is_the_first_of_equal_losses) {
    output_of(ROUGH "--learning-rate=0 --max-iters=%d --keep-best --out=out text.txt", STEPS);
    expect_member("out", "best_step", "0");
    edited_load("out/best.safetensors");
    for (size_t i = 0; i < edited.text_count; i++)
        cr_expect(strcmp(edited.texts[i].name, "step") || !strcmp(edited.texts[i].text, "0"));
}

Test(keep_best, resumed_after_every_step) {
    static const char *const runs[] = {"--norm=bn text.txt", "--norm=ln text.txt",
                                       "--norm=pn text.txt", "--norm=ln --items items.txt"};
    for (int i = 0; i < 4; i++) {
        output_of(ROUGH "--max-iters=%d --keep-best --force --out=whole %s", STEPS, runs[i]);
        for (int step = 0; step < STEPS; step++) {
            output_of(ROUGH "--max-iters=%d --keep-best --force --out=parts %s", step, runs[i]);
            output_of("--quiet --max-iters=%d --resume=parts", STEPS);
            expect_same_folder("whole", "parts");
        }
        double best = summary_number("whole", "best_step");
        cr_expect(i == 3 || (best > 0 && best < STEPS), "%s: the best step is %g", runs[i], best);
    }
}

/* The file is newer than the checkpoint from which the run resumes; also when the run is told to
   end before the step of that file. */
Test(keep_best, killed_between_the_file_and_the_checkpoint) {
#define KEPT ROUGH "--norm=bn --keep-best --force "
    for (int step = 1; step < STEPS; step += 2) {
        size_t bytes;
        output_of(KEPT "--max-iters=%d --out=out text.txt", step);
        char *checkpoint = file_text("out/checkpoint.safetensors", &bytes);
        for (int last = STEPS; last >= step; last -= STEPS - step) {
            output_of("--quiet --max-iters=%d --resume=out", STEPS);
            file_put("out/checkpoint.safetensors", checkpoint, bytes);
            cr_assert(!remove("out/model.safetensors") && !remove("out/summary.json"));
            output_of("--quiet --max-iters=%d --resume=out", last);
            output_of(KEPT "--max-iters=%d --out=whole text.txt", last);
            expect_same_folder("whole", "out");
        }
    }
}

Test(keep_best, a_fresh_run_removes_it) {
    output_of(ROUGH "--keep-best --out=out text.txt");
    cr_assert(file_there("out/best.safetensors"));
    output_of(ROUGH "--force --out=out text.txt");
    cr_expect(!file_there("out/best.safetensors"));
    char *checkpoint = file_text("out/checkpoint.safetensors", NULL);
    cr_expect(!strstr(checkpoint + 8, "\"best."), "a copy without --keep-best");
}

Test(keep_best, stays_where_the_run_diverges) {
    struct ending ending = train(
        TINY "--quiet --norm=none --learning-rate=1000 --grad-clip=0 --schedule=constant "
             "--eval-iters=0 --eval-interval=1 --max-iters=1000 --keep-best --out=out text.txt");
    cr_assert(ending.status == STATUS_DIVERGED, "status %d: %s", ending.status, ending.err);
    struct log log = log_of("out");
    expect_part(output_of("--evaluate=out/best.safetensors"),
                say("loss: %s nats", log.cell[best_row(&log)][VAL_LOSS]));
}
