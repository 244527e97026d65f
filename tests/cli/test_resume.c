/* Runs that stop, however, and go on: to the bit as if they had not stopped. */
#include "data/die.h"
#include "model/model.h"
#include "tests/command.h"
#include "tests/runs.h"
#include "tests/support.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void enter(void) {
    folder_enter();
    corpus_put_tiny("text.txt", 2000);
}

TestSuite(resume, .init = enter, .fini = folder_leave);

/* A run in which everything has a state: dropout, accumulation, running statistics and the end of
   their warm-up, a schedule, rows and evaluations at other steps than checkpoints. */
#define LIVELY                                                                                     \
    TINY "--quiet --dropout=0.2 --grad-accum=2 --warmup-iters=3 --lr-decay-iters=12 "              \
         "--learning-rate=0.01 --eval-interval=4 --eval-iters=3 --log-interval=2 --sample=20 "     \
         "--pn-warmup=5 --prepbn-steps=20 "

#define PROBED "--probe-interval=3 "

static void expect_done(struct ending ending) {
    cr_assert(ending.status == 0, "status %d: %s", ending.status, ending.err);
}

/* The same files to the last bit, and the same log but for its times. */
static void expect_same_run(const char *one, const char *other) {
    expect_same_log(one, other);
    expect_same_file(one, other, "config.ini");
    expect_same_file(one, other, "model.safetensors");
    expect_same_file(one, other, "checkpoint.safetensors");
    expect_same_file(one, other, "sample.txt");
    char path[64];
    snprintf(path, sizeof path, "%s/probes.csv", one);
    size_t probed = file_there(path);
    if (probed) expect_same_file(one, other, "probes.csv");
    cr_expect(files_in(one) == 7 + probed && files_in(other) == 7 + probed,
              "temporary files are left");
}

static void check_every_step(const char *model) {
    enum { STEPS = 12 };
    char stopped[16];
    expect_done(train(LIVELY PROBED "%s --max-iters=%d --out=whole text.txt", model, STEPS));
    for (int step = 0; step < STEPS; step += step < 4 ? 1 : 3) {
        snprintf(stopped, sizeof stopped, "at%d", step);
        expect_done(train(LIVELY PROBED "%s --threads=2 --max-iters=%d --out=%s text.txt", model,
                          step, stopped));
        expect_done(
            train("--quiet --threads=%d --max-iters=%d --resume=%s", 1 + step % 3, STEPS, stopped));
        expect_same_run("whole", stopped);
    }
}

ParameterizedTestParameters(resume, from_every_step) {
    return every_row();
}

ParameterizedTest(struct pair *pair, resume, from_every_step) {
    check_every_step(pair_options(pair));
}

Test(resume, batchnorm_by_position) {
    check_every_step("--norm=bn --bn-axis=batch");
}

Test(resume, regularized_batchnorm) {
    check_every_step("--norm=bn --rbn-mean=0.1 --rbn-var=0.1");
}

Test(resume, from_every_checkpoint_of_one_run) {
    expect_done(
        train(LIVELY "--norm=bn --max-iters=9 --checkpoint-interval=2 --out=whole text.txt"));
    expect_done(
        train(LIVELY "--norm=bn --max-iters=1 --checkpoint-interval=2 --out=parts text.txt"));
    for (int step = 2; step <= 9; step++)
        expect_done(train("--quiet --max-iters=%d --resume=parts", step));
    expect_same_run("whole", "parts");
    expect_done(train("--quiet --resume=parts")); // nothing is left to do
    expect_same_run("whole", "parts");
}

/* Rows of probes that are cut short, or of updates that are done again, go; what is no row is
 * refused.
 */
