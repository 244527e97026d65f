/* Runs that stop and are resumed: the same bits as if they had not stopped. */
#include "data/die.h"
#include "tests/command.h"
#include "tests/runs.h"
#include "tests/support.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(resume, .init = text_enter, .fini = folder_leave);

static void check_every_step(const char *model) {
    enum { STEPS = 12 };
    expect_done(train(WATCHED "%s --max-iters=%d --out=whole text.txt", model, STEPS));
    static int from; // other steps for each model
    for (int step = from++ % 5; step < STEPS; step += sweep() ? 3 : 5) {
        char *stopped = say("at%d", step);
        expect_done(
            train(WATCHED "%s --threads=2 --max-iters=%d --out=%s text.txt", model, step, stopped));
        expect_done(
            train("--quiet --threads=%d --max-iters=%d --resume=%s", 1 + step % 3, STEPS, stopped));
        expect_same_folder("whole", stopped);
    }
}

static void check_from_every_step(const struct pair *pair) {
    check_every_step(say("--force %s", pair_options(pair)));
}

Test(resume, from_every_step) {
    every_row(check_from_every_step);
}

Test(resume, from_every_step_with_options_of_norms) {
    static const char *const options[] = {"bn --bn-axis=batch", "bn --bn-shards=2",
                                          "bn --rbn-mean=0.1 --rbn-var=0.1",
                                          "brn --brn-warmup=1 --brn-relax=3"};
    for (int i = 0; i < 4; i++) check_every_step(say("--force --norm=%s", options[i]));
}

Test(resume, every_optimizer) {
    for (size_t i = 0; optimizer_kinds[i]; i++) {
        char *options =
            say("--force --act=swiglu --n-kv-head=1 --optimizer=%s", optimizer_kinds[i]->name);
        check_every_step(options);
    }
}

Test(resume, from_every_checkpoint_of_one_run) {
    expect_done(
        train(LIVELY "--norm=bn --max-iters=9 --checkpoint-interval=2 --out=whole text.txt"));
    expect_done(
        train(LIVELY "--norm=bn --max-iters=1 --checkpoint-interval=2 --out=parts text.txt"));
    for (int step = 2; step <= 9; step++)
        expect_done(train("--quiet --max-iters=%d --resume=parts", step));
    expect_same_folder("whole", "parts");
    expect_done(train("--quiet --resume=parts")); // nothing is left to do
    expect_same_folder("whole", "parts");
}

/* While its learning rate is constant, a run may be given its decay: the bits are those of a run
   that had it from the start. */
static void check_late_decay(const char *stable, const char *change) {
    size_t bytes;
    expect_done(train(LIVELY "--lr-decay-iters=auto --schedule=wsd --max-iters=10 --force "
                             "--checkpoint-interval=5 --out=whole text.txt"));
    expect_done(train(LIVELY "%s --max-iters=8 --force --checkpoint-interval=5 --out=part text.txt",
                      stable));
    char *checkpoint = file_text("part/checkpoint.safetensors", &bytes);
    expect_done(train("--quiet --resume=part %s", change));
    expect_same_folder("whole", "part");
    file_put("part/checkpoint.safetensors", checkpoint, bytes); // as after a kill
    cr_assert(!remove("part/model.safetensors") && !remove("part/summary.json"));
    expect_done(train("--quiet --resume=part"));
    expect_same_folder("whole", "part");
}

Test(resume, a_stable_run_decays_later) {
    check_late_decay("--schedule=constant --lr-decay-iters=auto", "--schedule=wsd --max-iters=10");
    check_late_decay("--schedule=wsd --lr-decay-iters=100", "--max-iters=10");
    expect_done(train("--quiet --resume=part --max-iters=12")); // after its decay
    struct log log = log_of("part");
    cr_assert(!strcmp(log.cell[log.rows - 1][STEP], "12"), "%s", log.cell[log.rows - 1][STEP]);
    cr_expect_str_eq(log.cell[log.rows - 1][LR], "0.001", "decay is over");
    cr_expect(strstr(file_text("part/config.ini", NULL), "lr-decay-iters = 10\n"));
}

Test(resume, a_decay_that_would_change_the_past_is_refused) {
    expect_done(train(LIVELY "--schedule=constant --max-iters=8 --out=out text.txt"));
    train_refuses(STATUS_USAGE, "--decay-fraction=0.5: decay would start after 5 updates",
                  "--resume=out --schedule=wsd --max-iters=10 --decay-fraction=0.5");
    train_refuses(STATUS_USAGE, "--schedule=cosine: contradicts --schedule=constant",
                  "--resume=out --schedule=cosine --max-iters=10");
    train_refuses(STATUS_USAGE, "--learning-rate=0.02: contradicts",
                  "--resume=out --schedule=wsd --max-iters=10 --learning-rate=0.02");
    train_refuses(STATUS_USAGE, "--warmup-iters=4: contradicts",
                  "--resume=out --schedule=wsd --max-iters=10 --warmup-iters=4");
}

/* Rows of probes that are cut short, or that belong to updates to be repeated, are removed; what is
   no row is refused. */
