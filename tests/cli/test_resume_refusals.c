/* What --resume refuses and what it allows: changed options, damaged and missing files, a second
   writer, a full disk. And runs that a signal stops: interrupted, terminated, killed at any
   moment. */
#include "data/clock.h"
#include "data/die.h"
#include "tests/command.h"
#include "tests/runs.h"
#include <criterion/criterion.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

Test(resume, what_contradicts_the_run_is_refused) {
    static const struct {
        const char *option, *stored, *said;
    } changes[] = {{"--norm=bn", "--norm=ln", NULL},
                   {"--postln", "--placement=pre", "--placement=post"},
                   {"--n-embd=16", "--n-embd=8", NULL},
                   {"--seed=2", "--seed=1", NULL},
                   {"--learning-rate=0.02", "--learning-rate=0.01", NULL},
                   {"--learning-rate=0.0001", "--learning-rate=0.01", NULL}, // below --min-lr
                   {"--n-head=3", "--n-head=2", NULL},                       // of 8 channels
                   {"--min-lr=0.0001", "--min-lr=0.001", NULL},
                   {"--dropout=0", "--dropout=0.2", NULL},
                   {"--batch-size=3", "--batch-size=2", NULL},
                   {"--optimizer=muon", "--optimizer=adamw", NULL},
                   {"--level=byte", "--level=char", NULL},
                   {"--eval-train", "--eval-train=off", "--eval-train=on"},
                   {"--keep-best", "--keep-best=off", "--keep-best=on"},
                   {"--probe-interval=2", "--probe-interval=0", NULL},
                   {"--sample-interval=2", "--sample-interval=0", NULL},
                   {"--lr-decay-iters=auto", "--lr-decay-iters=12", "--lr-decay-iters=4"}};
    output_of(LIVELY "--out=out text.txt");
    char *log = file_text("out/log.csv", NULL);
    for (int there = 1; there >= 0; there--) { // with a checkpoint, and with config.ini alone
        for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
            const char *option = changes[i].option, *as = changes[i].said;
            const char *said =
                train_refuses(STATUS_USAGE, as ? as : option, "--resume=out %s", option);
            expect_part(said, changes[i].stored);
            expect_part(said, there ? "out/checkpoint.safetensors" : "out/config.ini");
        }
        if (there) cr_assert(!rename("out/checkpoint.safetensors", "away"));
        if (there) cr_assert(!remove("out/model.safetensors"));
    }
    cr_assert(!rename("away", "out/checkpoint.safetensors"));
    corpus_put_tiny("other.txt", 1999);
    train_refuses(STATUS_USAGE, "other.txt: has checksum ", "--resume=out other.txt");
    cr_expect_str_eq(file_text("out/log.csv", NULL), log, "a refusal changed the log");
}

Test(resume, what_may_change) {
    output_of(LIVELY "--out=out text.txt");
    cr_assert(!rename("text.txt", "moved.txt"));
    output_of("--quiet --resume=out --max-iters=9 --log-interval=1 --eval-interval=2 "
              "--eval-iters=1 --checkpoint-interval=3 --threads=3 --sample=5 --top-k=2 "
              "--temperature=0.5 --norm=ln --n-embd=8 moved.txt");
    expect_member("out", "steps", "9");
    cr_expect(strlen(file_text("out/sample.txt", NULL)) == 5);
    cr_expect(strstr(file_text("out/config.ini", NULL), "max-iters = 9\n"));
    cr_expect(strstr(file_text("out/config.ini", NULL), "corpus = \"moved.txt\"\n"));
}

/* A run that was resumed with other options and killed before its next checkpoint continues with
   these options. */
Test(resume, what_has_changed_stays_so) {
    size_t bytes;
    output_of(LIVELY "--max-iters=9 --log-interval=1 --out=whole text.txt");
    output_of(LIVELY "--max-iters=4 --out=out text.txt");
    char *checkpoint = file_text("out/checkpoint.safetensors", &bytes);
    cr_assert(!rename("text.txt", "moved.txt"));
    output_of("--quiet --max-iters=9 --log-interval=1 --resume=out moved.txt");
    file_put("out/checkpoint.safetensors", checkpoint, bytes); // as the kill would have left it
    cr_assert(!remove("out/model.safetensors") && !remove("out/summary.json"));
    output_of("--quiet --resume=out");
    expect_member("out", "steps", "9");
    cr_assert(!rename("moved.txt", "text.txt"));
    output_of("--quiet --resume=out text.txt");
    expect_same_file("whole", "out", "model.safetensors");
    expect_same_file("whole", "out", "config.ini");
    file_put("out/config.ini", "norm = rms\n", 11); // edited by hand
    train_refuses(STATUS_USAGE,
                  "--norm=rms: contradicts --norm=ln of out/checkpoint.safetensors (was config",
                  "--resume=out");
    cr_assert(!remove("out/config.ini"));
    output_of("--quiet --resume=out");
    expect_same_file("whole", "out", "config.ini");
}

