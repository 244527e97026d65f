/* Runs that stop and are resumed: the same bits as if they had not stopped. */
#include "data/die.h"
#include "tests/command.h"
#include "tests/runs.h"
#include "tests/support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(resume, .init = text_enter, .fini = folder_leave);

static void check_every_step(const char *model) {
    enum { STEPS = 12 };
    output_of(WATCHED "--force --max-iters=%d --out=whole %s text.txt", STEPS, model);
    static int from; // other steps for each model
    for (int step = from++ % 5; step < STEPS; step += sweep() ? 3 : 5) {
        output_of(WATCHED "--force --threads=2 --max-iters=%d --out=part %s text.txt", step, model);
        output_of("--quiet --threads=%d --max-iters=%d --resume=part", 1 + step % 3, STEPS);
        expect_same_folder("whole", "part");
    }
}

static void check_every_step_of_pair(const struct pair *pair) {
    check_every_step(pair_options(pair));
}

Test(resume, from_every_step) {
    every_row(check_every_step_of_pair);
    static const char *const options[] = {"--norm=bn --bn-axis=batch", "--norm=bn --bn-shards=2",
                                          "--norm=bn --rbn-mean=0.1 --rbn-var=0.1",
                                          "--norm=brn --brn-warmup=1 --brn-relax=3"};
    for (int i = 0; i < 4; i++) check_every_step(options[i]);
    for (size_t i = 0; optimizer_kinds[i]; i++)
        check_every_step(
            say("--act=swiglu --n-kv-head=1 --optimizer=%s", optimizer_kinds[i]->name));
}

Test(resume, from_every_checkpoint_of_one_run) {
    output_of(LIVELY "--norm=bn --max-iters=9 --checkpoint-interval=2 --out=whole text.txt");
    output_of(LIVELY "--norm=bn --max-iters=1 --checkpoint-interval=2 --out=parts text.txt");
    for (int step = 2; step <= 9; step++) output_of("--quiet --max-iters=%d --resume=parts", step);
    expect_same_folder("whole", "parts");
    output_of("--quiet --resume=parts"); // nothing is left to do
    expect_same_folder("whole", "parts");
    struct log log = log_of("parts");
    for (int row = 1; row < log.rows; row++) // time continues
        cr_expect(log_number(&log, row, SECONDS) >= log_number(&log, row - 1, SECONDS));
    output_of(LIVELY "--norm=bn --max-iters=8 --checkpoint-interval=2 --out=short text.txt");
    cr_expect(log_of("short").rows < log_of("whole").rows, "the comparison can fail");
}

/* While its learning rate is constant, a run may be given its decay: the bits are those of a run
   that had it from the start. */
static void check_late_decay(const char *stable, const char *change) {
    output_of(LIVELY "--lr-decay-iters=auto --schedule=wsd --max-iters=10 --force "
                     "--checkpoint-interval=5 --out=whole text.txt");
    output_of(LIVELY "%s --max-iters=8 --force --checkpoint-interval=5 --out=part text.txt",
              stable);
    size_t bytes;
    char *checkpoint = file_text("part/checkpoint.safetensors", &bytes);
    output_of("--quiet --resume=part %s", change);
    expect_same_folder("whole", "part");
    file_put("part/checkpoint.safetensors", checkpoint, bytes); // as after a kill
    cr_assert(!remove("part/model.safetensors") && !remove("part/summary.json"));
    output_of("--quiet --resume=part");
    expect_same_folder("whole", "part");
}

Test(resume, a_stable_run_decays_later) {
    check_late_decay("--schedule=constant --lr-decay-iters=auto", "--schedule=wsd --max-iters=10");
    check_late_decay("--schedule=wsd --lr-decay-iters=100", "--max-iters=10 --lr-decay-iters=auto");
    check_late_decay("--schedule=wsd --lr-decay-iters=auto --decay-fraction=0",
                     "--max-iters=10 --decay-fraction=0.2");
    output_of("--quiet --resume=part --max-iters=12"); // after its decay
    struct log log = log_of("part");
    cr_expect_str_eq(log.cell[log.rows - 1][STEP], "12");
    cr_expect_str_eq(log.cell[log.rows - 1][LR], "0.001", "decay is over");
    expect_part(file_text("part/config.ini", NULL), "lr-decay-iters = 10\n");
}

