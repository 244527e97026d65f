/* The grid of an ablation: lists whose options vary together, and what a trial of its variants
   costs. Trials are counted: TRAIN names a program that records each of them in `tried`. */
#define _GNU_SOURCE // realpath, setenv
#include "data/die.h"
#include "tests/scripts.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUN                                                                                        \
    "--n-layer=1 --n-head=2 --n-embd=8 --block-size=8 --sample=0 --warmup-iters=0 --eval-iters=1 " \
    "text.txt"

static void enter(void) {
    folder_enter();
    corpus_put_tiny("text.txt", 2000);
    char real[4096];
    cr_assert(realpath(getenv("TRAIN"), real));
    setenv("REAL", real, 1);
    command_put("train", "#!/bin/bash\n"
                         "case $* in *--out=a/runs/* | *--config=* | *--help=*) ;;\n"
                         "*) echo \"$4 $5\" >>tried ;;\n"
                         "esac\n"
                         "exec \"$REAL\" \"$@\"\n");
    cr_assert(realpath("bin/train", real));
    setenv("TRAIN", real, 1);
}

TestSuite(ablate_grid, .init = enter, .fini = folder_leave);

static int trials(void) {
    int lines = 0;
    for (const char *text = file_text("tried", NULL); text && *text; text++) lines += *text == '\n';
    return lines;
}

static void expect_status(const struct ending *ending, int status) {
    cr_assert(ending->status == status, "status %d, not %d: %s%s", ending->status, status,
              ending->out, ending->err);
}

#define TIED "ablate.sh --norm=ln --placement=pre --batch-size,max-iters=1:24,4:6 --out=a "

Test(ablate_grid, tied_options_vary_together) {
    struct ending ending = script(TIED "--seeds=1 --list -- " RUN);
    expect_status(&ending, 0);
    expect_part(ending.out,
                "2 runs: norm ln x placement pre x batch-size,max-iters 1:24 4:6 x seed 1");
    cr_expect_str_eq(file_text("a/grid.txt", NULL),
                     "ln-pre-batch-size=1-max-iters=24-s1 --norm=ln --placement=pre --batch-size=1 "
                     "--max-iters=24 --seed=1 " RUN "\n"
                     "ln-pre-batch-size=4-max-iters=6-s1 --norm=ln --placement=pre --batch-size=4 "
                     "--max-iters=6 --seed=1 " RUN "\n");
}

Test(ablate_grid, norm_and_placement_can_be_tied) {
    struct ending ending = script(
        "ablate.sh --placement,act,norm=pre:gelu:ln,post:relu:bn --seeds=2 --list --out=a -- " RUN);
    expect_status(&ending, 0);
    cr_expect_str_eq(file_text("a/grid.txt", NULL),
                     "ln-pre-act=gelu-s1 --norm=ln --placement=pre --act=gelu --seed=1 " RUN "\n"
                     "bn-post-act=relu-s1 --norm=bn --placement=post --act=relu --seed=1 " RUN "\n"
                     "ln-pre-act=gelu-s2 --norm=ln --placement=pre --act=gelu --seed=2 " RUN "\n"
                     "bn-post-act=relu-s2 --norm=bn --placement=post --act=relu --seed=2 " RUN
                     "\n");
}

Test(ablate_grid, results_have_a_column_for_each_tied_option) {
    struct ending ending = script(TIED "--seeds=1 -- " RUN);
    expect_status(&ending, 0);
    expect_part(ending.out, "| batch-size | max-iters | median ");
    const char *results = file_text("a/results.csv", NULL);
    expect_part(results, "run,batch-size,max-iters,seed,");
    expect_part(results, "\nln-pre-batch-size=1-max-iters=24-s1,1,24,1,0,done,24,");
    expect_part(results, "\nln-pre-batch-size=4-max-iters=6-s1,4,6,1,0,done,6,");
}

Test(ablate_grid, a_tied_grid_can_become_the_full_one) {
    struct ending ending = script(TIED "--seeds=1 --list -- " RUN);
    expect_status(&ending, 0);
    ending = script("ablate.sh --norm=ln --placement=pre --batch-size=1,4 --max-iters=6,24 --out=a "
                    "--seeds=1 --list -- " RUN);
    expect_status(&ending, 0);
    expect_part(ending.out, "a/grid.txt, 4 runs\n");
}

