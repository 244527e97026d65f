/* Ablations as a person would run them: grids, folders, and what is refused. */
#define _GNU_SOURCE // setenv
#include "data/die.h"
#include "tests/command.h"
#include "tests/scripts/held.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(ablate, .init = held_enter, .fini = folder_leave);

/* Fails unless nothing was started: this status and message, no folder. */
static void expect_no_start(const struct ending *ending, int status, const char *part) {
    expect_status(ending, status);
    expect_part(ending->err, part);
    cr_expect(!*ending->out && !file_there("a"), "%s", part);
}

Test(ablate, the_grid) {
    struct ending ending =
        ABLATE("--list", "--norm=ln,bn", "--placement=pre,post", "--learning-rate", "1e-3,3e-3",
               "--seeds=3,7", "--out=a/", "--", "--bias=off", RUN);
    expect_status(&ending, 0);
    expect_part(ending.out, "16 runs: norm ln bn x placement pre post x learning-rate 1e-3 3e-3 x "
                            "seed 3 7");
    char *text = file_text("a/grid.txt", NULL), *line;
    static const char *const norms[] = {"ln", "bn"}, *const placements[] = {"pre", "post"},
                             *const rates[] = {"1e-3", "3e-3"};
    for (int i = 0; i < 16; i++) {
        char expected[512];
        const char *norm = norms[i / 4 % 2], *place = placements[i / 2 % 2], *rate = rates[i % 2];
        int seed = i < 8 ? 3 : 7;
        snprintf(expected, sizeof expected,
                 "%s-%s-learning-rate=%s-s%d --norm=%s --placement=%s --learning-rate=%s --seed=%d "
                 "--bias=off " TINY "text.txt",
                 norm, place, rate, seed, norm, place, rate, seed);
        cr_assert((line = strsep(&text, "\n")));
        cr_expect_str_eq(line, expected);
    }
    cr_expect(text && !*text);
    cr_expect(files_in("a/runs") == 0);
}

Test(ablate, a_dry_run_leaves_nothing) {
    struct ending ending = ABLATE("--dry-run", "--seeds=2", "--out=a", "--", RUN);
    expect_status(&ending, 0);
    expect_part(ending.out, "12 runs: norm ln bn rms x placement pre post x seed 1 2");
    expect_part(ending.out, "expected: ");
    cr_expect(!file_there("a"));
}

Test(ablate, blanks_slashes_and_more_jobs_than_cores) {
    hide_gnu_parallel();
    program_put("bin/nproc", "#!/bin/sh\necho 1\n");
    cr_assert(!mkdir("of mine", 0777));
    corpus_put_tiny("of mine/it's.txt", 3000);
    struct ending ending =
        ABLATE("--norm=ln", "--placement=pre", "--corpus=text.txt,of mine/it's.txt", "--seeds=2",
               "--jobs=3", "--out=runs of/mine", "--", "--n-layer=1", "--n-embd=8",
               "--block-size=8", "--batch-size=2", "--max-iters=4", "--sample=0");
    expect_status(&ending, 0);
    expect_part(ending.out, "3 side by side with 1 thread each");
    expect_part(ending.out, "| corpus | median | mean ± sd | range |");
    expect_part(ending.out, "| of mine/it's.txt | ");
    expect_part(
        file_text("runs of/mine/runs/ln-pre-corpus=of%20mine%2Fit%27s.txt-s2/config.ini", NULL),
        "corpus = \"of mine/it's.txt\"\n");
    char *results = file_text("runs of/mine/results.csv", NULL);
    cr_assert(results);
    cr_expect_str_eq(strsep(&results, "\n"),
                     "run,corpus,seed,exit_status,exit_reason,steps,train_loss,val_loss,"
                     "best_val_loss,best_step,seconds,tokens_per_second");
    for (int i = 0; i < 4; i++) expect_part(strsep(&results, "\n"), ",0,done,4,");
    cr_expect_str_eq(results, "");
}

Test(ablate, bad_values_are_refused_first) {
    struct ending ending =
        ABLATE("--norm=ln,bx", "--dropout=0.1,x", "--seeds=1", "--out=a", "--", RUN);
    expect_no_start(&ending, STATUS_USAGE, "train: --norm=bx: must be one of ");
    expect_part(ending.err, "train: --dropout=x: must be a number from 0 to ");
    ending = ABLATE("--n-hed=2", "--out=a", "--seeds=1", "--", RUN);
    expect_no_start(&ending, STATUS_USAGE,
                    "train: --n-hed: no such option (did you mean --n-head?)");
    ending = ABLATE("--n-embd=8,9", "--out=a", "--seeds=1", "--", "--n-head=2", "text.txt");
    expect_no_start(&ending, STATUS_USAGE, "train: --n-embd=9: cannot be split among --n-head=2");
    ending = ABLATE("--out=a", "--seeds=1", "--", "absent.txt");
    expect_no_start(&ending, STATUS_MACHINE, "train: corpus: absent.txt: No such file");
    ending = ABLATE("--out=a", "--seeds=1", "--", "--preln", RUN);
    expect_no_start(&ending, STATUS_USAGE, "ablate: --preln: names a placement");
}

