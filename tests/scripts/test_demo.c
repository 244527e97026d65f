/* `make demo`: its runs, its picture, and whether its words agree with the numbers. For the words,
   TRAIN names a program that writes logs and summaries with the numbers of the test. */
#define _GNU_SOURCE // realpath, setenv
#include "tests/json.h"
#include "tests/runs.h"
#include "tests/scripts.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(demo, .init = folder_enter, .fini = folder_leave);

#define SMALL                                                                                      \
    "--n-layer=1 --n-head=2 --n-embd=8 --block-size=8 --batch-size=2 --max-iters=20 "              \
    "--eval-interval=10 --eval-iters=1"

Test(demo, three_norms_in_one_picture) {
    static const char *const norms[] = {"none", "ln", "bn"};
    static const char *const beside[] = {"", "--plot-beside=runs/demo/none ",
                                         "--plot-beside=runs/demo/none,runs/demo/ln "};
    struct ending ending = script("demo.sh " SMALL);
    cr_assert(ending.status == 0, "%s", ending.err);
    expect_picture("runs/demo/loss.png", "\x89PNG", "IEND");
    expect_part(ending.out, "demo: the three curves and the entropy: runs/demo/loss.png\n");
    for (int i = 0; i < 3; i++) {
        char folder[64], part[256];
        snprintf(folder, sizeof folder, "runs/demo/%s", norms[i]);
        double loss = strtod(json_member(summary_of(folder), "val_loss"), NULL);
        double entropy = strtod(json_member(summary_of(folder), "grammar_entropy"), NULL);
        snprintf(part, sizeof part, "\n  %-4s  %.4f, %.4f above it", norms[i], loss,
                 loss - entropy);
        expect_part(ending.out, part);
        snprintf(part, sizeof part, "demo: run %d of 3: ./train --norm=%s --max-iters=1000 ", i + 1,
                 norms[i]);
        expect_part(ending.out, part);
        snprintf(part, sizeof part, "--out=runs/demo/%s %s" SMALL "\n", norms[i], beside[i]);
        expect_part(ending.out, part);
    }
    expect_part(ending.err, "val loss is "); // the runs are shown
    expect_part(ending.out, "\n  scripts/ablate.sh --norm=none,ln,bn ");
}

Test(demo, a_second_one_leaves_the_first) {
    struct ending made = bash("mkdir -p runs/demo runs/demo-2 && echo mine >runs/demo/mine");
    cr_assert(made.status == 0);
    struct ending ending = script("demo.sh " SMALL);
    cr_assert(ending.status == 0, "%s", ending.err);
    expect_picture("runs/demo-3/loss.png", "\x89PNG", "IEND");
    expect_part(ending.out, "./train --generate=runs/demo-3/ln ");
    cr_expect_str_eq(file_text("runs/demo/mine", NULL), "mine\n");
    cr_expect(files_in("runs/demo") == 1 && files_in("runs/demo-2") == 0);
}

/* Makes TRAIN a program that runs the shell text, with $norm, $folder and the functions log STEP
   LOSS... and summary REASON STEPS LOSS; no pictures are drawn. */
static void pretend(const char *text) {
    char path[4096], program[2048];
    snprintf(program, sizeof program,
             "#!/bin/bash\n"
             "for word; do case $word in --norm=*) norm=${word#*=} ;;\n"
             "--out=*) folder=${word#*=} ;; esac; done\n"
             "mkdir \"$folder\"\n"
             "log() { echo step,seconds,train_loss,val_loss; while [ $# -gt 1 ]; do\n"
             "echo $1,0,9,$2; echo $(($1 + 1)),0,9,; shift 2; done; } >\"$folder/log.csv\"\n"
             "summary() { printf '{\\n  \"exit_reason\": \"%%s\",\\n  \"steps\": %%s,\\n"
             "  \"val_loss\": %%s,\\n  \"grammar_entropy\": 0.5\\n}\\n' \"$@\"; "
             "} >\"$folder/summary.json\"\n%s",
             text);
    command_put("train", program);
    cr_assert(realpath("bin/train", path));
    setenv("TRAIN", path, 1);
    command_put("python", "#!/bin/sh\nexit 1\n");
    cr_assert(realpath("bin/python", path));
    setenv("PYTHON", path, 1);
    command_put("apt-get", "#!/bin/sh\nexit 100\n");
}

/* The demo's output from its words on. */
static const char *words_of(const struct ending *ending) {
    const char *words = strstr(ending->out, "demo: no picture; the runs are in runs/demo\n");
    cr_assert(words, "%s%s", ending->out, ending->err);
    return strchr(words, '\n') + 1;
}

Test(demo, its_words_follow_from_the_numbers) {
    pretend("case $norm in\n"
            "none) log 0 4.02 100 3 200 2.5; summary done 200 2.5 ;;\n"
            "ln) log 0 4.05 100 2.5 200 1.5; summary done 200 1.5 ;;\n"
            "bn) log 0 4.04 100 2.7 200 2.0; summary done 200 2.0 ;;\n"
            "esac\n");
    struct ending ending = script("demo.sh");
    cr_expect(ending.status == 1); // since there is no picture
    const char *words = words_of(&ending);
    cr_expect(
        !strncmp(
            words,
            "Validation losses started near 4.04 nats per character. On average no model can be "
            "below the\nentropy of the grammar, 0.5000. After 200 updates:\n"
            "  ln    1.5000, 1.0000 above it\n"
            "  bn    2.0000, 1.5000 above it (1.5 times as far as ln)\n"
            "  none  2.5000, 2.0000 above it (2.0 times as far as ln)\n"
            "ln was as good at step 100 as none at step 200.\n"
            "What to try next:\n",
            strlen(words) - strlen(strstr(words, "  scripts/"))),
        "%s", words);
}

Test(demo, its_words_know_ties_and_divergence) {
    pretend("case $norm in\n"
            "none) log 0 4.02 100 1.51; summary done 100 1.51 ;;\n"
            "ln) log 0 4.05 7 nan; summary diverged 7 null; exit 3 ;;\n"
            "bn) log 0 4.04 100 1.5; summary done 100 1.5 ;;\n"
            "esac\n");
    struct ending ending = script("demo.sh");
    const char *words = words_of(&ending);
    expect_part(words, "ln diverged at step 7.\n");
    expect_part(words,
                "  bn    1.5000, 1.0000 above it\n  none  1.5100, 1.0100 above it (1.0 times");
    expect_part(words, "bn and none differ by less than 0.02: one seed cannot tell which is "
                       "better.\nWhat to try next:\n");
}

Test(demo, a_failure_ends_it) {
    pretend("echo 'train: no room' >&2; exit 1\n");
    struct ending ending = script("demo.sh");
    cr_expect(ending.status == 1);
    cr_expect_str_eq(ending.err, "train: no room\n");
    cr_expect(!strstr(ending.out, "run 2 of 3") && !strstr(ending.out, "What to try"));
}

Test(demo, wrong_commands) {
    static const char *const wrong[][2] = {
        {"text.txt", "demo: text.txt: not an option of ./train as --NAME=VALUE\n"},
        {"--norm=rms", "demo: --norm=rms: the demo sets it itself (use ./train)\n"},
        {"--out=a", "demo: --out=a: the demo sets it itself (use ./train)\n"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct ending ending = script("demo.sh %s", wrong[i][0]);
        cr_expect(ending.status == 2, "%s: %d", wrong[i][0], ending.status);
        cr_expect_str_eq(ending.err, wrong[i][1]);
    }
    cr_expect(!file_there("runs"));
}