/* --lr is --learning-rate: one list, of which the last counts. */
Test(ablate_grid, an_alias_is_no_list_of_its_own) {
    struct ending ending =
        script("ablate.sh --norm=ln --placement=pre --learning-rate=1e-2 --lr=1e-3 "
               "--out=a --seeds=1 --list -- " RUN);
    expect_status(&ending, 0);
    cr_expect_str_eq(file_text("a/grid.txt", NULL),
                     "ln-pre-learning-rate=1e-3-s1 --norm=ln --placement=pre --learning-rate=1e-3 "
                     "--seed=1 " RUN "\n");
}

/* The folder of a run has the short name, whichever name the grid has. */
Test(ablate_grid, long_names_of_norms_are_their_short_ones) {
    struct ending ending = script("ablate.sh --norm=layernorm --placement=preln,peri --seeds=1 "
                                  "--qk-norm=rmsnorm,off --list --out=a -- " RUN);
    expect_status(&ending, 0);
    expect_part(ending.out, "4 runs: norm ln x placement pre peri x qk-norm rms off x seed 1");
    expect_part(file_text("a/grid.txt", NULL),
                "ln-pre-qk-norm=rms-s1 --norm=ln --placement=pre --qk-norm=rms --seed=1 ");
    ending = script("ablate.sh --norm=ln --placement=pre,peri --seeds=1 --qk-norm=off,rms --list "
                    "--out=a -- " RUN);
    expect_status(&ending, 0);
    expect_part(ending.out, "a/grid.txt, 4 runs\n");
    ending = script("ablate.sh --norm,placement=batchnorm:postln,dyt:pre --seeds=1 --list --out=b "
                    "-- " RUN);
    expect_status(&ending, 0);
    expect_part(ending.out, "2 runs: norm,placement bn:post dyt:pre x seed 1");
    ending = script("ablate.sh --norm=ln --placement=pre --placement-attn=postln,auto --seeds=1 "
                    "--list --out=d -- " RUN);
    expect_status(&ending, 0);
    expect_part(file_text("d/grid.txt", NULL),
                "ln-pre-placement-attn=post-s1 --norm=ln --placement=pre --placement-attn=post ");
    ending = script("ablate.sh --norm=ln,bn,layernorm --out=c -- " RUN);
    cr_expect(ending.status == STATUS_USAGE);
    cr_expect_str_eq(ending.err, "ablate: ln,bn,ln: 'ln' is there twice\n");
}

Test(ablate_grid, wrong_tied_lists) {
    static const struct {
        const char *lists, *complaint;
    } wrong[] = {
        {"--batch-size,max-iters=1:24,4", "ablate: --batch-size,max-iters: '4' needs 2 "
                                          "values separated by colons, one for each "
                                          "name\n"},
        {"--batch-size,max-iters=1:2:3", "'1:2:3' needs 2 values"},
        {"--batch-size,max-iters=", "ablate: --batch-size,max-iters: needs values ("},
        {"--batch-size,max-iters=1:2,1:2", "'1:2' is there twice"},
        {"--norm=", "ablate: --norm: needs values ("},
        {"--max-iters,max-iters=1:2", "'max-iters' is there twice"},
        {"--max-iters,seed=1:2",
         "ablate: --max-iters,seed: --seed cannot vary together with others\n"},
        {"--max-iters=1 --batch-size,max-iters=1:2",
         "ablate: --max-iters: is in two lists, --max-iters and --batch-size,max-iters\n"},
        {"--batch-size,=1:2", "ablate: --batch-size,=1:2: no such option"},
        {"--learning-rate=1e-3,1e-2 -- --lr=5e-3", "ablate: --learning-rate: is in the grid and "},
        {"--batch-size,max-iters=1:2 -- --max-iters=3",
         "ablate: --max-iters: is in the grid and "}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct ending ending = script("ablate.sh --out=a %s", wrong[i].lists);
        cr_expect(ending.status == STATUS_USAGE, "%s: %d", wrong[i].lists, ending.status);
        expect_part(ending.err, wrong[i].complaint);
        cr_expect(!*ending.out && !file_there("a"));
    }
}

