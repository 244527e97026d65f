/* scripts/ablate.sh --grid=FILE: runs that somebody else listed, and lists with bad lines. Also the last
   line of an ablation, which says how to compare its variants. */
#define _GNU_SOURCE // setenv
#include "data/die.h"
#include "tests/scripts.h"
#include "tests/scripts/held.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

TestSuite(ablate_list, .init = held_enter, .fini = folder_leave);

#define EACH                                                                                       \
    "--n-layer=1", "--n-head=2", "--n-embd=8", "--block-size=8", "--max-iters=4", "--sample=0",    \
        "--warmup-iters=0"
#define WORDS_OF_EACH                                                                              \
    " --n-layer=1 --n-head=2 --n-embd=8 --block-size=8 --max-iters=4 --sample=0 --warmup-iters=0"

#define LIST                                                                                       \
    "# Two runs of ln, in the order of the list.\n"                                                \
    "late-s2 --norm=ln --seed=2 --batch-size=2 text.txt\n"                                         \
    "\n"                                                                                           \
    "\tlate-s1\t--norm=ln --seed=1 --batch-size=2 text.txt # a comment\n"                          \
    "other --norm=bn --batch-size=3 '--corpus=of mine/it'\\''s.txt'" // and no newline

static void list_put(void) {
    cr_assert(!mkdir("of mine", 0777));
    corpus_put_tiny("of mine/it's.txt", 3000);
    text_put(".", "list.txt", LIST);
}

Test(ablate_list, its_runs_are_done_in_its_order) {
    list_put();
    held_release();
    held_start();
    struct ending ending = ABLATE("--grid=list.txt", "--jobs=1", "--out=a", "--", EACH);
    expect_status(&ending, 0);
    cr_expect_str_eq(file_text("a/grid.txt", NULL),
                     "late-s2 --norm=ln --seed=2 --batch-size=2 text.txt" WORDS_OF_EACH "\n"
                     "late-s1 --norm=ln --seed=1 --batch-size=2 text.txt" WORDS_OF_EACH "\n"
                     "other --norm=bn --batch-size=3 '--corpus=of mine/it'\\''s.txt'" WORDS_OF_EACH
                     "\n");
    const char *begun = file_text("begun", NULL);
    cr_expect(!strncmp(begun, "late-s2 ", 8) &&
                  strstr(begun, "\nlate-s1 ") < strstr(begun, "\nother "),
              "%s", begun);
    cr_expect(!strstr(ending.err, "trying"), "a trial: %s", ending.err);
    expect_part(ending.out, "3 runs: from list.txt");
    expect_part(ending.out, "expected: known when the first runs have ended; 1 side by side with ");
    expect_part(ending.out, "| norm | corpus | batch-size | median ");
    expect_part(file_text("a/results.csv", NULL), "\nother,bn,of mine/it's.txt,3,1,0,done,4,");
    expect_part(ending.err, "ablate: scripts/compare.py a --a NAME=VALUE --b NAME=VALUE compares ");
    expect_part(ending.err, "their common seeds (they differ in batch-size, corpus, norm)\n");

    // Again: nothing is left to do. A longer list: the rest.
    ending = ABLATE("--grid=list.txt", "--jobs=1", "--out=a", "--", EACH);
    expect_status(&ending, 0);
    cr_expect(held_lines("begun") == 3);
    text_put(".", "list.txt", LIST "\nlast --norm=rms --batch-size=2 text.txt\n");
    ending = ABLATE("--grid=list.txt", "--jobs=1", "--out=a", "--", EACH);
    expect_status(&ending, 0);
    expect_part(ending.out, "4 runs: from list.txt; 3 have ended, 1 to do");
    expect_part(ending.out, "(an estimate, from earlier runs)");
    cr_expect(held_lines("begun") == 4 && held_lines("a/grid.txt") == 4);
}

Test(ablate_list, a_folders_grid_is_a_list) {
    list_put();
    struct ending ending = ABLATE("--grid=list.txt", "--list", "--out=a", "--", EACH);
    expect_status(&ending, 0);
    ending = ABLATE("--grid=a/grid.txt", "--list", "--out=b");
    expect_status(&ending, 0);
    cr_expect_str_eq(file_text("b/grid.txt", NULL), file_text("a/grid.txt", NULL));
    cr_expect(files_in("b/runs") == 0);
}

Test(ablate_list, a_run_that_fails_is_named) {
    text_put(".", "list.txt", "good --norm=ln text.txt\nbad --norm=nosuch text.txt\n");
    struct ending ending = ABLATE("--grid=list.txt", "--out=a", "--", EACH);
    expect_status(&ending, 1);
    expect_part(ending.err, "ablate: 1 of 2 runs failed; the same command tries them again:\n"
                            "ablate: bad: failed with exit status 2: train: --norm=nosuch: ");
    expect_exit_reason("a/runs/good", "done");
}

/* Words of a list are data: a shell sees them quoted. */
Test(ablate_list, no_word_is_run_by_the_shell) {
    text_put(".", "list.txt", "a --corpus=$(touch~hurt) `touch~hurt`;touch~hurt \"$HOME\"\n");
    struct ending ending = ABLATE("--grid=list.txt", "--list", "--out=a");
    expect_status(&ending, 0);
    cr_expect_str_eq(file_text("a/grid.txt", NULL),
                     "a '--corpus=$(touch~hurt)' '`touch~hurt`;touch~hurt' '\"$HOME\"'\n");
    ending = ABLATE("--grid=list.txt", "--out=a");
    expect_status(&ending, 1);
    cr_expect(!file_there("hurt") && !file_there("~hurt"));
}