Test(resume, with_probes) {
    expect_done(train(LIVELY PROBED "--norm=ln --max-iters=9 --out=whole text.txt"));
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
    expect_done(train(LIVELY PROBED "--norm=ln --max-iters=5 --out=cut text.txt"));
    char *more = malloc(strlen(probes) + 64);
    strcat(strcpy(more, file_text("cut/probes.csv", NULL)), "6,0,attn,stream_rms,1\n6,0,att");
    file_put("cut/probes.csv", more, strlen(more));
    expect_done(train("--quiet --max-iters=9 --resume=cut"));
    expect_same_run("whole", "cut");
    strcat(strcpy(more, probes), "no row\n");
    file_put("cut/probes.csv", more, strlen(more));
    struct ending ending = train("--quiet --max-iters=10 --resume=cut");
    cr_expect(ending.status == STATUS_MACHINE && strstr(ending.err, "cut/probes.csv:"), "%d %s",
              ending.status, ending.err);
    free(more);
    ending = train("--quiet --max-iters=10 --probe-interval=2 --resume=whole");
    cr_expect(ending.status == STATUS_USAGE && strstr(ending.err, "probe-interval"), "%d %s",
              ending.status, ending.err);
}

/* The middle of the whole file: an update is missing, or one is made twice, and this differs. It is
   counted from the end, as the header in front is as long as a loss has digits. */
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

#define LONG                                                                                       \
    TINY "--quiet --norm=bn --dropout=0.1 --max-iters=1500 --warmup-iters=10 --eval-interval=500 " \
         "--eval-iters=3 --log-interval=7 --checkpoint-interval=60 --sample=20 "

static void check_signal(int number, int status) {
    expect_done(train(LONG "--out=whole text.txt"));
    struct ending ending = train_interrupted(number, "out/log.csv", LONG "--out=out text.txt");
    cr_expect(ending.status == status, "status %d: %s", ending.status, ending.err);
    expect_done(train("--quiet --resume=out"));
    expect_same_run("whole", "out");
}

Test(resume, after_an_interrupt) {
    check_signal(SIGINT, 130);
}

Test(resume, after_a_termination) {
    check_signal(SIGTERM, 143);
}

static void sleep_for(long microseconds) {
    nanosleep(&(struct timespec){microseconds / 1000000, microseconds % 1000000 * 1000}, NULL);
}

static long microseconds_of(struct timespec from, struct timespec to) {
    return (to.tv_sec - from.tv_sec) * 1000000 + (to.tv_nsec - from.tv_nsec) / 1000;
}

/* What a person or a queue would do: go on if there is something to go on with. */
static void go_on(const char *folder) {
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
        sleep_for(whole * (2 * i + 1) / (2 * KILLS)); // spread over the run; its pace does the rest
        killed += process_end(process, SIGKILL).status == 128 + SIGKILL;
        snprintf(file, sizeof file, "%s/checkpoint.safetensors", folder);
        early += !file_there(file);
        go_on(folder);
        expect_same_run("whole", folder);
    }
    cr_expect(killed > KILLS / 4 && early < KILLS, "%d killed, %d without checkpoint", killed,
              early);
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
        expect_same_run("whole", "out");
    }
}

Test(resume, time_goes_on) {
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
    expect_same_run("whole", "out");
    cr_assert(!remove("out/checkpoint.safetensors") && !remove("out/model.safetensors"));
    cr_assert(!remove("out/log.csv"));
    expect_done(train("--quiet --resume=out/"));
    expect_same_run("whole", "out");
}

Test(resume, without_checkpoints_only_an_interrupt_leaves_one) {
    expect_done(train(LIVELY "--checkpoint-interval=0 --out=out text.txt"));
    cr_expect(!file_there("out/checkpoint.safetensors") && file_there("out/model.safetensors"));
    struct ending refused = train("--resume=out --max-iters=8");
    expect_refusal(&refused, STATUS_MACHINE, "--resume=out: has ended without a checkpoint");
    struct ending ending = train_interrupted(
        SIGTERM, "long/log.csv",
        LONG "--max-iters=1000000000 --checkpoint-interval=0 --out=long text.txt");
    cr_expect(ending.status == 143 && file_there("long/checkpoint.safetensors"));
}

/* Or --resume would go back to the checkpoint, and the rows and the model behind it would be lost.
 */
Test(resume, a_checkpoint_is_never_behind_the_model) {
    expect_done(train(LIVELY "--max-iters=9 --out=whole text.txt"));
    expect_done(train(LIVELY "--max-iters=4 --out=out text.txt"));
    expect_done(train("--quiet --max-iters=6 --checkpoint-interval=0 --resume=out"));
    char *log = file_text("out/log.csv", NULL);
    struct ending refused = train("--resume=out --max-iters=5");
    expect_refusal(&refused, STATUS_USAGE, "--max-iters=5: the run in out has done 6 already");
    cr_expect_str_eq(file_text("out/log.csv", NULL), log);
    expect_done(train("--quiet --max-iters=9 --checkpoint-interval=auto --resume=out"));
    expect_same_run("whole", "out");
}