Test(resume, with_probes) {
    expect_done(train(WATCHED "--norm=ln --max-iters=9 --out=whole text.txt"));
    char *probes = file_text("whole/probes.csv", NULL);
    cr_expect(!strncmp(probes, "step,layer,site,metric,value\n0,,embd,stream_rms,", 48));
    int rows[10] = {0};
    for (char *line = strchr(probes, '\n'); line && line[1]; line = strchr(line + 1, '\n')) {
        int step = atoi(line + 1);
        cr_assert(step >= 0 && step < 9);
        rows[step]++;
    }
    for (int step = 0; step < 9; step++)
        cr_expect(step % 3 ? !rows[step] : rows[step] > 30 && rows[step] >= rows[0], "%d", step);
    expect_done(train(WATCHED "--norm=ln --max-iters=5 --out=cut text.txt"));
    char *more = say("%s6,0,attn,stream_rms,1\n6,0,att", file_text("cut/probes.csv", NULL));
    file_put("cut/probes.csv", more, strlen(more));
    expect_done(train("--quiet --max-iters=9 --resume=cut"));
    expect_same_folder("whole", "cut");
    more = say("%sno row\n", probes);
    file_put("cut/probes.csv", more, strlen(more));
    struct ending ending = train("--quiet --max-iters=10 --resume=cut");
    cr_expect(ending.status == STATUS_MACHINE && strstr(ending.err, "cut/probes.csv:"), "%d %s",
              ending.status, ending.err);
}

/* In the middle of the whole file a missing or a repeated update makes a difference. The middle is
   counted from the end, since the length of the header depends on the digits of a loss. */
Test(resume, the_comparison_can_fail) {
    expect_done(train(LIVELY "--max-iters=5 --out=a text.txt"));
    expect_done(train(LIVELY "--max-iters=6 --out=b text.txt"));
    size_t a_bytes, b_bytes;
    char *a = file_text("a/checkpoint.safetensors", &a_bytes);
    char *b = file_text("b/checkpoint.safetensors", &b_bytes);
    size_t half = a_bytes / 2;
    cr_assert(half < b_bytes);
    cr_assert(memcmp(a + a_bytes - half, b + b_bytes - half, half / 2) != 0);
}

Test(resume, a_row_that_was_cut_short_is_written_again) {
    static const char *const tails[] = {"", "5", "5,0.1,40,0.00", "5,0.1,40,0.001,2.5,,1.0,100\n",
                                        "5,0.1,40,0.001,2.5,,1.0,100\n6,0"};
    expect_done(train(LIVELY "--max-iters=6 --out=whole text.txt"));
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        expect_done(train(LIVELY "--max-iters=5 --force --out=out text.txt"));
        FILE *log = fopen("out/log.csv", "a");
        fputs(tails[i], log);
        fclose(log);
        expect_done(train("--quiet --max-iters=6 --resume=out"));
        expect_same_folder("whole", "out");
    }
    // a row of an update before the checkpoint, but beyond the checksum
    expect_done(train(LIVELY "--max-iters=5 --force --out=out text.txt"));
    char *log = file_text("out/log.csv", NULL);
    strcpy(strstr(log, "\n5,") + 1, "4,0.1,40,0.001,2.5,,1.0,100\n");
    file_put("out/log.csv", log, strlen(log));
    expect_done(train("--quiet --max-iters=6 --resume=out"));
    expect_same_folder("whole", "out");
}

Test(resume, time_continues) {
    expect_done(train(LIVELY "--max-iters=40 --eval-interval=1 --out=out text.txt"));
    expect_done(train("--quiet --max-iters=50 --resume=out"));
    struct log log = log_of("out");
    for (int row = 1; row < log.rows; row++)
        cr_expect(log_number(&log, row, SECONDS) >= log_number(&log, row - 1, SECONDS));
    expect_member("out", "steps", "50");
}

Test(resume, before_the_first_checkpoint) {
    expect_done(train(LIVELY "--max-iters=5 --out=whole text.txt"));
    expect_done(train(LIVELY "--max-iters=5 --out=out text.txt"));
    cr_assert(!remove("out/checkpoint.safetensors") && !remove("out/model.safetensors"));
    expect_done(train("--quiet --resume=out"));
    expect_same_folder("whole", "out");
    cr_assert(!remove("out/checkpoint.safetensors") && !remove("out/model.safetensors"));
    cr_assert(!remove("out/log.csv"));
    expect_done(train("--quiet --resume=out/"));
    expect_same_folder("whole", "out");
}

/* Otherwise --resume would return to the checkpoint, and the rows and the model after it would be
   lost. */
Test(resume, a_checkpoint_is_never_older_than_the_model) {
    expect_done(train(LIVELY "--max-iters=9 --out=whole text.txt"));
    expect_done(train(LIVELY "--max-iters=4 --out=out text.txt"));
    expect_done(train("--quiet --max-iters=6 --checkpoint-interval=0 --resume=out"));
    char *log = file_text("out/log.csv", NULL);
    struct ending refused = train("--resume=out --max-iters=5");
    expect_refusal(&refused, STATUS_USAGE, "--max-iters=5: the run in out has done 6 already");
    cr_expect_str_eq(file_text("out/log.csv", NULL), log);
    expect_done(train("--quiet --max-iters=9 --checkpoint-interval=auto --resume=out"));
    expect_same_folder("whole", "out");
}
