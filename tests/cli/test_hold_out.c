/* --hold-out: the end of the training split validates, and the validation split is not read. */
#include "data/die.h"
#include "tests/command.h"
#include "tests/runs.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 2000, TRAINING = 1800 };

static void enter(void) {
    folder_enter();
    corpus_put_tiny("text.txt", LENGTH);
    items_put("items.txt", 100);
}

TestSuite(hold_out, .init = enter, .fini = folder_leave);

#define RUN TINY "--quiet --norm=bn --max-iters=6 --eval-interval=2 --eval-iters=0 "

static double loss_in(const char *text) {
    double loss;
    cr_assert(sscanf(text, "loss %lf nats", &loss) == 1, "%s", text);
    return loss;
}

/* So that nothing of the validation split is read, except for the characters of the vocabulary. */
Test(hold_out, is_the_run_of_a_text_without_its_validation_split) {
    char *text = file_text("text.txt", NULL);
    file_put("first.txt", text, TRAINING);
    expect_done(train(RUN "--val-fraction=0.1 --hold-out=0.2 --out=held text.txt"));
    expect_done(train(RUN "--val-fraction=0.2 --out=first first.txt"));
    expect_same_log("held", "first");
}

Test(hold_out, an_evaluation_measures_the_same) {
    char *text = file_text("text.txt", NULL);
    file_put("last.txt", text + TRAINING, LENGTH - TRAINING);
    expect_done(train(RUN "--hold-out=0.1 --out=run text.txt"));
    struct ending ending = train("--evaluate=run");
    cr_expect(strstr(ending.out, "the held-out part of the training split of text.txt, 179 char"),
              "%s", ending.out);
    char value[32];
    snprintf(value, sizeof value, "%.9g", loss_in(ending.out));
    expect_member("run", "val_loss", value);
    struct ending whole = train("--evaluate=run --hold-out=0");
    struct ending other = train("--evaluate=run --corpus=last.txt"); // all of another text
    cr_expect(strstr(whole.out, "the validation split of text.txt, 199 char"), "%s", whole.out);
    cr_expect(strstr(other.out, ": last.txt, 199 char"), "%s", other.out);
    cr_expect(loss_in(whole.out) == loss_in(other.out), "%s%s", whole.out, other.out);
    cr_expect(loss_in(whole.out) != loss_in(ending.out), "%s", whole.out);
}

Test(hold_out, a_resumed_run_holds_out_the_same) {
    for (int items = 0; items < 2; items++) {
        const char *corpus = items ? "--items items.txt" : "text.txt";
        expect_done(train(RUN "--hold-out=0.3 --force --out=whole %s", corpus));
        expect_done(train(RUN "--hold-out=0.3 --max-iters=4 --lr-decay-iters=6 --force "
                              "--out=resumed %s",
                          corpus));
        train_refuses(STATUS_USAGE, "--hold-out=0.1: contradicts --hold-out=0.3",
                      "--quiet --resume=resumed --max-iters=6 --hold-out=0.1");
        expect_done(train("--quiet --resume=resumed --max-iters=6"));
        expect_same_log("whole", "resumed");
    }
}

Test(hold_out, both_parts_must_be_long_enough) {
    train_refuses(STATUS_USAGE, "the training split has 0 characters", RUN "--hold-out=1 text.txt");
    train_refuses(STATUS_USAGE, "--hold-out", RUN "--hold-out=1e-9 --out=out text.txt");
    train_refuses(STATUS_USAGE, "0 of 100 items train and 90 validate",
                  RUN "--hold-out=1 --items items.txt");
    train_refuses(STATUS_USAGE, "--hold-out", RUN "--hold-out=-0.1 text.txt");
}