/* A longer run ends its decay where --lr-decay-iters says, in each schedule that decays. */
Test(resume, an_end_of_the_decay_that_was_given_stays) {
    static const char *const schedules[] = {"cosine", "linear", "wsd"};
    for (int i = 0; i < 3; i++) {
        const char *options = say("--schedule=%s --lr-decay-iters=14 --force", schedules[i]);
        output_of(LIVELY "%s --max-iters=10 --out=whole text.txt", options);
        output_of(LIVELY "%s --max-iters=3 --out=part text.txt", options);
        output_of("--quiet --resume=part --max-iters=10 --schedule=%s", schedules[i]);
        expect_same_folder("whole", "part");
        expect_part(file_text("part/config.ini", NULL), "lr-decay-iters = 14\n");
    }
}

Test(resume, a_decay_that_would_change_the_past_is_refused) {
    static const char *const changes[][2] = {
        {"--schedule=wsd --decay-fraction=0.5",
         "--decay-fraction=0.5: decay would start after 5 updates"},
        {"--schedule=cosine", "--schedule=cosine: contradicts --schedule=constant"},
        {"--schedule=wsd --learning-rate=0.02", "--learning-rate=0.02: contradicts"},
        {"--schedule=wsd --warmup-iters=4", "--warmup-iters=4: contradicts"}};
    output_of(LIVELY "--lr-decay-iters=auto --schedule=constant --max-iters=8 --out=out text.txt");
    for (int i = 0; i < 4; i++)
        train_refuses(STATUS_USAGE, changes[i][1], "--resume=out --max-iters=10 %s", changes[i][0]);
    // an end that was given stays, also for another schedule
    output_of(LIVELY "--schedule=constant --max-iters=8 --lr-decay-iters=9 --out=later text.txt");
    train_refuses(STATUS_USAGE, "decay would start after 7 updates",
                  "--resume=later --schedule=wsd --max-iters=100");
}

/* What "auto" became stays if the run gets longer: the end of a decay, and the batches of prepbn. */
Test(resume, what_auto_became_stays) {
    static const char options[] = "--norm=prepbn --lr-decay-iters=auto --prepbn-steps=auto";
    output_of(LIVELY "%s --max-iters=4 --out=part text.txt", options);
    expect_part(file_text("part/config.ini", NULL), "\nlr-decay-iters = auto\n");
    expect_part(summary_of("part"), "\"prepbn-steps\": 8,");
    output_of("--quiet --resume=part --max-iters=9");
    output_of(LIVELY "--norm=prepbn --lr-decay-iters=4 --prepbn-steps=8 --max-iters=9 --out=whole "
                     "text.txt");
    expect_same_folder("whole", "part");
    train_refuses(STATUS_USAGE, "--lr-decay-iters=9: contradicts --lr-decay-iters=4",
                  "--resume=part --lr-decay-iters=auto");
}

/* Runs of versions whose files have numbers in place of "auto". */
Test(resume, a_run_without_auto) {
    static const char *const numbers[][2] = {
        {"n-kv-head", "2"}, {"ffn-width", "32"}, {"norm-groups", "2"},  {"min-lr", "0.001"},
        {"max-iters", "4"}, {"num-items", "20"}, {"eval-interval", "4"}};
    output_of(LIVELY "--norm=gn --max-iters=9 --out=whole text.txt");
    output_of(LIVELY "--norm=gn --max-iters=4 --out=part text.txt");
    edited_load("part/checkpoint.safetensors");
    size_t replaced = 0;
    for (size_t i = 0; i < edited.text_count; i++)
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
            if (strcmp(edited.texts[i].name, numbers[k][0]) != 0) continue;
            edited.texts[i].text = say("%s", numbers[k][1]);
            replaced++;
        }
    cr_assert(replaced == sizeof numbers / sizeof *numbers);
    edited_save("part/checkpoint.safetensors");
    cr_assert(!remove("part/config.ini") && !remove("part/model.safetensors"));
    output_of("--quiet --resume=part --max-iters=9");
    expect_same_arrays("whole/model.safetensors", "part/model.safetensors");
    expect_part(file_text("part/config.ini", NULL), "\nn-kv-head = 2\n");
}

