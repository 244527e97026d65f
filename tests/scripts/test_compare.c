/* scripts/compare.py on planted folders: intervals, verdicts, runs that did not train, tuning, and what
   is refused. tests/check_inference.py checks its statistics. Skipped where scipy is missing
   (scripts/deps.sh report installs it). */
#define _GNU_SOURCE // setenv
#include "tests/logs.h"
#include "tests/scripts.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void enter(void) {
    struct ending ending =
        bash("for python in python3 /usr/bin/python3; do $python -c 'import scipy' "
             "&& exit; done; exit 1");
    if (ending.status) skip("compare", "no scipy (scripts/deps.sh report installs it)");
    folder_enter();
    mkdir("runs", 0777);
}

TestSuite(compare, .init = enter, .fini = folder_leave);

/* A finished run, and one that diverged. */
static void put(const char *norm, double rate, int seed, double loss) {
    char folder[64];
    snprintf(folder, sizeof folder, "runs/%s-%g-s%d", norm, rate, seed);
    run_put_options(folder, seed, loss, "\"norm\": \"%s\", \"learning-rate\": %g", norm, rate);
}

static void done(const char *norm, int seed, double loss) {
    put(norm, 0.01, seed, loss);
}

static void diverged(const char *norm, double rate, int seed) {
    char folder[64], options[128];
    put(norm, rate, seed, 3);
    snprintf(folder, sizeof folder, "runs/%s-%g-s%d", norm, rate, seed);
    snprintf(options, sizeof options, "\"norm\": \"%s\", \"learning-rate\": %g", norm, rate);
    summary_put_options(folder, "diverged", seed, options);
}

/* Five seeds of ln; and norms with these differences: `mean`, and `spread` up and down. */
static void plant(const char *norm, double mean, double spread) {
    for (int seed = 1; seed <= 5; seed++) {
        done("ln", seed, 2 + 0.1 * seed);
        done(norm, seed, 2 + 0.1 * seed + mean + spread * (seed - 3));
    }
}

static void expect_said(const struct ending *ending, int status, const char *line) {
    cr_expect(ending->status == status, "status %d, not %d: %s", ending->status, status,
              ending->err);
    expect_part(ending->err, line);
    cr_expect(!strstr(ending->err, "Traceback"), "%s", ending->err);
}

/* ---- the statistics ---- */

Test(compare, its_statistics) {
    struct ending ending = script("../tests/check_inference.py");
    cr_expect(ending.status == 0, "%s%s", ending.out, ending.err);
    expect_part(ending.out, "0 checks failed");
}

/* ---- verdicts ---- */

Test(compare, verdicts) {
    plant("bn", 0.1, 0.001), plant("rms", 0.001, 0.001), plant("gn", -0.3, 0.01);
    plant("dyt", 0.05, 0.04);
    struct ending ending = script("compare.py runs --baseline norm=ln --csv=a.csv --stuck=3");
    expect_success(&ending);
    // The 0.995 quantile of Student's t with 4 degrees of freedom is 4.604095, and the deviation of
    // the differences 0.001 x sqrt(2.5): 0.1 +- 0.003256.
    expect_part(ending.out,
                "| bn  | ln | 5     | +0.1000 | +0.0967 to +0.1033 | 0.0625    | 0.25  | higher ");
    expect_part(ending.out,
                "| +0.0010 | -0.0023 to +0.0043 | 0.375     | 0.375 | equal within 0.02 ");
    expect_part(ending.out, "| lower ");
    expect_part(ending.out, "| not decided: about ");
    expect_part(ending.out,
                "With 5 seeds the least p of the signs is 0.0625, so signs alone cannot decide.");
    expect_part(ending.out, "Holm: p of the signs, adjusted for the 4 comparisons shown.");
    const char *table = file_text("a.csv", NULL);
    expect_part(table, "\nbn,ln,1 2 3 4 5,0.098 0.099 0.1 0.101 0.102,0.1,0.0967444");
    expect_part(table, ",0.0625,0.25,higher,,5,5,2.4,5,5,2.3\n");
}

Test(compare, the_margin_is_the_users) {
    plant("rms", 0.03, 0.001);
    struct ending ending = script("compare.py runs --a norm=rms --b norm=ln --stuck=3");
    expect_part(ending.out, "| higher ");
    ending = script("compare.py runs --a norm=rms --b norm=ln --margin=0.05 --stuck=3");
    expect_part(ending.out, "| equal within 0.05 ");
    ending = script("compare.py runs --a norm=ln --b norm=rms --stuck=3");
    expect_part(ending.out, "| ln | rms | 5     | -0.0300 | -0.0333 to -0.0267 |");
}

