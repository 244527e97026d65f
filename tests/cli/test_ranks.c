/* Several processes that train one model (ranks.h): any number of ranks and threads leaves the
   files that one process leaves, byte for byte, except for the times in the log. RANKS names a
   program built with MPI=1, which `make ranks` sets; TRAIN's is built without, and runs what is
   compared with. */
#define _GNU_SOURCE // strsep
#include "data/die.h"
#include "tests/command.h"
#include "tests/runs.h"
#include "tests/support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void enter(void) {
    const char *program = getenv("RANKS");
    if (!program) skip("ranks", "no program of several processes (make ranks builds and tests it)");
    cr_assert(!access(program, X_OK), "RANKS=%s: no such program", program);
    if (bash("type mpirun").status) skip("ranks", "no mpirun (scripts/deps.sh mpi)");
    folder_enter();
}

TestSuite(ranks, .init = enter, .fini = folder_leave, .timeout = 120);

/* 76 sequences are ten parts (parts.h) of 8, except for the last, which has 4. Two ranks have 8 and 2
   of them, three or four ranks 4, 4 and 2, and eight ranks 2 each, as far as they reach. */
#define SMALL                                                                                      \
    "--quiet --n-layer=2 --n-head=4 --n-embd=32 --block-size=32 --batch-size=76 --max-iters=5 "    \
    "--log-interval=1 --eval-interval=3 --eval-iters=3 --grammar-chars=20000 --warmup-iters=0 "    \
    "--sample=20 --batch-parts=10 "

/* The same with the lines of items.txt, of unequal length: 100 are seven parts. */
#define LINES                                                                                      \
    SMALL "--items items.txt --pad-to=block --block-size=16 --batch-size=100 --batch-parts=7 "

/* Fewer updates of less. */
#define TINIEST "--threads=1 " TINY "--quiet "

enum { ALONE }; // no ranks: the program without mpirun

/* Runs the program on some ranks with the arguments of the format. */
#define ranks(count, ...)                                                                          \
    bash(say("exec %s \"$RANKS\" %s", (count) == ALONE ? "" : say("mpirun -n %d", count),          \
             say(__VA_ARGS__)))

/* Fails unless it succeeded without a word on standard error. */
static void expect_silence(struct ending ending) {
    expect_done(ending);
    cr_expect(!*ending.err, "%s", ending.err);
}

/* ---- The same files ---- */

/* Fails unless `count` ranks do with these options what one process does. */
static void check(int count, int threads, const char *options) {
    static char last[1024];
    if (strcmp(options, last) != 0) output_of("--threads=1 --out=one --force %s", options);
    snprintf(last, sizeof last, "%s", options);
    expect_silence(ranks(count, "--threads=%d --out=ranks --force %s", threads, options));
    gradient_case("%d x %d %s", count, threads, options);
    expect_same_folder("one", "ranks");
}

/* ---- Ranks, threads, norms, placements ---- */

Test(ranks, any_number_of_ranks_and_threads) {
    static const struct {
        int ranks, threads;
    } teams[] = {{1, 1}, {ALONE, 1}, {1, 3}, {2, 1}, {2, 2}, {3, 1}, {4, 2}, {8, 1}};
    for (int norm = 0; norm < 2; norm++)
        for (size_t i = 0; i < sizeof teams / sizeof *teams; i++)
            check(teams[i].ranks, teams[i].threads, norm ? SMALL "--norm=bn" : SMALL "--norm=ln");
}

static void check_every_norm_with_dropout_and_accumulation(const struct pair *pair) {
    check(3, 1,
          say(SMALL "--dropout=0.1 --grad-accum=2 --pn-warmup=2 --prepbn-steps=4 %s",
              pair_options(pair)));
}

Test(ranks, every_norm_with_dropout_and_accumulation) {
    every_norm(check_every_norm_with_dropout_and_accumulation);
}

Test(ranks, variants) {
    static const char *const variants[] = {
        SMALL "--norm=ln --placement=post",
        SMALL "--norm=bn --placement=post",
        SMALL "--norm=ln --placement=siamese",
        SMALL "--norm=bn --placement=siamese",
        SMALL "--norm=ln --placement=admin",
        SMALL "--norm=bn --placement=admin",
        SMALL "--norm=ln --placement=ngpt",
        SMALL "--norm=ln --optimizer=muon",
        SMALL "--norm=bn --preset=llama --qk-norm=on --embd-scale=learned",
        // some ranks have no sequences
        SMALL "--norm=bn --batch-size=1",
        // what a run measures and keeps
        SMALL "--norm=bn --probe-interval=2",
        SMALL "--norm=bn --keep-best=on --max-iters=8 --eval-interval=2",
        SMALL "--norm=bn --eval-train=on",
        LINES "--norm=bn",
        LINES "--norm=bn --pad-to=longest",
        LINES "--norm=prepbn --grad-accum=2 --dropout=0.1 --eval-train=on",
    };
    items_put("items.txt", 300);
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) check(3, 1, variants[i]);
}

/* Formulas, of which those with means over the batch need sums from all ranks: of levels one after
   another, in queries and keys too, and with pads. */