/* Rows of probes that are cut short, or that belong to updates to be repeated, are removed; what is
   no row is refused. */
Test(resume, with_probes) {
    output_of(WATCHED "--norm=ln --max-iters=9 --out=whole text.txt");
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
    output_of(WATCHED "--norm=ln --max-iters=5 --out=cut text.txt");
    char *more = say("%s6,0,attn,stream_rms,1\n6,0,att", file_text("cut/probes.csv", NULL));
    file_put("cut/probes.csv", more, strlen(more));
    output_of("--quiet --max-iters=9 --resume=cut");
    expect_same_folder("whole", "cut");
    more = say("%sno row\n", probes);
    file_put("cut/probes.csv", more, strlen(more));
    train_refuses(STATUS_MACHINE, "cut/probes.csv:", "--quiet --max-iters=10 --resume=cut");
}

Test(resume, a_row_that_was_cut_short_is_written_again) {
    static const char *const tails[] = {"", "5", "5,0.1,40,0.00", "5,0.1,40,0.001,2.5,,1.0,100\n",
                                        "5,0.1,40,0.001,2.5,,1.0,100\n6,0"};
    output_of(LIVELY "--max-iters=6 --out=whole text.txt");
    for (size_t i = 0; i <= sizeof tails / sizeof *tails; i++) {
        output_of(LIVELY "--max-iters=5 --force --out=out text.txt");
        char *log = file_text("out/log.csv", NULL);
        if (i < sizeof tails / sizeof *tails)
            log = say("%s%s", log, tails[i]);
        else // a row of an update before the checkpoint, but beyond the checksum
            strcpy(strstr(log, "\n5,") + 1, "4,0.1,40,0.001,2.5,,1.0,100\n");
        file_put("out/log.csv", log, strlen(log));
        output_of("--quiet --max-iters=6 --resume=out");
        expect_same_folder("whole", "out");
    }
}

Test(resume, before_the_first_checkpoint) {
    output_of(LIVELY "--keep-best --max-iters=5 --out=whole text.txt");
    output_of(LIVELY "--keep-best --max-iters=5 --out=out text.txt");
    for (int log = 0; log < 2; log++) {
        cr_assert(!remove("out/checkpoint.safetensors") && !remove("out/model.safetensors"));
        cr_assert(!log || !remove("out/log.csv"));
        file_put("out/best.safetensors", "of another time", 15);
        output_of("--quiet --resume=out/");
        expect_same_folder("whole", "out");
    }
}

/* Otherwise --resume would return to the checkpoint, and the rows and the model after it would be
   lost. */
Test(resume, a_checkpoint_is_never_older_than_the_model) {
    output_of(LIVELY "--max-iters=9 --out=whole text.txt");
    output_of(LIVELY "--max-iters=4 --out=out text.txt");
    output_of("--quiet --max-iters=6 --checkpoint-interval=0 --resume=out");
    char *log = file_text("out/log.csv", NULL);
    train_refuses(STATUS_USAGE, "--max-iters=5: the run in out has done 6 already",
                  "--resume=out --max-iters=5");
    cr_expect_str_eq(file_text("out/log.csv", NULL), log);
    output_of("--quiet --max-iters=9 --checkpoint-interval=auto --resume=out");
    expect_same_folder("whole", "out");
}