Test(resume, where_there_is_nothing_to_go_on_with) {
    train_refuses(STATUS_MACHINE, "--resume=nowhere: No such file or directory",
                  "--resume=nowhere");
    cr_assert(!mkdir("empty", 0777));
    train_refuses(STATUS_MACHINE, "--resume=empty: is not the folder of a run", "--resume=empty");
    train_refuses(STATUS_MACHINE, "--resume=text.txt: is not the folder of a run",
                  "--resume=text.txt");
    train_refuses(STATUS_USAGE, "leave out --out and --force", "--resume=empty --out=other");
    cr_expect(files_in(".") == 2 && files_in("empty") == 0);
    cr_assert(!mkdir("looped", 0777) && !symlink("config.ini", "looped/config.ini"));
    train_refuses(STATUS_MACHINE, "looped/config.ini: Too many levels of symbolic links",
                  "--resume=looped");
}

Test(resume, a_log_that_is_none_is_left_as_it_is) {
    output_of(LIVELY "--out=out text.txt");
    char *log = file_text("out/log.csv", NULL);
    file_put("out/log.csv", "not a log\n", 10);
    train_refuses(STATUS_MACHINE, "out/log.csv:1: is not a row of a run's log",
                  "--resume=out --max-iters=8");
    char *row = say("%.*s0,0.0,%05000d\n", (int)strcspn(log, "\n") + 1, log, 1);
    file_put("out/log.csv", row, strlen(row));
    train_refuses(STATUS_MACHINE, "out/log.csv:2: is not a row of a run's log",
                  "--resume=out --max-iters=8");
    file_put("out/log.csv", log, strlen(log));
    output_of("--quiet --resume=out --max-iters=8");
}

/* Remembers the folder out/, and fails unless it still is what it was then. */
static void remember(void) {
    expect_done(bash("rm -rf was && cp -r out was"));
}

static void expect_as_remembered(const char *after) {
    struct ending ending = bash("diff -rq was out");
    cr_expect(!ending.status, "after %s: %s", after, ending.out);
}

/* The run has ended, so that it has a model, a summary, a sample and a last row to lose. */
Test(resume, a_refusal_removes_nothing) {
    static const char *const faults[][2] = {
        {"rm out/best.safetensors && mkdir out/best.safetensors",
         "run: out/best.safetensors: is not a regular file"},
        {"mkdir out/summary.json.tmp", "run: out/summary.json.tmp: is not a regular file"},
        {"echo log.csv > out/log.crc32", "run: out/log.crc32: is damaged"},
        {"echo 'no row' >> out/probes.csv", "run: out/probes.csv:"},
        {"rm out/samples.txt && mkdir out/samples.txt", "out/samples.txt: "},
        {"cp damaged out/checkpoint.safetensors",
         "out/checkpoint.safetensors: best.lm_head.weight: holds nan or infinity"}};
    output_of(WATCHED "--max-iters=8 --head=untied --out=finished text.txt");
    edited_load("finished/checkpoint.safetensors");
    *stored_floats(edited_find("best.lm_head.weight")) = NAN;
    edited_save("damaged");
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        expect_done(bash(say("rm -rf out && cp -r finished out && %s", faults[i][0])));
        remember();
        train_refuses(STATUS_MACHINE, faults[i][1], "--resume=out --max-iters=12");
        expect_as_remembered(faults[i][0]);
        if (i >= 2) continue; // what follows is no fault of a run that is replaced
        train_refuses(STATUS_MACHINE, faults[i][1], TINY "--force --out=out text.txt");
        expect_as_remembered("--force");
    }
}

/* A run of hundreds of milliseconds that saves a checkpoint often. */
#define LONG_RUN                                                                                   \
    TINY "--quiet --norm=bn --dropout=0.1 --max-iters=1500 --warmup-iters=10 --eval-interval=500 " \
         "--eval-iters=3 --log-interval=7 --checkpoint-interval=60 --sample=20 "

