/* Ablations that do not end well: drivers and runs that are killed or interrupted, or that diverge
   or fail. */
#define _GNU_SOURCE // setenv
#include "data/die.h"
#include "tests/command.h"
#include "tests/scripts/held.h"
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Kills the driver while two of four runs are under way, and gives the command again. The runs
   continue only after the second driver has started, which must wait for them. */
static void check_killed_driver(void) {
    static const char *const command[] = {
        "ablate.sh", "--norm=ln,rms", "--seeds=2", "--placement=pre",
        "--jobs=2",  "--out=a",       "--",        RUN,
        NULL};
    static const char status[] = "a/driver/ln-pre-s1.status"; // which a driver removes first
    held_start();
    struct process driver = script_start(command);
    held_wait("begun", 2);
    cr_assert(file_there(status));
    process_end(driver, SIGKILL);
    driver = script_start(command);
    for (int tries = 0; tries < 1500 && file_there(status); tries++) pause_for(20000);
    pause_for(500000);
    held_release();
    struct ending ending = process_end(driver, 0);
    expect_status(&ending, 0);
    expect_part(ending.out, "| rms | ");
    cr_expect(held_lines("begun") == 4, "some run was not done once:\n%s",
              file_text("begun", NULL));
    cr_expect(held_lines("a/results.csv") == 5);
    ending = process_end(script_start(command), 0);
    expect_status(&ending, 0);
    cr_expect(held_lines("begun") == 4, "done again:\n%s", file_text("begun", NULL));
}

Test(ablate, the_driver_killed) {
    check_killed_driver();
}

Test(ablate, the_driver_killed_without_gnu_parallel) {
    hide_gnu_parallel();
    check_killed_driver();
}

/* ./train's hint "--help=all lists them" works for the tool that called it. */
Test(ablate, help_on_an_option_of_train) {
    static const char *const tools[] = {"ablate.sh", "demo.sh"};
    for (size_t i = 0; i < 2; i++) {
        const char *const command[] = {tools[i], "--help=norm-eps", NULL};
        struct ending ending = process_end(script_start(command), 0);
        expect_status(&ending, 0);
        expect_part(ending.out, "--norm-eps=X");
    }
}

static void check_killed_run(void) {
    static const char *const command[] = {
        "ablate.sh", "--norm=ln,rms", "--seeds=2", "--placement=pre",
        "--jobs=2",  "--out=a",       "--",        RUN,
        NULL};
    held_start();
    struct process driver = script_start(command);
    held_wait("begun", 2);
    cr_assert(!kill(held_process("ln-pre-s1"), SIGKILL));
    held_release();
    struct ending ending = process_end(driver, 0);
    expect_status(&ending, 1);
    expect_part(ending.err, "ablate: 1 of 4 runs failed; the same command tries them again:\n"
                            "ablate: ln-pre-s1: killed by signal 9\n");
    expect_part(file_text("a/results.csv", NULL), "\nln-pre-s1,ln,1,137,failed,");
    expect_exit_reason("a/runs/rms-pre-s2", "done");
    cr_expect(held_lines("begun") == 4);
    ending = process_end(script_start(command), 0);
    expect_status(&ending, 0);
    expect_exit_reason("a/runs/ln-pre-s1", "done");
    cr_expect(held_lines("begun") == 5, "other runs were done again:\n%s",
              file_text("begun", NULL));
}

Test(ablate, a_run_killed) {
    check_killed_run();
}

Test(ablate, a_run_killed_without_gnu_parallel) {
    hide_gnu_parallel();
    check_killed_run();
}

Test(ablate, an_interrupt_lets_runs_save) {
    struct process driver =
        START("--norm=ln", "--placement=pre,post", "--seeds=1", "--out=a", "--jobs=2", "--", RUN,
              "--max-iters=1000000", "--log-interval=1000000");
    held_wait("a/runs/ln-pre-s1/log.csv", 2);
    held_wait("a/runs/ln-post-s1/log.csv", 2);
    struct ending ending = process_end(driver, SIGTERM);
    expect_status(&ending, 143);
    expect_part(ending.err, "interrupted: 0 of 2 runs have ended; the same command continues");
    expect_exit_reason("a/runs/ln-pre-s1", "interrupted");
    expect_exit_reason("a/runs/ln-post-s1", "interrupted");
}

static void make_ablation(void) {
    cr_assert(!mkdir("a", 0777) && !mkdir("a/driver", 0777) && !mkdir("a/runs", 0777));
}

/* Stops a run of the grid early; returns its log so far. */
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
    held_release();
    held_start();
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
        expect_exit_reason(path, "done");
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
    const char *const run[] = {"ablate/run.sh", "--threads=1", "a", "1", NULL};
    struct ending ending = process_end(script_start(run), 0);
    expect_status(&ending, 1);
    cr_expect_str_eq(file_text("begun", NULL), "--quiet --threads=1 --resume=a/runs/ln-pre-s1\n");
    expect_part(file_text("a/driver/ln-pre-s1.out", NULL), "the disk is full");
    cr_expect_str_eq(file_text("a/runs/ln-pre-s1/checkpoint.safetensors", NULL), "hours of work");
    // including the time before it was stopped
    cr_expect(!strncmp(file_text("a/driver/ln-pre-s1.status", NULL), "ended 1 360", 11));
}

Test(ablate, one_diverges) {
    struct ending ending =
        ABLATE("--norm=none", "--placement=pre", "--learning-rate=1000,1e-3", "--seed=2", "--out=a",
               "--jobs=1", "--", RUN, "--grad-clip=0", "--schedule=constant", "--max-iters=1000");
    expect_status(&ending, 0);
    expect_part(ending.err, "ablate: 1/2 none-pre-learning-rate=1000-s2: diverged at step ");
    expect_exit_reason("a/runs/none-pre-learning-rate=1000-s2", "diverged");
    expect_exit_reason("a/runs/none-pre-learning-rate=1e-3-s2", "done");
    expect_part(ending.out, "| 1000 |  |  |  |  | 0 | 0 | 1 | 0 | ");
    expect_part(file_text("a/results.csv", NULL), "-s2,1000,2,3,diverged,");
}

Test(ablate, one_fails) {
    struct ending ending =
        ABLATE("--list", "--norm=ln", "--placement=pre", "--seeds=2", "--out=a", "--", RUN);
    expect_status(&ending, 0);
    file_put("a/runs/ln-pre-s1", "", 0); // in place of its folder
    ending = ABLATE("--norm=ln", "--placement=pre", "--seeds=2", "--out=a", "--", RUN);
    expect_status(&ending, 1);
    expect_part(ending.err, "ablate: ln-pre-s1: failed with exit status 1: train: run: "
                            "a/runs/ln-pre-s1: cannot be created: ");
    expect_exit_reason("a/runs/ln-pre-s2", "done");
    expect_part(ending.out, "| ln | pre | ");
    expect_part(file_text("a/results.csv", NULL), "\nln-pre-s1,ln,pre,1,1,failed,");
}

Test(ablate, a_second_driver_is_refused) {
    held_start();
    struct process driver =
        START("--norm=ln", "--placement=pre,post", "--seeds=1", "--out=a", "--", RUN);
    held_wait("begun", 1);
    struct ending ending =
        ABLATE("--norm=ln", "--placement=pre,post", "--seeds=1", "--out=a", "--", RUN);
    expect_status(&ending, 1);
    expect_part(ending.err, "ablate: a: another ablate.sh is running there (process ");
    held_release();
    ending = process_end(driver, 0);
    expect_status(&ending, 0);
    cr_expect(held_lines("begun") == 2);
}