Test(ablate_list, bad_lines) {
    static const struct {
        const char *list, *complaint;
    } bad[] = {
        {"# nothing\n\n", "ablate: list.txt: has no run\n"},
        {"a --norm=ln\nb '--norm=ln\n", "ablate: list.txt, line 2: a quote is not closed\n"},
        {"a --norm=ln\n\na --norm=bn\n",
         "ablate: list.txt, line 3: 'a' is the name of line 1 too\n"},
        {"--norm=ln --seed=1\n", "line 1: '--norm=ln' is no name for a run's folder ("},
        {"../a --norm=ln\n", "line 1: '../a' is no name for a run's folder"},
        {"a/b --norm=ln\n", "line 1: 'a/b' is no name for a run's folder"},
        {"a --out=b\n", "line 1: --out=b: not for a run of a list"},
        {"a --resume=b\n", "line 1: --resume=b: not for a run of a list"},
        {"a -- text.txt\n", "line 1: --: what every run gets belongs after -- of the command\n"},
        {"a -n ln\n", "line 1: -n: is not an option of ./train by its long name"},
        {"a -\n", "line 1: -: is not an option of ./train by its long name, nor a corpus"},
        {"a --sample=3\n", "ablate: list.txt, line 1: --sample: is after -- too\n"},
        {"a --lr=3\n", "ablate: list.txt, line 1: --learning-rate: is after -- too\n"},
        {"a --norm=ln\r\n", "line 1: holds a control character\n"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        text_put(".", "list.txt", bad[i].list);
        struct ending ending =
            ABLATE("--grid=list.txt", "--out=a", "--", "--sample=0", "--learning-rate=1e-3");
        expect_status(&ending, STATUS_USAGE);
        expect_part(ending.err, bad[i].complaint);
        cr_expect(!*ending.out && !file_there("a"), "%s", bad[i].list);
    }
}

Test(ablate_list, bad_commands) {
    text_put(".", "list.txt", "a --norm=ln\n");
    struct ending ending = ABLATE("--grid=nosuch", "--out=a");
    expect_status(&ending, STATUS_MACHINE);
    expect_part(ending.err, "ablate: nosuch: cannot be read (--grid=FILE: one run a line, a name ");
    ending = ABLATE("--grid=", "--out=a");
    expect_status(&ending, STATUS_USAGE);
    expect_part(ending.err, "ablate: --grid: must not be empty\n");
    ending = ABLATE("--grid=list.txt", "--norm=ln,bn", "--out=a");
    expect_status(&ending, STATUS_USAGE);
    expect_part(ending.err,
                "ablate: --grid=list.txt: lists each run; --NAME=A,B,... goes without it\n");
    ending = ABLATE("--grid=list.txt", "--seeds=5", "--out=a");
    expect_status(&ending, STATUS_USAGE);
    expect_part(ending.err, "each of its lines names its own --seed; --seeds goes without it\n");
    cr_expect(!file_there("a"));
    ending = ABLATE("--grid=list.txt", "--list", "--out=a");
    expect_status(&ending, 0);
    text_put(".", "list.txt", "a --norm=bn\n");
    ending = ABLATE("--grid=list.txt", "--list", "--out=a");
    expect_status(&ending, STATUS_USAGE);
    expect_part(ending.err,
                "ablate: list.txt: a: a has this run with other options (another name, ");
    ending = ABLATE("--norm=ln", "--list", "--out=a");
    expect_status(&ending, STATUS_USAGE);
    expect_part(ending.err, "ablate: a: holds another grid: --grid -- (another --out; ");
}

/* Runs of a list that differ in what they watch only are rows of their own. */
Test(ablate_list, its_table_tells_runs_apart) {
    text_put(".", "list.txt",
             "a-s1 --norm=ln --seed=1\nb-s1 --norm=ln --seed=1 --eval-interval=2\n"
             "c-s1 --norm=bn --seed=1\n");
    struct ending ending = ABLATE("--grid=list.txt", "--out=a", "--", EACH, "text.txt");
    expect_status(&ending, 0);
    expect_part(ending.out, "| norm | eval-interval | ");
    expect_part(ending.out, "| ln | 2 | ");
    cr_expect(!strstr(ending.err, "same seed"), "%s", ending.err);
}

/* ---- the last line ---- */

Test(ablate_list, the_last_line_says_how_to_compare) {
    struct ending ending = ABLATE("--norm=ln,rms", "--placement=pre", "--batch-size=2,3",
                                  "--seeds=2", "--out=a", "--", EACH, "text.txt");
    expect_status(&ending, 0);
    const char *line =
        "ablate: scripts/compare.py a --baseline norm=ln compares the variants by their "
        "seeds\n";
    const char *found = strstr(ending.err, line);
    cr_expect(found && !found[strlen(line)], "%s", ending.err);
    ending = ABLATE("--norm=ln", "--placement=pre", "--batch-size=2,3", "--seeds=2", "--out=b",
                    "--", EACH, "text.txt");
    expect_part(ending.err, "scripts/compare.py b --baseline batch-size=2 compares");
    ending = ABLATE("--norm=ln", "--placement=pre", "--seeds=2", "--out=c", "--", EACH, "text.txt");
    cr_expect(!strstr(ending.err, "compare.py"), "%s", ending.err);
    ending =
        ABLATE("--norm,placement=ln:pre,bn:post", "--seeds=2", "--out=d", "--", EACH, "text.txt");
    expect_part(ending.err, "scripts/compare.py d --baseline norm=ln,placement=pre compares");
}