/* An evaluation of hours, as far as the test is concerned. */
Test(resume, an_interrupt_in_the_last_evaluation) {
    struct process process = train_start(
        TINY "--quiet --max-iters=0 --eval-iters=0 --grammar-chars=30000000 --batch-size=1 "
             "--checkpoint-interval=0 --out=out");
    process_wait(process, "out/model.safetensors", 1);
    struct ending ending = process_end(process, SIGINT);
    cr_expect(ending.status == 130, "status %d: %s", ending.status, ending.err);
    cr_expect(file_there("out/checkpoint.safetensors"), "nothing to go on from");
}

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
                   {"--level=byte", "--level=char", NULL},
                   {"--lr-decay-iters=auto", "--lr-decay-iters=12", "--lr-decay-iters=4"}};
    expect_done(train(LIVELY "--out=out text.txt"));
    char *log = file_text("out/log.csv", NULL);
    for (int there = 1; there >= 0; there--) { // with a checkpoint, and with config.ini alone
        for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
            struct ending ending = train("--resume=out %s", changes[i].option);
            expect_refusal(&ending, STATUS_USAGE,
                           changes[i].said ? changes[i].said : changes[i].option);
            cr_expect(strstr(ending.err, changes[i].stored), "%s", ending.err);
            cr_expect(strstr(ending.err, there ? "out/checkpoint.safetensors" : "out/config.ini"));
        }
        if (there) {
            cr_assert(!rename("out/checkpoint.safetensors", "away"));
            cr_assert(!remove("out/model.safetensors"));
        }
    }
    cr_assert(!rename("away", "out/checkpoint.safetensors"));
    corpus_put_tiny("other.txt", 1999);
    struct ending ending = train("--resume=out other.txt");
    expect_refusal(&ending, STATUS_USAGE, "other.txt: has checksum ");
    ending = train("--resume=out --max-iters=3");
    expect_refusal(&ending, STATUS_USAGE, "--max-iters=3: the run in out has done 4 already");
    cr_expect_str_eq(file_text("out/log.csv", NULL), log, "a refusal changed the log");
}

Test(resume, what_may_change) {
    expect_done(train(LIVELY "--out=out text.txt"));
    cr_assert(!rename("text.txt", "moved.txt"));
    expect_done(train("--quiet --resume=out --max-iters=9 --log-interval=1 --eval-interval=2 "
                      "--eval-iters=1 --checkpoint-interval=3 --threads=3 --sample=5 --top-k=2 "
                      "--temperature=0.5 --norm=ln --n-embd=8 moved.txt"));
    expect_member("out", "steps", "9");
    cr_expect(strlen(file_text("out/sample.txt", NULL)) == 5);
    cr_expect(strstr(file_text("out/config.ini", NULL), "max-iters = 9\n"));
    cr_expect(strstr(file_text("out/config.ini", NULL), "corpus = \"moved.txt\"\n"));
}

/* Killed before its first checkpoint since, a run goes on as it was told to when it went on. */
Test(resume, what_has_changed_stays_so) {
    size_t bytes;
    expect_done(train(LIVELY "--max-iters=9 --log-interval=1 --out=whole text.txt"));
    expect_done(train(LIVELY "--max-iters=4 --out=out text.txt"));
    char *checkpoint = file_text("out/checkpoint.safetensors", &bytes);
    cr_assert(!rename("text.txt", "moved.txt"));
    expect_done(train("--quiet --max-iters=9 --log-interval=1 --resume=out moved.txt"));
    file_put("out/checkpoint.safetensors", checkpoint, bytes); // as the kill would have left it
    cr_assert(!remove("out/model.safetensors") && !remove("out/summary.json"));
    expect_done(train("--quiet --resume=out"));
    expect_member("out", "steps", "9");
    cr_assert(!rename("moved.txt", "text.txt"));
    expect_done(train("--quiet --resume=out text.txt"));
    expect_same_file("whole", "out", "model.safetensors");
    expect_same_file("whole", "out", "config.ini");
    file_put("out/config.ini", "norm = rms\n", 11); // by somebody's hand
    struct ending ending = train("--resume=out");
    expect_refusal(&ending, STATUS_USAGE,
                   "--norm=rms: contradicts --norm=ln of out/checkpoint.safetensors (was config");
    cr_assert(!remove("out/config.ini"));
    expect_done(train("--quiet --resume=out"));
    expect_same_file("whole", "out", "config.ini");
}

