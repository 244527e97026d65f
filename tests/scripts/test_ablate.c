/* Ablations as a person would run them: grids, resuming, failures, locks.

   Runs are held up and counted without clocks: TRAIN names a script that notes every run of the
   grid in `begun` (name, process, and whether by --out or --resume), waits for a file `go`, and
   becomes the real program. The trials, which have their folders elsewhere, pass. */
#define _GNU_SOURCE // setenv, realpath
#include "data/die.h"
#include "tests/command.h"
#include "tests/json.h"
#include <criterion/criterion.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The words of TINY and a corpus. */
#define RUN                                                                                        \
    "--n-layer=1", "--n-head=2", "--n-embd=8", "--block-size=8", "--batch-size=2",                 \
        "--max-iters=4", "--sample=0", "--log-interval=1", "--warmup-iters=0", "text.txt"

#define START(...)  script_start((const char *const[]){"ablate.sh", __VA_ARGS__, NULL})
#define ABLATE(...) process_end(START(__VA_ARGS__), 0)

static void program_put(const char *name, const char *text) {
    file_put(name, text, strlen(text));
    cr_assert(!chmod(name, 0755));
}

static void enter(void) {
    folder_enter();
    corpus_put_tiny("text.txt", 2000);
    char real[4096];
    cr_assert(realpath(getenv("TRAIN"), real));
    setenv("REAL", real, 1);
    program_put("held",
                "#!/bin/bash\n"
                "all=$*\n"
                "case $all in *=a/runs/*)\n"
                "    name=${all#*=a/runs/} how=${all%%=a/runs/*}\n"
                "    echo \"${name%% *} $$ ${how##* }\" >>begun\n"
                "    for ((i = 0; i < 600; i++)); do [ ! -e go ] || break; sleep 0.05; done ;;\n"
                "esac\n"
                "exec \"$REAL\" \"$@\"\n");
}

TestSuite(ablate, .init = enter, .fini = folder_leave);

/* From here runs are counted and held until release(). */
static void hold(void) {
    char path[4096];
    cr_assert(realpath("held", path));
    setenv("TRAIN", path, 1);
}

static void release(void) {
    file_put("go", "", 0);
}

/* Hides a GNU parallel behind a program like the one of Debian's moreutils. */
static void without_gnu_parallel(void) {
    char path[8192];
    cr_assert(!mkdir("bin", 0777));
    program_put("bin/parallel",
                "#!/bin/sh\necho \"parallel: invalid option -- '-'\" >&2\nexit 1\n");
    cr_assert(realpath("bin", path));
    strcat(strcat(path, ":"), getenv("PATH"));
    setenv("PATH", path, 1);
}

static int lines_of(const char *name) {
    int lines = 0;
    for (const char *text = file_text(name, NULL); text && *text; text++) lines += *text == '\n';
    return lines;
}

static void pause_for(int milliseconds) {
    nanosleep(&(struct timespec){.tv_nsec = 1000000L * milliseconds}, NULL);
}

/* Waits until the file has so many lines. */
static void wait_for(const char *name, int count) {
    int lines = 0;
    for (int tries = 0; tries < 1500 && lines < count; tries++) {
        pause_for(20);
        FILE *file = fopen(name, "r");
        lines = 0;
        for (int c; file && (c = fgetc(file)) != EOF;) lines += c == '\n';
        if (file) fclose(file);
    }
    cr_assert(lines >= count, "%s: no %d lines come", name, count);
}

/* The process of a run that has begun. */
static pid_t process_of(const char *name) {
    const char *line = strstr(file_text("begun", NULL), name);
    cr_assert(line, "%s has not begun", name);
    return (pid_t)atol(line + strlen(name));
}

static void expect_reason(const char *run, const char *reason) {
    char path[256];
    snprintf(path, sizeof path, "%s/summary.json", run);
    const char *summary = file_text(path, NULL);
    cr_assert(summary, "%s is missing", path);
    cr_expect(json_is(json_member(summary, "exit_reason"), reason), "%s is not %s", run, reason);
}

static void expect_part(const char *text, const char *part) {
    cr_expect(text && strstr(text, part), "no \"%s\" in: %s", part, text ? text : "nothing");
}

static void expect_status(const struct ending *ending, int status) {
    cr_expect(ending->status == status, "status %d, not %d: %s", ending->status, status,
              ending->err);
}

/* That it did not begin anything: status, its last line, no folder. */
static void expect_no_start(const struct ending *ending, int status, const char *part) {
    expect_status(ending, status);
    expect_part(ending->err, part);
    cr_expect(!*ending->out && !file_there("a"), "%s", part);
}