Test(compare, seeds_that_one_side_lacks_do_not_count) {
    plant("bn", 0.1, 0.001);
    done("ln", 8, 1), done("bn", 9, 9);
    struct ending ending = script("compare.py runs --a norm=bn --b norm=ln --stuck=20");
    expect_part(ending.out, "| bn | ln | 5     | +0.1000 |");
}

/* ---- runs that did not train ---- */

Test(compare, no_mean_of_survivors) {
    for (int seed = 1; seed <= 8; seed++) {
        done("ln", seed, 2), diverged("bn", 0.01, seed);
        if (seed > 3)
            done("rms", seed, 1);
        else
            diverged("rms", 0.01, seed);
    }
    struct ending ending = script("compare.py runs --baseline norm=ln --csv=a.csv --stuck=3");
    expect_success(&ending);
    expect_part(
        ending.out,
        "| bn  | ln | 8     |       |               |           |      | trains less often: "
        "0 and 8 of 8 trained ");
    expect_part(ending.out,
                "| rms | ln | 8     |       |               |           |      | not decided: "
                "5 and 8 of 8 trained ");
    // 1 - 0.005^(1/8) and 0.005^(1/8)
    expect_part(ending.out, "\nbn: 0 of 8 trained, 8 diverged (fraction 0.00 to 0.48)\n");
    expect_part(ending.out, "\nln: 8 of 8 trained (fraction 0.52 to 1.00), median 2.0000\n");
    expect_part(ending.out, "\nrms: 5 of 8 trained, 3 diverged (fraction ");
    expect_part(file_text("a.csv", NULL), ",,,,,,trains less often,,0,8,,8,8,2\n");
}

/* The text has two characters as often as each other: their entropy is ln 2 = 0.693. */
Test(compare, a_run_that_learned_only_frequencies_is_stuck) {
    text_put(".", "ab.txt", "abababab");
    static const double losses[] = {0.6, 0.59};
    for (int i = 0; i < 2; i++)
        for (int seed = 1; seed <= 3; seed++) {
            char folder[64], text[512];
            snprintf(folder, sizeof folder, "runs/%d-%d", i, seed);
            run_put(folder, "ln", 0.01, seed, losses[i]);
            snprintf(text, sizeof text,
                     "{\"exit_reason\": \"done\", \"val_loss\": %g, \"corpus_crc32\": \"%s\", "
                     "\"options\": "
                     "{\"corpus\": \"ab.txt\", \"norm\": \"%s\", \"seed\": %d}}\n",
                     losses[i], "6c94a9ca", i ? "bn" : "ln", seed);
            text_put(folder, "summary.json", text);
        }
    struct ending ending =
        bash("python3 -c 'import zlib; print(\"%08x\" % zlib.crc32(b\"abababab\"))'");
    cr_assert(ending.status == 0);
    char command[256];
    snprintf(command, sizeof command, "sed -i s/6c94a9ca/%.8s/ runs/*/summary.json", ending.out);
    cr_assert(bash(command).status == 0);
    ending = script("compare.py runs --a norm=bn --b norm=ln");
    expect_success(&ending);
    expect_part(ending.out, "not decided: 3 and 0 of 3 trained");
    expect_part(ending.out, "\nln: 0 of 3 trained, 3 stuck (fraction ");
    ending = script("compare.py runs --a norm=bn --b norm=ln --stuck=0.7");
    expect_part(ending.out, "| -0.0100 |");
    text_put(".", "ab.txt", "changed!");
    ending = script("compare.py runs --a norm=bn --b norm=ln");
    expect_part(ending.err,
                "compare: the entropy of the corpus is not known here: a run that is stuck "
                "counts as trained (--stuck=LOSS names the loss above which it is)\n");
}

/* Of an ablation: its grid names the runs, driver/ has their exit status. */
Test(compare, failed_and_unfinished_runs) {
    plant("bn", 0.1, 0.001);
    mkdir("driver", 0777), mkdir("runs/bn-0.01-s6", 0777), mkdir("runs/bn-0.01-s7", 0777),
        mkdir("runs/bn-0.01-s8", 0777);
    done("ln", 6, 2), done("ln", 7, 2);
    text_put("runs/bn-0.01-s6", "config.ini",
             "norm = bn\nlearning-rate = 0.01\n"
             "seed = 6\nsample = 0\n");
    text_put("driver", "bn-0.01-s6.status", "ended 1 0\n");
    text_put("driver", "bn-0.01-s7.status", "ended 2 0\n"); // before it wrote its config.ini
    text_put(".", "grid.txt", "");
    struct ending ending = bash("for run in runs/*; do echo ${run#runs/} --norm=x; done >grid.txt");
    cr_assert(ending.status == 0);
    ending = script("compare.py . --a norm=bn --b norm=ln --stuck=3");
    expect_said(&ending, 1,
                "compare: ./runs/bn-0.01-s7: failed before it started: it is not counted\n");
    expect_part(ending.err, "compare: 1 of 14 runs have not ended: they are left out\n");
    expect_part(ending.out, "| not decided: 5 and 6 of 6 trained |");
    expect_part(ending.out, "\nbn: 5 of 6 trained, 1 failed (fraction ");
}