Test(ranks, formulas) {
    static const char *const formulas[] = {
        "gamma * (x - mean_n(x)) / rms_c(x - mean_n(x)) + beta * var_n(x)",
        "gamma * x / (1 + abs(s * x)) + beta; s[1] = 0.5"};
    items_put("items.txt", 300);
    for (int i = 0; i < 2; i++) {
        const char *name = say("%d.ini", i),
                   *file = say("norm = %s\nqk-norm = %s\n", formulas[i], formulas[i]);
        file_put(name, file, strlen(file));
        check(3, 1, say(SMALL "--dropout=0.1 --grad-accum=2 --probe-interval=2 --config=%s", name));
        check(2, 2, say(LINES "--config=%s", name));
        check(8, 1, say(SMALL "--batch-size=20 --config=%s", name));
    }
}

Test(ranks, some_have_no_sequences) {
    items_put("items.txt", 300);
    check(8, 1, SMALL "--norm=bn --batch-size=20");
    check(4, 1, SMALL "--norm=bn --batch-size=20");
    check(8, 1, LINES "--norm=bn");
    check(8, 1, LINES "--norm=bn --batch-size=40");
    check(5, 1, LINES "--norm=bn --batch-size=40");
    check(12, 1, SMALL "--norm=bn --batch-size=5");
}

/* The training loss of update 4. */
static double last_loss(const char *folder) {
    struct log log = log_of(folder);
    return log_number(&log, 4, TRAIN_LOSS);
}

/* 32 sequences are four parts, two for each of two ranks: then local statistics are those of two
   shards, except for the running ones. */
Test(ranks, local_statistics) {
    const char *const bn = SMALL "--norm=bn --batch-size=32 --batch-parts=4 --learning-rate=0.01";
    output_of("--threads=1 --out=shards --bn-shards=2 %s", bn);
    output_of("--threads=1 --out=all %s", bn);
    expect_silence(ranks(2, "--threads=1 --out=local --local-stats=on %s", bn));
    cr_expect(fabs(last_loss("local") - last_loss("shards")) < 1e-5);
    cr_expect(fabs(last_loss("local") - last_loss("all")) > 1e-4);
    check(2, 1, SMALL "--norm=ln --local-stats=on");
    // all ranks measure with the running statistics that are saved
    expect_silence(ranks(2, "--threads=1 --out=whole --local-stats=on --eval-iters=0 %s", bn));
    struct log log = log_of("whole");
    expect_part(output_of("--evaluate=whole"),
                say("loss: %s nats", log.cell[log.rows - 1][VAL_LOSS]));
}

Test(ranks, evaluation_prints_the_same) {
    output_of("--threads=1 --out=one --norm=bn %s", SMALL);
    struct ending ending = ranks(3, "--threads=1 --evaluate=one");
    expect_silence(ending);
    cr_expect_str_eq(ending.out, output_of("--threads=1 --evaluate=one"));
}

/* ---- Stopped and resumed ---- */

/* No option depends on --max-iters. */
#define LASTING                                                                                    \
    SMALL "--norm=bn --dropout=0.1 --schedule=constant --lr-decay-iters=1000 --prepbn-steps=1000 "

Test(ranks, resume_under_other_counts) {
    output_of("--threads=1 --out=one --probe-interval=2 %s--max-iters=9", LASTING);
    expect_silence(ranks(3, "--threads=1 --out=ranks --probe-interval=2 %s--max-iters=4", LASTING));
    expect_silence(ranks(2, "--threads=2 --resume=ranks --quiet --max-iters=6"));
    expect_silence(ranks(8, "--threads=1 --resume=ranks --quiet --max-iters=7"));
    output_of("--threads=1 --resume=ranks --quiet --max-iters=8");
    expect_silence(ranks(1, "--threads=3 --resume=ranks --quiet --max-iters=9"));
    expect_same_folder("one", "ranks");
}

/* How often the text contains the part. */
static int times_in(const char *text, const char *part) {
    int times = 0;
    while ((text = strstr(text, part))) times++, text++;
    return times;
}

/* A resumed run says everything once, as a new one does, and draws the losses of its log. */
Test(ranks, one_rank_speaks) {
    for (int resumed = 0; resumed < 2; resumed++) {
        struct ending ending =
            ranks(3, "--plot=on --threads=1 %s",
                  resumed ? "--resume=ranks --max-iters=8" : TINY "--eval-iters=2 --out=ranks");
        cr_assert(ending.status == STATUS_OK, "status %d: %s", ending.status, ending.err);
        cr_expect(times_in(ending.err, "\nnorm ") == 1, "%s", ending.err);
        cr_expect(times_in(ending.err,
                           "\n2 of the 3 ranks have nothing to do: a batch of 2 sequences "
                           "of 8 has work for 1 (see --batch-parts)\n") == 1,
                  "%s", ending.err);
        cr_expect(times_in(ending.err, "\nresuming at step 4\n") == resumed, "%s", ending.err);
        cr_expect(times_in(ending.err, "\ndone after ") == 1, "%s", ending.err);
        cr_expect(times_in(ending.err, "nats per character") == 1, "%s", ending.err);
    }
}