Test(ablate, the_grid) {
    struct ending ending = ABLATE("--list", "--norm=ln,bn", "--learning-rate", "1e-3,3e-3",
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
    without_gnu_parallel();
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

/* Kills the driver while it has two of four runs under way, and gives the command again. The second
   driver is let to begin before they go on: it has to wait for them. */
static void check_killed_driver(void) {
    static const char *const command[] = {
        "ablate.sh", "--norm=ln,rms", "--seeds=2", "--placement=pre",
        "--jobs=2",  "--out=a",       "--",        RUN,
        NULL};
    static const char status[] = "a/driver/ln-pre-s1.status"; // which a driver removes first
    hold();
    struct process driver = script_start(command);
    wait_for("begun", 2);
    cr_assert(file_there(status));
    process_end(driver, SIGKILL);
    driver = script_start(command);
    for (int tries = 0; tries < 1500 && file_there(status); tries++) pause_for(20);
    pause_for(500);
    release();
    struct ending ending = process_end(driver, 0);
    expect_status(&ending, 0);
    expect_part(ending.out, "| rms | ");
    cr_expect(lines_of("begun") == 4, "not each run once:\n%s", file_text("begun", NULL));
    cr_expect(lines_of("a/results.csv") == 5);
    ending = process_end(script_start(command), 0);
    expect_status(&ending, 0);
    cr_expect(lines_of("begun") == 4, "done again:\n%s", file_text("begun", NULL));
}

Test(ablate, the_driver_killed) {
    check_killed_driver();
}

Test(ablate, the_driver_killed_without_gnu_parallel) {
    without_gnu_parallel();
    check_killed_driver();
}

static void check_killed_run(void) {
    static const char *const command[] = {
        "ablate.sh", "--norm=ln,rms", "--seeds=2", "--placement=pre",
        "--jobs=2",  "--out=a",       "--",        RUN,
        NULL};
    hold();
    struct process driver = script_start(command);
    wait_for("begun", 2);
    cr_assert(!kill(process_of("ln-pre-s1"), SIGKILL));
    release();
    struct ending ending = process_end(driver, 0);
    expect_status(&ending, 1);
    expect_part(ending.err, "ablate: 1 of 4 runs failed; the same command tries them again:\n"
                            "ablate: ln-pre-s1: killed by signal 9\n");
    expect_part(file_text("a/results.csv", NULL), "\nln-pre-s1,ln,1,137,failed,");
    expect_reason("a/runs/rms-pre-s2", "done");
    cr_expect(lines_of("begun") == 4);
    ending = process_end(script_start(command), 0);
    expect_status(&ending, 0);
    expect_reason("a/runs/ln-pre-s1", "done");
    cr_expect(lines_of("begun") == 5, "not only the one:\n%s", file_text("begun", NULL));
}

Test(ablate, a_run_killed) {
    check_killed_run();
}

Test(ablate, a_run_killed_without_gnu_parallel) {
    without_gnu_parallel();
    check_killed_run();
}

Test(ablate, an_interrupt_lets_runs_save) {
    struct process driver = START("--norm=ln", "--seeds=1", "--out=a", "--jobs=2", "--", RUN,
                                  "--max-iters=1000000", "--log-interval=1000000");
    wait_for("a/runs/ln-pre-s1/log.csv", 2);
    wait_for("a/runs/ln-post-s1/log.csv", 2);
    struct ending ending = process_end(driver, SIGTERM);
    expect_status(&ending, 143);
    expect_part(ending.err, "interrupted: 0 of 2 runs have ended; the same command goes on");
    expect_reason("a/runs/ln-pre-s1", "interrupted");
    expect_reason("a/runs/ln-post-s1", "interrupted");
}

static void make_ablation(void) {
    cr_assert(!mkdir("a", 0777) && !mkdir("a/driver", 0777) && !mkdir("a/runs", 0777));
}

/* A run of the grid that is stopped on its way; its log as far as it came. */
static char *stop_a_run(const char *norm) {
    char log[64];
    snprintf(log, sizeof log, "a/runs/%s-pre-s1/log.csv", norm);
    struct ending ending =
        train_interrupted(SIGTERM, log,
                          "%s text.txt --norm=%s --placement=pre --seed=1 --max-iters=20000 "
                          "--log-interval=100 --eval-iters=1 --out=a/runs/%s-pre-s1",
                          TINY, norm, norm);
    expect_status(&ending, 143);
    return file_text(log, NULL);
}

Test(ablate, an_unfinished_run_goes_on) {
    static const char *const command[] = {"ablate.sh",
                                          "--norm=ln,rms,none",
                                          "--placement=pre",
                                          "--seeds=1",
                                          "--jobs=1",
                                          "--out=a",
                                          "--",
                                          RUN,
                                          "--max-iters=20000",
                                          "--log-interval=100",
                                          "--eval-iters=1",
                                          NULL};
    make_ablation();
    const char *log = stop_a_run("ln");
    stop_a_run("rms");
    file_put("a/runs/rms-pre-s1/checkpoint.safetensors", "damaged", 7);
    release();
    hold();
    struct ending ending = process_end(script_start(command), 0);
    expect_status(&ending, 0);
    static const char *const begun[] = {"ln-pre-s1 ",  " --resume", "rms-pre-s1 ",  " --resume",
                                        "rms-pre-s1 ", " --out",    "none-pre-s1 ", " --out"};
    char *text = file_text("begun", NULL), *line;
    for (size_t i = 0; i < sizeof begun / sizeof *begun; i += 2) {
        cr_assert((line = strsep(&text, "\n")));
        cr_expect(!strncmp(line, begun[i], strlen(begun[i])) && strstr(line, begun[i + 1]),
                  "%s, not %s%s", line, begun[i], begun[i + 1]);
    }
    cr_expect(text && !*text);
    // what it had logged, with its times, is still there
    const char *second = strchr(log, '\n') + 1;
    size_t length = strchr(second, '\n') + 1 - log;
    cr_expect(!strncmp(file_text("a/runs/ln-pre-s1/log.csv", NULL), log, length));
    for (int i = 0; i < 3; i++) {
        char path[64];
        snprintf(path, sizeof path, "a/runs/%s-pre-s1", (const char *[]){"ln", "rms", "none"}[i]);
        expect_reason(path, "done");
        expect_part(file_text(strcat(path, "/log.csv"), NULL), "\n20000,");
    }
}

Test(ablate, a_run_that_went_on_and_failed_keeps_its_checkpoint) {
    make_ablation();
    file_put("a/grid.txt", "ln-pre-s1 --norm=ln\n", 20);
    cr_assert(!mkdir("a/runs/ln-pre-s1", 0777));
    file_put("a/runs/ln-pre-s1/checkpoint.safetensors", "hours of work", 13);
    file_put("a/runs/ln-pre-s1/log.csv", "step,seconds\n0,0.5\n100,3600.5\n200,72", 35);
    program_put("full", "#!/bin/bash\n"
                        "echo \"$*\" >>begun\n"
                        "sleep 0.1\n"
                        "echo >a/runs/ln-pre-s1/config.ini\n"
                        "echo 'train: the disk is full' >&2\n"
                        "exit 1\n");
    setenv("TRAIN", "./full", 1);
    const char *const run[] = {"ablate_run.sh", "--threads=1", "a", "1", NULL};
    struct ending ending = process_end(script_start(run), 0);
    expect_status(&ending, 1);
    cr_expect_str_eq(file_text("begun", NULL), "--quiet --threads=1 --resume=a/runs/ln-pre-s1\n");
    expect_part(file_text("a/driver/ln-pre-s1.out", NULL), "the disk is full");
    cr_expect_str_eq(file_text("a/runs/ln-pre-s1/checkpoint.safetensors", NULL), "hours of work");
    // with what it took before it was stopped
    cr_expect(!strncmp(file_text("a/driver/ln-pre-s1.status", NULL), "ended 1 360", 11));
}

Test(ablate, one_diverges) {
    struct ending ending =
        ABLATE("--norm=none", "--placement=pre", "--learning-rate=1000,1e-3", "--seed=2", "--out=a",
               "--jobs=1", "--", RUN, "--grad-clip=0", "--schedule=constant", "--max-iters=1000");
    expect_status(&ending, 0);
    expect_part(ending.err, "ablate: 1/2 none-pre-learning-rate=1000-s2: diverged at step ");
    expect_reason("a/runs/none-pre-learning-rate=1000-s2", "diverged");
    expect_reason("a/runs/none-pre-learning-rate=1e-3-s2", "done");
    expect_part(ending.out, "| 1000 |  |  |  |  | 0 | 1 | 0 | ");
    expect_part(file_text("a/results.csv", NULL), "-s2,1000,2,3,diverged,");
}

Test(ablate, one_fails) {
    struct ending ending =
        ABLATE("--list", "--norm=ln", "--placement=pre", "--seeds=2", "--out=a", "--", RUN);
    expect_status(&ending, 0);
    file_put("a/runs/ln-pre-s1", "", 0); // where its folder should be
    ending = ABLATE("--norm=ln", "--placement=pre", "--seeds=2", "--out=a", "--", RUN);
    expect_status(&ending, 1);
    expect_part(ending.err, "ablate: ln-pre-s1: failed with exit status 1: train: run: "
                            "a/runs/ln-pre-s1: cannot be created: ");
    expect_reason("a/runs/ln-pre-s2", "done");
    expect_part(ending.out, "| ln | pre | ");
    expect_part(file_text("a/results.csv", NULL), "\nln-pre-s1,ln,pre,1,1,failed,");
}

Test(ablate, a_second_driver_is_refused) {
    hold();
    struct process driver = START("--norm=ln", "--seeds=1", "--out=a", "--", RUN);
    wait_for("begun", 1);
    struct ending ending = ABLATE("--norm=ln", "--seeds=1", "--out=a", "--", RUN);
    expect_status(&ending, 1);
    expect_part(ending.err, "ablate: a: another ablate.sh is at work there (process ");
    release();
    ending = process_end(driver, 0);
    expect_status(&ending, 0);
    cr_expect(lines_of("begun") == 2);
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
    ending = ABLATE("--out=a", "--norm=layernorm", "--placement=pre", "--seeds=1", "--", RUN);
    expect_no_start(&ending, STATUS_USAGE, "ablate: layernorm-pre would train as ln-pre");
}

Test(ablate, wrong_usage) {
    static const char *const cases[][5] = {
        {"--seeds=0", NULL, "ablate: --seeds=0: must be"},
        {"--seeds=1,x", NULL, "ablate: --seeds=1,x: 'x' is no whole number"},
        {"--norm=ln,bn,ln", NULL, "ablate: ln,bn,ln: 'ln' is there twice"},
        {"--jobs=none", NULL, "ablate: --jobs=none: must be"},
        {"--preln", NULL, "ablate: --preln: needs values"},
        {"text.txt", NULL, "ablate: text.txt: what every run gets stands behind --"},
        {"--", "--norm=ln", "ablate: --norm: is in the grid and belongs in front of --"},
        {"--", "--seed=2", "ablate: --seed: belongs in front of --"},
        {"--", "-", "ablate: -: standard input cannot feed several runs"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ending ending = ABLATE("--out=a", cases[i][0], cases[i][1]);
        expect_no_start(&ending, STATUS_USAGE, cases[i][2]);
    }
}

Test(ablate, a_folder_holds_one_grid_and_can_be_extended) {
    release();
    hold();
    struct ending ending =
        ABLATE("--norm=ln", "--placement=pre", "--seeds=1", "--out=a", "--", RUN);
    expect_status(&ending, 0);
    ending =
        ABLATE("--norm=ln", "--placement=pre", "--seeds=1", "--out=a", "--", "--bias=off", RUN);
    expect_status(&ending, STATUS_USAGE);
    expect_part(ending.err, "ablate: a: holds another grid: --norm --placement -- --n-layer=1 ");
    ending = ABLATE("--norm=rms,ln", "--placement=pre", "--seeds=2", "--out=a", "--", RUN);
    expect_status(&ending, 0);
    cr_expect(lines_of("begun") == 4, "not each run once:\n%s", file_text("begun", NULL));
    cr_expect(lines_of("a/grid.txt") == 4);
    expect_part(file_text("a/grid.txt", NULL), "ln-pre-s1 --norm=ln "); // still the first
    cr_expect(!strncmp(file_text("a/grid.txt", NULL), "ln-pre-s1 ", 10));
}

Test(ablate, a_slurm_task_does_its_line) {
    release();
    hold();
    struct ending ending = ABLATE("--list", "--norm=ln", "--seeds=2", "--out=a", "--", RUN);
    expect_status(&ending, 0);
    cr_assert(!symlink(getenv("SCRIPTS"), "scripts"));
    const char *const task[] = {"ablate.slurm", "a", NULL};
    setenv("SLURM_ARRAY_TASK_ID", "3", 1);
    for (int time = 0; time < 2; time++) { // as if it were requeued after its end
        ending = process_end(script_start(task), 0);
        expect_status(&ending, 0);
        expect_reason("a/runs/ln-pre-s2", "done");
        cr_expect(files_in("a/runs") == 1 && lines_of("begun") == 1);
    }
    setenv("SLURM_ARRAY_TASK_ID", "5", 1);
    ending = process_end(script_start(task), 0);
    expect_status(&ending, STATUS_USAGE);
    expect_part(ending.err, "ablate: a/grid.txt: has no line '5'");
}