/* ---- tuning ---- */

/* The rate 0.03 is the best for ln on the seeds 101 and 102, and 0.01 on the others. */
Test(compare, a_rate_is_chosen_on_other_seeds) {
    static const int seeds[] = {1, 2, 3, 101, 102};
    static const double rates[] = {0.003, 0.01, 0.03, 0.1};
    for (int i = 0; i < 5; i++)
        for (int rate = 0; rate < 4; rate++) {
            bool tuning = seeds[i] > 100;
            put("ln", rates[rate], seeds[i], 2.5 - (rate == (tuning ? 2 : 1)));
            put("bn", rates[rate], seeds[i], rate == 1 ? 2.3 : 2.4);
        }
    struct ending ending =
        script("compare.py runs --a norm=bn --b norm=ln --tuned --tuning-seeds=101,102 --stuck=3");
    expect_success(&ending);
    expect_part(ending.out,
                "| bn (learning-rate 0.01) | ln (learning-rate 0.03) | 3     | -0.2000 |");
    expect_part(ending.out, "over seeds 101 102 (--tuning-seeds); the other seeds judge.\n");
    ending = script("compare.py runs --a norm=bn --b norm=ln --tuned=learning-rate --stuck=3");
    expect_part(ending.out,
                "| bn (learning-rate 0.01) | ln (learning-rate 0.01) | 3     | +0.1333 |");
    expect_part(ending.out,
                "over seeds 1 2 (the first half of all seeds; --tuning-seeds=LIST names others)");
    // Without the two highest rates the best one is at the end.
    cr_assert(bash("rm -r runs/*-0.03-* runs/*-0.1-*").status == 0);
    ending = script("compare.py runs --a norm=bn --b norm=ln --tuned --stuck=3");
    expect_said(&ending, 0,
                "compare: the best learning-rate is at an end of the sweep, and one beyond it may "
                "be better: bn (learning-rate 0.01); ln (learning-rate 0.01)\n");
}

/* A rate with a diverged run is worse than all others, whatever its other losses. */
Test(compare, a_rate_that_diverges_is_not_chosen) {
    for (int seed = 1; seed <= 4; seed++) {
        put("ln", 0.01, seed, 2), put("bn", 0.01, seed, 2.1);
        put("ln", 0.1, seed, 2.5), put("bn", 0.1, seed, 1);
    }
    diverged("bn", 0.1, 2);
    struct ending ending = script("compare.py runs --a norm=bn --b norm=ln --tuned --stuck=3");
    expect_part(ending.out,
                "| bn (learning-rate 0.01) | ln (learning-rate 0.01) | 2     | +0.1000 |");
}

/* ---- the picture ---- */

Test(compare, the_picture) {
    plant("bn", 0.1, 0.001), plant("rms", 0.001, 0.001), plant("dyt", 0.05, 0.1);
    struct ending ending = script("compare.py runs --baseline norm=ln --stuck=3 --plot=a.svg");
    expect_success(&ending);
    const char *picture = file_text("a.svg", NULL);
    static const char *const parts[] = {
        ">bn<",
        ">rms<",
        ">dyt<",
        ">higher<",
        ">equal within 0.02<",
        ">one seed<",
        ">mean, 99 % t interval<",
        ">margin: 0.02 around 0<",
        ">final validation loss minus that of ln (nats per character)<"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) expect_part(picture, parts[i]);
    ending = script("compare.py runs --baseline norm=ln --stuck=3 --plot=a.png");
    expect_success(&ending);
    expect_picture("a.png", "\x89PNG", "IEND");
}

/* ---- what is refused ---- */

