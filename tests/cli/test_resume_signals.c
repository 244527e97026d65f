/* Runs that a signal stops: interrupted, terminated, killed at any moment. */
#include "data/die.h"
#include "tests/cli/resume.h"
#include "tests/command.h"
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void check_signal(int number, int status) {
    expect_done(train(LONG "--out=whole text.txt"));
    struct ending ending = train_interrupted(number, "out/log.csv", LONG "--out=out text.txt");
    cr_expect(ending.status == status, "status %d: %s", ending.status, ending.err);
    expect_done(train("--quiet --resume=out"));
    resume_expect_same("whole", "out");
}

Test(resume, after_an_interrupt) {
    check_signal(SIGINT, 130);
}

Test(resume, after_a_termination) {
    check_signal(SIGTERM, 143);
}

static long microseconds_of(struct timespec from, struct timespec to) {
    return (to.tv_sec - from.tv_sec) * 1000000 + (to.tv_nsec - from.tv_nsec) / 1000;
}

/* What a person or a job queue would do: resume if there is something to resume, else start. */
static void resume_or_start(const char *folder) {
    char config[64];
    snprintf(config, sizeof config, "%s/config.ini", folder);
    expect_done(file_there(config) ? train("--quiet --resume=%s", folder)
                                   : train(LONG "--out=%s text.txt", folder));
}

Test(resume, after_a_kill_at_fifty_moments, .timeout = 300) {
    enum { KILLS = 50 };
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    expect_done(train(LONG "--out=whole text.txt"));
    clock_gettime(CLOCK_MONOTONIC, &end);
    long whole = microseconds_of(begin, end);
    int killed = 0, early = 0;
    for (int i = 0; i < KILLS; i++) {
        char folder[16], file[64];
        snprintf(folder, sizeof folder, "kill%d", i);
        struct process process = train_start(LONG "--out=%s text.txt", folder);
        pause_for(whole * (2 * i + 1) /
                  (2 * KILLS)); // the moments are spread over the run, and the run's pace varies
        killed += process_end(process, SIGKILL).status == 128 + SIGKILL;
        snprintf(file, sizeof file, "%s/checkpoint.safetensors", folder);
        early += !file_there(file);
        resume_or_start(folder);
        resume_expect_same("whole", folder);
    }
    cr_expect(killed > KILLS / 4 && early < KILLS, "%d killed, %d without checkpoint", killed,
              early);
}

Test(resume, without_checkpoints_only_an_interrupt_leaves_one) {
    expect_done(train(LIVELY "--checkpoint-interval=0 --out=out text.txt"));
    cr_expect(!file_there("out/checkpoint.safetensors") && file_there("out/model.safetensors"));
    struct ending refused = train("--resume=out --max-iters=8");
    expect_refusal(
        &refused, STATUS_MACHINE,
        "--resume=out: the run has ended and kept no checkpoint (see --checkpoint-interval)");
    struct ending ending = train_interrupted(
        SIGTERM, "long/log.csv",
        LONG "--max-iters=1000000000 --checkpoint-interval=0 --out=long text.txt");
    cr_expect(ending.status == 143 && file_there("long/checkpoint.safetensors"));
}

/* An evaluation that takes hours. */
Test(resume, an_interrupt_in_the_last_evaluation) {
    struct process process = train_start(
        TINY "--quiet --max-iters=0 --eval-iters=0 --grammar-chars=30000000 --batch-size=1 "
             "--checkpoint-interval=0 --out=out");
    process_wait(process, "out/model.safetensors", 1);
    struct ending ending = process_end(process, SIGINT);
    cr_expect(ending.status == 130, "status %d: %s", ending.status, ending.err);
    cr_expect(file_there("out/checkpoint.safetensors"), "there is no checkpoint");
}

Test(resume, a_second_signal_ends_at_once) {
    struct process process =
        train_start(LIVELY "--grad-accum=1000000 --max-iters=1 --eval-iters=1 --out=out text.txt");
    process_wait(process, "out/config.ini", 1);
    pause_for(200000);
    kill(process.id, SIGINT);
    pause_for(100000);
    struct ending ending = process_end(process, SIGINT);
    cr_expect(ending.status == 130 && !file_there("out/summary.json"), "status %d", ending.status);
}

/* As timeout(1) does: one signal to the process and one to its group. The run still ends with its
   update saved. */
Test(resume, a_second_sigterm_changes_nothing) {
    struct process process =
        train_start(LIVELY "--grad-accum=2000 --max-iters=1000000 --eval-iters=1 --sample=0 "
                           "--checkpoint-interval=0 --out=out text.txt");
    process_wait(process, "out/config.ini", 1);
    pause_for(200000);
    kill(process.id, SIGTERM);
    pause_for(1000);
    struct ending ending = process_end(process, SIGTERM);
    cr_expect(ending.status == 143, "status %d", ending.status);
    cr_expect(file_there("out/summary.json") && file_there("out/checkpoint.safetensors"));
}