/* Starts 3 ranks that train for long, sends SIGTERM to `whom` as soon as the log has rows, and
   resumes on 2 ranks. Each rank writes its process id to a line of ids. The status is mpirun's: if
   it is told to end itself, it may be gone before it knows how its ranks ended, and says 0. */
static void check_termination(const char *whom, bool may_end_with_0) {
    struct ending ending =
        bash(say("mpirun -n 3 bash -c 'echo $$ >>ids; exec \"$RANKS\" --threads=1 --out=ranks "
                 "%s--max-iters=1000000' &\n"
                 "until [ -e ranks/log.csv ] && [ $(wc -l <ranks/log.csv) -gt 4 ]; do\n"
                 "kill -0 $! || exit 99; sleep 0.02; done\n"
                 "kill -TERM %s; wait $!",
                 LASTING, whom));
    cr_assert((ending.status == 143 || (may_end_with_0 && !ending.status)) && !*ending.err,
              "status %d: %s", ending.status, ending.err);
    expect_member("ranks", "exit_reason", "interrupted");
    int steps = (int)summary_number("ranks", "steps");
    cr_assert(steps >= 3 && steps < 1000000);
    output_of("--threads=1 --out=one %s--max-iters=%d", LASTING, steps + 3);
    expect_silence(ranks(2, "--threads=1 --resume=ranks --quiet --max-iters=%d", steps + 3));
    expect_same_folder("one", "ranks");
}

Test(ranks, after_a_termination_of_mpirun) {
    check_termination("$!", true);
}

Test(ranks, after_a_termination_of_one_rank) {
    check_termination("$(sed -n 2p ids)", false);
}

/* ---- Messages ---- */

/* Fails unless it ended so, with one line of the program, which is `line`. A library of MPI may add
   lines of its own. */
static void expect_end(struct ending ending, int status, const char *line) {
    char *rest = ending.err, *one;
    int said = 0, same = 0;
    cr_expect(ending.status == status, "status %d, not %d", ending.status, status);
    cr_expect(!*ending.out, "on standard output: %s", ending.out);
    while ((one = strsep(&rest, "\n"))) {
        said += !strncmp(one, "train:", 6);
        same += !strncmp(one, line, strlen(line));
    }
    cr_expect(said == 1 && same == 1, "%d lines, %d \"%s\"", said, same, line);
}

/* Two ranks, each with options of its own. */
static struct ending pair_of(const char *first, const char *second) {
    return bash(say("exec mpirun -n 1 \"$RANKS\" %s%s : -n 1 \"$RANKS\" %s%s",
                    TINIEST "--out=ranks ", first, TINIEST "--out=ranks ", second));
}

Test(ranks, all_die_with_one_line) {
    expect_refusal(ranks(3, "--nonsense"), STATUS_USAGE, "train: --nonsense: no such option");
    expect_refusal(ranks(3, TINIEST "--n-layer=x"), STATUS_USAGE,
                   "train: --n-layer=x: must be a whole number");
    expect_refusal(ranks(3, TINIEST "missing.txt"), STATUS_MACHINE,
                   "train: corpus: missing.txt: No such file or directory");
    expect_refusal(ranks(3, TINIEST "--max-iters=60 --learning-rate=1000 --norm=none --out=ranks "
                                    "--grad-clip=0 --schedule=constant"),
                   STATUS_DIVERGED, "train: ");
}

Test(ranks, what_differs_names_the_rank) {
    corpus_put_tiny("text.txt", 2000);
    corpus_put_tiny("longer.txt", 2001);
    expect_end(pair_of("text.txt", "missing.txt"), STATUS_MACHINE,
               "train: rank 1: corpus: missing.txt: No such file or directory");
    expect_end(pair_of("missing.txt", "text.txt"), STATUS_MACHINE,
               "train: corpus: missing.txt: No such file or directory");
    expect_end(pair_of("text.txt", "longer.txt"), STATUS_USAGE,
               "train: ranks: the corpus of rank 1 differs from that of rank 0");
    expect_end(pair_of("text.txt", "--n-embd=16 text.txt"), STATUS_USAGE,
               "train: ranks: an option of rank 1 differs from that of rank 0");
    expect_end(bash("cp \"$RANKS\" other && echo >>other && exec mpirun -n 2 \"$RANKS\" " TINIEST
                    "--out=ranks text.txt : -n 1 ./other " TINIEST "--out=ranks text.txt"),
               STATUS_USAGE, "train: ranks: the program of rank 2 differs from that of rank 0");
    cr_expect(!file_there("ranks"), "a run folder is left");
}

Test(ranks, a_run_that_exists) {
    corpus_put_tiny("text.txt", 2000);
    expect_silence(ranks(2, TINIEST "--out=ranks text.txt"));
    output_of(TINIEST "--out=one text.txt");
    expect_end(ranks(2, TINIEST "--max-iters=9 --out=ranks text.txt"), STATUS_USAGE,
               "train: run: ranks: already contains a run");
    expect_same_folder("one", "ranks");
}