#define GRID "ablate.sh --norm=ln,rms --placement=pre --out=a "

Test(ablate_grid, a_variant_is_tried_once) {
    struct ending ending = script(GRID "--seeds=1 -- --max-iters=4 " RUN);
    expect_status(&ending, 0);
    expect_part(ending.err, "ablate: trying 2 variants first, about ");
    cr_expect(trials() == 2);
    ending = script(GRID "--seeds=2 -- --max-iters=4 " RUN);
    expect_status(&ending, 0);
    expect_part(ending.out,
                "4 runs: norm ln rms x placement pre x seed 1 2; 2 have ended, 2 to do");
    cr_expect(!strstr(ending.err, "trying") && trials() == 2, "tried again:\n%s", ending.err);
    ending = script("ablate.sh --norm=ln,rms,bn --placement=pre --out=a --seeds=3 --list -- "
                    "--max-iters=4 " RUN);
    expect_status(&ending, 0);
    expect_part(ending.err, "ablate: trying 1 variant first, about ");
    cr_expect(trials() == 3 && strstr(file_text("tried", NULL), "--norm=bn"));
}

Test(ablate_grid, a_trial_is_remembered_with_its_threads) {
    struct ending ending = script(GRID "--jobs=2 --seeds=1 --list -- --max-iters=4 " RUN);
    expect_status(&ending, 0);
    cr_expect(trials() == 2);
    ending = script(GRID "--jobs=2 --seeds=1 --list -- --max-iters=4 " RUN);
    expect_status(&ending, 0);
    cr_expect(trials() == 2);
    expect_part(ending.out, "(an estimate, from earlier runs)");
    ending = script(GRID "--jobs=1 --seeds=1 --list -- --max-iters=4 " RUN);
    expect_status(&ending, 0);
    cr_expect(trials() == 4);
    expect_part(ending.out, "(an estimate, from a few steps)");
}

Test(ablate_grid, runs_that_are_done_say_how_long_others_take) {
    struct ending ending = script(GRID "--seeds=2 --list -- --max-iters=4 " RUN);
    expect_status(&ending, 0);
    static const struct {
        const char *run, *summary;
    } done[] = {
        {"ln-pre-s1", "{\n  \"exit_reason\": \"done\",\n  \"seconds\": 7000,\n  \"a\": 0\n}\n"},
        {"ln-pre-s2", "{\n  \"exit_reason\": \"done\",\n  \"seconds\": 7400.5\n}\n"},
        {"rms-pre-s1", "{\n  \"exit_reason\": \"done\",\n  \"seconds\": 7200\n}\n"},
        {"rms-pre-s2", "{\n  \"exit_reason\": \"diverged\",\n  \"seconds\": 60\n}\n"}};
    for (size_t i = 0; i < sizeof done / sizeof *done; i++) {
        char command[256], path[64];
        snprintf(command, sizeof command, "mkdir -p a/runs/%s", done[i].run);
        struct ending made = bash(command);
        expect_status(&made, 0);
        snprintf(path, sizeof path, "a/runs/%s", done[i].run);
        text_put(path, "summary.json", done[i].summary);
    }
    ending = script(GRID "--seeds=5 --jobs=2 --dry-run -- --max-iters=4 " RUN);
    expect_status(&ending, 0);
    expect_part(ending.out,
                "10 runs: norm ln rms x placement pre x seed 1 2 3 4 5; 4 have ended, 6 to do");
    expect_part(ending.out, "expected: 2 h 00 min a run, 6 h 00 min in all, 2 side by side");
    ending = script(GRID "--seeds=9 --jobs=2 --dry-run -- --max-iters=4 " RUN);
    expect_part(ending.out, "expected: 2 h 00 min a run, ");
    cr_expect(trials() == 2);
}

Test(ablate_grid, an_old_bash_is_told) {
    struct ending ending = bash(
        ". \"$SCRIPTS/common/need_bash.sh\"; need_bash a 3 2; need_bash b 99 0; echo continues");
    cr_expect(ending.status == 1 && !*ending.out);
    expect_part(ending.err, "b: needs bash 99.0 or newer, and this is bash ");
    expect_part(ending.err, " (macOS: brew install bash)\n");
    cr_expect(!strstr(ending.err, "a: "));
}