Test(resume, where_there_is_nothing_to_go_on_with) {
    struct ending ending = train("--resume=nowhere");
    expect_refusal(&ending, STATUS_MACHINE, "--resume=nowhere: No such file or directory");
    cr_assert(!mkdir("empty", 0777));
    ending = train("--resume=empty");
    expect_refusal(&ending, STATUS_MACHINE, "--resume=empty: is not the folder of a run");
    ending = train("--resume=text.txt");
    expect_refusal(&ending, STATUS_MACHINE, "--resume=text.txt: is not the folder of a run");
    ending = train("--resume=empty --out=other");
    expect_refusal(&ending, STATUS_USAGE, "leave out --out and --force");
    cr_expect(files_in(".") == 2 && files_in("empty") == 0);
}

Test(resume, a_damaged_checkpoint_is_left_as_it_is) {
    expect_done(train(LIVELY "--out=out text.txt"));
    size_t bytes;
    char *checkpoint = file_text("out/checkpoint.safetensors", &bytes);
    char *log = file_text("out/log.csv", NULL);
    static const double parts[] = {0, 0.001, 0.3, 0.5, 0.9, 0.9999};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        file_put("out/checkpoint.safetensors", checkpoint, (size_t)(parts[i] * (double)bytes));
        struct ending ending = train("--resume=out --max-iters=8");
        expect_refusal(&ending, STATUS_MACHINE, "out/checkpoint.safetensors: not a whole safe");
    }
    char *step = strstr(checkpoint + 8, "\"step\":\"4\"");
    cr_assert(step);
    step[8] = '3';
    file_put("out/checkpoint.safetensors", checkpoint, bytes);
    struct ending ending = train("--resume=out --max-iters=8");
    expect_refusal(&ending, STATUS_MACHINE, "its header was changed");
    step[8] = '4';
    file_put("out/checkpoint.safetensors", checkpoint, bytes);
    file_put("out/log.csv", "not a log\n", 10);
    ending = train("--resume=out --max-iters=8");
    expect_refusal(&ending, STATUS_MACHINE, "out/log.csv:1: is no row of a run's log");
    file_put("out/log.csv", log, strlen(log));
    expect_done(train("--quiet --resume=out --max-iters=8"));
}

Test(resume, one_writer_at_a_time) {
    expect_done(train(LIVELY "--out=out text.txt"));
    char *log = file_text("out/log.csv", NULL);
    struct process first =
        train_start(LONG "--max-iters=1000000000 --checkpoint-interval=0 --out=long text.txt");
    process_wait(first, "long/log.csv", 2);
    struct ending ending = train("--resume=long");
    expect_refusal(&ending, STATUS_USAGE, "long: another process is writing this run");
    ending = train(LIVELY "--force --out=long text.txt");
    expect_refusal(&ending, STATUS_USAGE, "long: another process is writing this run");
    process_end(first, SIGKILL);
    int lock = open("out/log.csv", O_RDWR);
    cr_assert(lock >= 0 && !flock(lock, LOCK_EX));
    ending = train("--resume=out");
    expect_refusal(&ending, STATUS_USAGE, "out: another process is writing this run");
    close(lock);
    cr_expect_str_eq(file_text("out/log.csv", NULL), log);
    expect_done(train("--quiet --resume=out"));
    expect_done(train("--quiet --resume=long --max-iters=20")); // its lock died with it
}