Test(resume, one_writer_at_a_time) {
    output_of(LIVELY "--out=out text.txt");
    char *log = file_text("out/log.csv", NULL);
    struct process first =
        train_start(LONG_RUN "--max-iters=1000000000 --checkpoint-interval=0 --out=long text.txt");
    process_wait(first, "long/log.csv", 2);
    train_refuses(STATUS_USAGE, "long: another process is writing this run", "--resume=long");
    train_refuses(STATUS_USAGE, "long: another process is writing this run",
                  LIVELY "--force --out=long text.txt");
    process_end(first, SIGKILL);
    int lock = open("out/log.csv", O_RDWR);
    cr_assert(lock >= 0 && !flock(lock, LOCK_EX));
    train_refuses(STATUS_USAGE, "out: another process is writing this run", "--resume=out");
    close(lock);
    cr_expect_str_eq(file_text("out/log.csv", NULL), log);
    output_of("--quiet --resume=out");
    output_of("--quiet --resume=long --max-iters=20"); // its lock died with it
}

#define DIVERGING TINY "--quiet --norm=none --learning-rate=1000 --grad-clip=0 --schedule=constant "

Test(resume, divergence_keeps_the_last_good_checkpoint) {
    const char *first =
        train_refuses(STATUS_DIVERGED, "train: diverged at step ",
                      DIVERGING "--max-iters=1000 --checkpoint-interval=1 --out=out text.txt");
    expect_part(first, "first bad tensor: ");
    expect_member("out", "exit_reason", "diverged");
    struct log log = log_of("out");
    const char **bad = log.cell[log.rows - 1];
    expect_part(first, say("train: diverged at step %s:", bad[STEP]));
    cr_expect(!isfinite(atof(bad[TRAIN_LOSS])) || !isfinite(atof(bad[GRAD_NORM])),
              "the bad row is not in the log");
    cr_expect(file_there("out/checkpoint.safetensors") && !file_there("out/summary.json.tmp"));
    train_refuses(STATUS_DIVERGED, first + strlen("train: "), "--quiet --resume=out");
    cr_expect(log_of("out").rows == log.rows && !file_there("out/model.safetensors"));
    expect_done(train("--generate=out --num-chars=10")); // its weights are numbers
    // ending at the last good step does not help: a moment has overflowed
    train_refuses(STATUS_DIVERGED, "diverged at step",
                  DIVERGING "--max-iters=%s --eval-interval=1000 --out=end text.txt", bad[STEP]);
    cr_expect(!file_there("end/model.safetensors"));
}

/* Writing fails at config.ini, which a long corpus name makes long, and at the checkpoint. */
Test(resume, a_full_disk_or_an_unwritable_folder) {
    output_of(LIVELY "--out=out text.txt");
    size_t bytes, bytes_after;
    char *checkpoint = file_text("out/checkpoint.safetensors", &bytes), long_name[2100] = "";
    for (int i = 0; i < 1000; i++) strcat(long_name, "./");
    static const char *const names[] = {"config.ini", "checkpoint.safetensors"};
    for (int i = 0; i < 2; i++) {
        remember();
        expect_refusal(train_in((struct surroundings){.file_limit = i ? 5000 : 2000},
                                "--quiet --resume=out --max-iters=8 --corpus=%stext.txt",
                                i ? "" : long_name),
                       STATUS_MACHINE, say("%s: File too large", names[i]));
        char *after = file_text("out/checkpoint.safetensors", &bytes_after);
        cr_expect(bytes_after == bytes && !memcmp(after, checkpoint, bytes),
                  "the checkpoint has changed");
        cr_expect(!file_there("out/checkpoint.safetensors.tmp"));
        if (!i) expect_as_remembered("a full disk at the start");
    }
    if (getuid()) { // root may write everywhere
        cr_assert(!chmod("out", 0555));
        train_refuses(STATUS_MACHINE, "Permission denied", "--quiet --resume=out --max-iters=8");
        cr_assert(!chmod("out", 0777));
    }
    output_of("--quiet --resume=out --max-iters=8");
}