Test(ablate, wrong_usage) {
    static const char *const cases[][5] = {
        {"--seeds=0", NULL, "ablate: --seeds=0: must be"},
        {"--seeds=1,x", NULL, "ablate: --seeds=1,x: 'x' is not a whole number"},
        {"--norm=ln,bn,ln", NULL, "ablate: ln,bn,ln: 'ln' is there twice"},
        {"--jobs=none", NULL, "ablate: --jobs=none: must be"},
        {"--preln", NULL, "ablate: --preln: needs values"},
        {"text.txt", NULL, "ablate: text.txt: what every run gets belongs after --"},
        {"--", "--norm=ln", "ablate: --norm: is in the grid and belongs before --"},
        {"--", "--seed=2", "ablate: --seed: belongs before --"},
        {"--", "-", "ablate: -: standard input cannot feed several runs"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ending ending = ABLATE("--out=a", cases[i][0], cases[i][1]);
        expect_no_start(&ending, STATUS_USAGE, cases[i][2]);
    }
}

Test(ablate, a_folder_holds_one_grid_and_can_be_extended) {
    held_release();
    held_start();
    struct ending ending =
        ABLATE("--norm=ln", "--placement=pre", "--seeds=1", "--out=a", "--", RUN);
    expect_status(&ending, 0);
    ending =
        ABLATE("--norm=ln", "--placement=pre", "--seeds=1", "--out=a", "--", "--bias=off", RUN);
    expect_status(&ending, STATUS_USAGE);
    expect_part(ending.err, "ablate: a: holds another grid: --norm --placement -- --n-layer=1 ");
    ending = ABLATE("--norm=rms,ln", "--placement=pre", "--seeds=2", "--out=a", "--", RUN);
    expect_status(&ending, 0);
    cr_expect(held_lines("begun") == 4, "some run was not done once:\n%s",
              file_text("begun", NULL));
    cr_expect(held_lines("a/grid.txt") == 4);
    expect_part(file_text("a/grid.txt", NULL), "ln-pre-s1 --norm=ln "); // still the first one
    cr_expect(!strncmp(file_text("a/grid.txt", NULL), "ln-pre-s1 ", 10));
}

Test(ablate, a_slurm_task_does_its_line) {
    held_release();
    held_start();
    struct ending ending =
        ABLATE("--list", "--norm=ln", "--placement=pre,post", "--seeds=2", "--out=a", "--", RUN);
    expect_status(&ending, 0);
    cr_assert(!symlink(getenv("SCRIPTS"), "scripts"));
    const char *const task[] = {"ablate.slurm", "a", NULL};
    setenv("SLURM_ARRAY_TASK_ID", "3", 1);
    for (int time = 0; time < 2; time++) { // as if requeued after its end
        ending = process_end(script_start(task), 0);
        expect_status(&ending, 0);
        expect_exit_reason("a/runs/ln-pre-s2", "done");
        cr_expect(files_in("a/runs") == 1 && held_lines("begun") == 1);
    }
    setenv("SLURM_ARRAY_TASK_ID", "5", 1);
    ending = process_end(script_start(task), 0);
    expect_status(&ending, STATUS_USAGE);
    expect_part(ending.err, "ablate: a/grid.txt: has no line '5'");
}

/* With a srun that starts one process, in place of Slurm's. */
Test(ablate, a_slurm_job_trains_and_continues) {
    static const char srun[] = "#!/bin/sh\n"
                               "echo \"srun $1\" >>srun.txt\n"
                               "shift && exec \"$@\"\n";
    const char *const none[] = {"train.slurm", "a", NULL};
    const char *const job[] = {"train.slurm", "a", "--norm=bn", "--checkpoint-interval=2",
                               RUN,           NULL};
    char path[8192], here[2048];
    struct ending ending = process_end(script_start(none), 0);
    expect_status(&ending, STATUS_USAGE);
    expect_part(ending.err, "Usage: sbatch ");
    cr_assert(getcwd(here, sizeof here));
    snprintf(path, sizeof path, "%s:%s", here, getenv("PATH"));
    program_put("srun", srun);
    cr_assert(!symlink(getenv("REAL"), "train"));
    setenv("PATH", path, 1);
    setenv("SLURM_JOB_ID", "7", 1);
    for (int time = 0; time < 2; time++) {
        ending = process_end(script_start(job), 0);
        expect_status(&ending, 0);
        expect_exit_reason("a", "done");
        cr_expect(!strstr(ending.err, "resuming at step 4") == (time == 0), "%s", ending.err);
    }
    cr_expect(held_lines("srun.txt") == 2, "%s", file_text("srun.txt", NULL));
    expect_part(file_text("a/config.ini", NULL), "\nnorm = bn\n");
}