Test(resume, divergence_keeps_the_last_good_checkpoint) {
    struct ending ending =
        train(TINY "--quiet --norm=none --learning-rate=1000 --grad-clip=0 --schedule=constant "
                   "--max-iters=1000 --checkpoint-interval=1 --out=out text.txt");
    cr_assert(ending.status == STATUS_DIVERGED, "status %d: %s", ending.status, ending.err);
    char first[256];
    snprintf(first, sizeof first, "%.255s", ending.err);
    char *log = file_text("out/log.csv", NULL);
    cr_expect(file_there("out/checkpoint.safetensors"));
    ending = train("--quiet --resume=out");
    expect_refusal(&ending, STATUS_DIVERGED, "diverged at step");
    cr_expect_str_eq(ending.err, first, "another end");
    cr_expect(strlen(file_text("out/log.csv", NULL)) > strlen(log) / 2);
    cr_expect(!file_there("out/model.safetensors"));
    ending = train("--generate=out --num-chars=10"); // its weights are numbers
    cr_expect(ending.status == 0, "%s", ending.err);
    // to end where the last good step was is no good end: a moment has overflowed
    int step;
    cr_assert(sscanf(first, "train: diverged at step %d:", &step) == 1);
    ending =
        train(TINY "--quiet --norm=none --learning-rate=1000 --grad-clip=0 --schedule=constant "
                   "--max-iters=%d --eval-interval=1000 --out=end text.txt",
              step);
    expect_refusal(&ending, STATUS_DIVERGED, "diverged at step");
    cr_expect(!file_there("end/model.safetensors"));
}

Test(resume, a_second_signal_ends_at_once) {
    struct process process =
        train_start(LIVELY "--grad-accum=1000000 --max-iters=1 --eval-iters=1 --out=out text.txt");
    process_wait(process, "out/config.ini", 1);
    sleep_for(200000);
    kill(process.id, SIGINT);
    sleep_for(100000);
    struct ending ending = process_end(process, SIGINT);
    cr_expect(ending.status == 130 && !file_there("out/summary.json"), "status %d", ending.status);
}

/* As timeout does: to the process, and to its group. The run still ends with its update saved. */
Test(resume, a_second_sigterm_changes_nothing) {
    struct process process =
        train_start(LIVELY "--grad-accum=2000 --max-iters=1000000 --eval-iters=1 --sample=0 "
                           "--checkpoint-interval=0 --out=out text.txt");
    process_wait(process, "out/config.ini", 1);
    sleep_for(200000);
    kill(process.id, SIGTERM);
    sleep_for(1000);
    struct ending ending = process_end(process, SIGTERM);
    cr_expect(ending.status == 143, "status %d", ending.status);
    cr_expect(file_there("out/summary.json") && file_there("out/checkpoint.safetensors"));
}

/* At config.ini, which a long name of the corpus makes long, and at the checkpoint. */
Test(resume, a_full_disk) {
    expect_done(train(LIVELY "--out=out text.txt"));
    size_t bytes, now;
    char *checkpoint = file_text("out/checkpoint.safetensors", &bytes), long_name[2100] = "";
    for (int i = 0; i < 1000; i++) strcat(long_name, "./");
    static const char *const names[] = {"config.ini", "checkpoint.safetensors"};
    for (int i = 0; i < 2; i++) {
        struct ending ending =
            train_in((struct surroundings){.file_limit = i ? 5000 : 2000},
                     "--quiet --resume=out --max-iters=8 --corpus=%stext.txt", i ? "" : long_name);
        expect_refusal(&ending, STATUS_MACHINE, names[i]);
        cr_expect(strstr(ending.err, ": File too large"), "%s", ending.err);
        char *after = file_text("out/checkpoint.safetensors", &now);
        cr_expect(now == bytes && !memcmp(after, checkpoint, bytes), "the checkpoint is another");
        cr_expect(!file_there("out/checkpoint.safetensors.tmp"));
    }
    expect_done(train("--quiet --resume=out --max-iters=8"));
}

Test(resume, an_unwritable_folder) {
    expect_done(train(LIVELY "--out=out text.txt"));
    if (!getuid()) cr_skip_test("root may write everywhere");
    cr_assert(!chmod("out", 0555));
    struct ending ending = train("--quiet --resume=out --max-iters=8");
    expect_refusal(&ending, STATUS_MACHINE, "Permission denied");
    cr_assert(!chmod("out", 0777));
    expect_done(train("--quiet --resume=out --max-iters=8"));
}