Test(compare, wrong_commands) {
    plant("bn", 0.1, 0.001);
    static const struct {
        int status;
        const char *arguments, *complaint;
    } wrong[] = {
        {2, "runs",
         "compare: what with what? (--a NAME=VALUE --b NAME=VALUE, such as --a norm=bn --b"},
        {2, "runs --a norm=bn", "compare: what with what?"},
        {2, "runs --a bn --b norm=ln", "'bn' is not NAME=VALUE,..."},
        {2, "runs --baseline norm=ln --a norm=bn", "compare: --baseline: not with --a and --b"},
        {2, "runs --baseline norm=ln --margin=0", "--margin: '0' is not a number above 0"},
        {2, "runs --baseline norm=ln --margin=nan", "--margin: 'nan' is not a number above 0"},
        {2, "runs --baseline norm=ln --metric=seconds",
         "compare: --metric=seconds: needs --margin"},
        {2, "runs --baseline norm=ln --plot=a.gif", "compare: --plot=a.gif: not a kind of picture"},
        {2, "runs --baseline norm=ln --tuning-seeds=1",
         "compare: --tuning-seeds: goes with --tuned"},
        {2, "runs --baseline norm=ln --nosuch", "compare: unrecognized arguments: --nosuch"},
        {1, "runs --a norm=rms --b norm=ln",
         "compare: --a=norm=rms: no such run (there are bn, ln)"},
        {1, "runs --a norm=bn --b act=relu",
         "compare: --b=act=relu: these runs do not differ in act"},
        {1, "runs --a norm=bn --b norm=bn", "compare: --a and --b: name the same variant"},
        {1, "runs --baseline norm=ln --tuned", "these runs do not differ in learning-rate"},
        {1, "runs --baseline norm=ln --metric=x --margin=1",
         "summary.json has no such number (it has "},
        {1, "nosuch --baseline norm=ln", "compare: nosuch: no such folder"},
        {1, "empty --baseline norm=ln", "compare: empty: no run in it"},
        {1, "runs/ln-0.01-s1 runs/bn-0.01-s1 --baseline norm=ln",
         "compare: one common seed: nothing can be decided"},
        {1, "runs/ln-0.01-s1 runs/bn-0.01-s2 --baseline norm=ln",
         "compare: no common seeds: nothing can be decided"},
        {1, "runs runs/bn-0.01-s2 --baseline norm=ln",
         "another run of bn has the same seed 2: which one"},
        {1, "runs --baseline norm=ln --csv=no/a.csv",
         "compare: no/a.csv: No such file or directory"},
    };
    mkdir("empty", 0777);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct ending ending = script("compare.py --stuck=3 %s", wrong[i].arguments);
        expect_said(&ending, wrong[i].status, wrong[i].complaint);
        const char *end = strchr(ending.err, '\n');
        cr_expect(end && !end[1], "%s: not one line: %s", wrong[i].arguments, ending.err);
    }
}

/* Gives the runs of bn another member of summary.json. */
static void expect_mixed(const char *member, const char *value, const char *other,
                         const char *complaint) {
    char command[512];
    snprintf(command, sizeof command,
             "sed -i 's/{\"exit/{\"%s\": \"%s\", \"exit/' runs/ln-*/summary.json && "
             "sed -i 's/{\"exit/{\"%s\": \"%s\", \"exit/' runs/bn-*/summary.json",
             member, value, member, other);
    cr_assert(bash(command).status == 0);
    struct ending ending = script("compare.py runs --stuck=3 --baseline norm=ln");
    expect_said(&ending, 1, complaint);
    cr_expect(!*ending.out, "%s", ending.out);
}

Test(compare, runs_of_different_texts_are_no_pair) {
    plant("bn", 0.1, 0.001);
    expect_mixed("corpus_crc32", "11111111", "22222222",
                 "compare: runs/bn-0.01-s1 and runs/ln-0.01-s1: trained on different texts; their "
                 "losses cannot be "
                 "compared\n");
}

Test(compare, runs_of_different_builds_are_no_pair) {
    plant("bn", 0.1, 0.001);
    expect_mixed("compiler", "gcc 12", "clang 16",
                 "trained by different builds (clang 16, vectors of ? bits, numbers of ?; gcc 12, "
                 "vectors of ? "
                 "bits, numbers of ?): the difference is not the options' alone (--any-build "
                 "compares them)");
    struct ending ending = script("compare.py runs --stuck=3 --baseline norm=ln --any-build");
    expect_success(&ending);
}

Test(compare, without_scipy_one_line_says_what_to_do) {
    mkdir("nos", 0777), mkdir("nos/scipy", 0777);
    text_put("nos/scipy", "__init__.py", "raise ImportError(\"No module named 'scipy'\")\n");
    setenv("PYTHONPATH", "nos", 1);
    struct ending ending = script("compare.py runs --baseline norm=ln");
    expect_said(&ending, 1, ": No module named 'scipy' (scripts/deps.sh report installs it)\n");
    cr_expect(strchr(ending.err, '\n') == strrchr(ending.err, '\n'), "%s", ending.err);
}