Test(resume, after_an_interrupt_a_termination_or_a_hangup) {
    // long enough that the signal comes first on a busy machine
    output_of(LONG_RUN "--grad-accum=4 --force --out=whole text.txt");
    static const int numbers[] = {SIGHUP, SIGINT, SIGTERM};
    for (int i = 0; i < 3; i++) {
        const int number = numbers[i];
        struct ending ending = train_interrupted(
            number, "out/log.csv", LONG_RUN "--grad-accum=4 --force --out=out text.txt");
        cr_expect(ending.status == 128 + number, "status %d: %s", ending.status, ending.err);
        expect_member("out", "exit_reason", "interrupted");
        cr_expect(files_in("out") == 6, "%zu files", files_in("out"));
        struct log log = log_of("out");
        const char **last = log.cell[log.rows - 1];
        cr_expect(!*last[TRAIN_LOSS], "%s", last[TRAIN_LOSS]);
        expect_member("out", "steps", last[STEP]);
        output_of("--quiet --resume=out");
        expect_same_folder("whole", "out");
        cr_assert(!remove("out/log.csv")); // for which the next one waits
    }
}

/* Each run is killed at another moment of the time that a whole one takes; every fifth one is only
   terminated. It is resumed if it has a folder, else started again. */
Test(resume, after_a_kill_at_sixty_moments, .timeout = 300) {
    enum { TIMES = 60 };
    static const char options[] = LONG_RUN "--keep-best --eval-interval=20 --force";
    const double begin = clock_now();
    output_of("%s --out=whole text.txt", options);
    const double seconds = clock_now() - begin;
    int killed = 0, early = 0;
    for (int i = 0; i < TIMES; i++) {
        struct process process = train_start("%s --out=out text.txt", options);
        // the moments are spread over the run, whose pace varies
        pause_for((long)(1e6 * seconds * (2 * i + 1) / (2 * TIMES)));
        killed += process_end(process, i % 5 ? SIGKILL : SIGTERM).status > 128;
        early += !file_there("out/checkpoint.safetensors");
        if (file_there("out/config.ini"))
            output_of("--quiet --resume=out");
        else
            output_of("%s --out=out text.txt", options);
        expect_same_folder("whole", "out");
    }
    cr_expect(killed > TIMES / 10 && early < TIMES, "%d killed, %d early", killed, early);
}

Test(resume, without_checkpoints_only_an_interrupt_leaves_one) {
    output_of(LIVELY "--checkpoint-interval=0 --out=out text.txt");
    cr_expect(!file_there("out/checkpoint.safetensors") && file_there("out/model.safetensors"));
    train_refuses(
        STATUS_MACHINE,
        "--resume=out: the run has ended and kept no checkpoint (see --checkpoint-interval)",
        "--resume=out --max-iters=8");
    struct ending ending = train_interrupted(
        SIGTERM, "long/log.csv",
        LONG_RUN "--max-iters=1000000000 --checkpoint-interval=0 --out=long text.txt");
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

/* Sends a run in its first update this signal, and again after a pause. */
static int status_after_two(int number, int accum, long pause) {
    struct process process =
        train_start(LIVELY "--grad-accum=%d --max-iters=1000000 --eval-iters=1 --sample=0 "
                           "--checkpoint-interval=0 --out=out text.txt",
                    accum);
    process_wait(process, "out/config.ini", 1);
    pause_for(200000);
    kill(process.id, number);
    pause_for(pause);
    return process_end(process, number).status;
}

Test(resume, a_second_signal_ends_at_once) {
    cr_expect_eq(status_after_two(SIGINT, 1000000, 100000), 130);
    cr_expect(!file_there("out/summary.json"));
}

/* As timeout(1) does: one signal to the process and one to its group. The run still ends with its
   update saved. */
Test(resume, a_second_sigterm_changes_nothing) {
    cr_expect_eq(status_after_two(SIGTERM, 2000, 1000), 143);
    cr_expect(file_there("out/summary.json") && file_there("out/checkpoint.safetensors"));
}

/* As a shell starts jobs of a script in the background, and nohup any program. */
Test(resume, a_signal_that_is_ignored_by_inheritance_stays_so) {
    output_of(LONG_RUN "--force --out=whole text.txt");
    struct process process =
        bash_start("trap '' INT HUP; exec \"$TRAIN\" " LONG_RUN "--out=out text.txt");
    process_wait(process, "out/log.csv", 2);
    kill(process.id, SIGHUP);
    expect_done(process_end(process, SIGINT));
    expect_same_folder("whole", "out");

    process = bash_start("trap '' INT; exec \"$TRAIN\" " LIVELY
                         "--grad-accum=20000 --max-iters=1000000 --out=long text.txt");
    process_wait(process, "long/log.csv", 2); // it is in its second update
    kill(process.id, SIGTERM);
    pause_for(50000);
    cr_expect(process_end(process, SIGINT).status == 143);
    expect_member("long", "exit_reason", "interrupted");
}
