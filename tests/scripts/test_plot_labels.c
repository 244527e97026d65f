/* Which options distinguish runs in scripts/plot.py and scripts/table.py (not those that only
   watch, follow from others or have no effect), and the rest of the table. */
#include "model/lab/config.h"
#include "tests/logs.h"
#include "tests/scripts.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

TestSuite(plot_labels, .init = folder_enter, .fini = folder_leave);

/* ---- options ---- */

/* Options that may change on --resume do not change what a run learns, except for the text and the
   length. */
Test(plot_labels, the_list_of_watching_options_is_whole) {
    char path[4096];
    snprintf(path, sizeof path, "%s/common/run_options.py", getenv("SCRIPTS"));
    const char *begin = file_text(path, NULL);
    cr_assert(begin && (begin = strstr(begin, "\nWATCHING = {")), "%s", path);
    const char *end = strchr(begin, '}');
    int found = 0;
    for (const struct option *option = config_options; option->kind != OPTION_END; option++) {
        if (!option->name || option->scope != OPTION_FREE || !strcmp(option->name, "corpus") ||
            !strcmp(option->name, "max-iters") || !strcmp(option->name, "max-seconds") ||
            !strcmp(option->name, "stop-at")) // how long a run learns matters
            continue;
        char quoted[64];
        snprintf(quoted, sizeof quoted, "\"%s\"", option->name);
        const char *at = strstr(begin, quoted);
        cr_expect(at && at < end, "--%s is not in WATCHING of scripts/common/run_options.py",
                  option->name);
        found++;
    }
    cr_expect(found > 5);
}

#define HAND                                                                                       \
    "\"norm\": \"%s\", \"placement\": \"pre\", \"n-layer\": %d, \"n-embd\": %d, \"n-head\": 4, "   \
    "\"bn-momentum\": %g, \"norm-groups\": 4, \"max-iters\": %d, \"lr-decay-iters\": %d, "         \
    "\"learning-rate\": %g, \"min-lr\": %g, \"eval-iters\": %d, \"threads\": %d"

Test(plot_labels, runs_made_by_hand_have_their_folders_names) {
    mkdir("runs", 0777);
    run_put_options("runs/first try", 1, 3, HAND, "ln", 2, 64, 0.1, 100, 100, 1e-3, 1e-4, 10, 1);
    run_put_options("runs/wide", 1, 2.5, HAND, "ln", 1, 128, 0.1, 200, 200, 3e-3, 3e-4, 20, 2);
    struct ending ending = script("plot.py runs -o a.svg");
    expect_success(&ending);
    const char *picture = file_text("a.svg", NULL);
    expect_part(picture, ">first try: 3.000<"), expect_part(picture, ">wide: 2.500<");
    cr_expect(!strstr(picture, "n-layer"));

    run_put_options("runs/wide-s2", 2, 2.7, HAND, "ln", 1, 128, 0.1, 200, 200, 3e-3, 3e-4, 10, 1);
    cr_assert(rename("runs/wide", "runs/wide-s1") == 0);
    ending = script("plot.py runs -o a.svg"); // eval-iters and threads make no variant
    expect_success(&ending);
    picture = file_text("a.svg", NULL);
    expect_part(picture, ">first try: 3.000<"), expect_part(picture, ">wide: 2.600<");

    // In an ablation, and where names do not help: options, except those that follow from others.
    text_put(".", "grid.txt", "");
    ending = script("plot.py . -o a.svg");
    expect_success(&ending);
    picture = file_text("a.svg", NULL);
    expect_part(picture, ">n-layer 1, n-embd 128, max-iters 200, learning-rate 3e-3: 2.600<");
    cr_expect(!strstr(picture, "min-lr") && !strstr(picture, "eval-iters"));
}

Test(plot_labels, options_without_effect_make_no_variant) {
    mkdir("runs", 0777);
    text_put(".", "grid.txt", "");
    static const double momentum[] = {0.1, 0.01};
    for (int i = 0; i < 4; i++) {
        char folder[32];
        snprintf(folder, sizeof folder, "runs/%s%d", i < 2 ? "ln" : "bn", i % 2);
        run_put_options(folder, 1, 2 + 0.25 * i, HAND, i < 2 ? "ln" : "bn", 2, 64, momentum[i % 2],
                        100, 100, 1e-3, 1e-4, 10, 1);
    }
    struct ending ending = script("plot.py . -o a.svg");
    cr_expect(ending.status == 0, "%s", ending.err);
    cr_expect_str_eq(ending.err, "plot: ./runs/ln1 is left out: it differs from ./runs/ln0 only in "
                                 "bn-momentum, which has no effect there\n");
    const char *picture = file_text("a.svg", NULL);
    expect_part(picture, ">ln: 2.000<");
    expect_part(picture, ">bn, bn-momentum 0.1: 2.500<");
    expect_part(picture, ">bn, bn-momentum 0.01: 2.750<");
}

/* Grids at equal tokens: larger batches have fewer updates, which is no difference of its own. */
Test(plot_labels, updates_that_equal_tokens_ask_for_make_no_variant) {
    static const int batch[] = {1, 4, 6}, updates[] = {1000, 250, 167};
    for (int more = 0; more < 2; more++) {
        mkdir("runs", 0777);
        for (int i = 0; i < 3; i++) {
            char folder[32];
            snprintf(folder, sizeof folder, "runs/%d", i);
            run_put_options(folder, 1, 2 + 0.25 * i,
                            "\"norm\": \"ln\", \"placement\": \"pre\", \"batch-size\": %d, "
                            "\"grad-accum\": 1, \"block-size\": 16, \"max-iters\": %d",
                            batch[i], updates[i] + more * i);
        }
        struct ending ending = script("table.py runs");
        expect_success(&ending);
        cr_expect(strstr(ending.out, "batch-size"));
        cr_expect(!strstr(ending.out, "max-iters") == !more, "%s", ending.out);
    }
}

/* ---- the loss of the training split ---- */

Test(plot_labels, the_training_part_is_drawn_where_it_was_measured) {
    run_put("old", "ln", 0.01, 1, 3), run_put("new", "bn", 0.01, 1, 2.5);
    text_put(
        "new", "log.csv",
        "step,seconds,tokens,lr,train_loss,val_loss,grad_norm,tokens_per_second,eval_train_loss\n"
        "0,0,0,0.01,4,4,1,960,3.5\n5,0.5,480,0.01,3,,1,960,\n10,1,960,0.01,,2.5,1,960,2.25\n");
    struct ending ending = script("plot.py old new -o a.svg --table=-");
    expect_success(&ending);
    expect_line(ending.out, "curves,new,training split,0,3.5,,,1");
    expect_line(ending.out, "curves,new,training split,10,2.25,,,1");
    cr_expect(!strstr(ending.out, "old,training split") && !strstr(ending.out, "training split,5"));
    expect_part(file_text("a.svg", NULL), ">training split, evaluated<");
    ending = script("plot.py old new -o a.svg --table=- --lines=val,train");
    expect_success(&ending);
    cr_expect(!strstr(ending.out, "training split"));
    cr_expect(!strstr(file_text("a.svg", NULL), "training split"));
    ending = script("plot.py old -o a.svg");
    expect_success(&ending);
    cr_expect(!strstr(file_text("a.svg", NULL), "training split"));
}

/* ---- the table ---- */

Test(plot_labels, a_table_of_runs_made_by_hand) {
    mkdir("runs", 0777);
    run_put_options("runs/a", 1, 3, HAND, "ln", 2, 64, 0.1, 100, 100, 1e-3, 1e-4, 10, 1);
    run_put_options("runs/b", 1, 2.5, HAND, "ln", 1, 64, 0.2, 200, 200, 3e-3, 3e-4, 20, 2);
    struct ending ending = script("table.py runs");
    expect_success(&ending);
    cr_expect(!strncmp(ending.out, "| run | n-layer | max-iters | learning-rate | median |", 54),
              "%s", ending.out);
    expect_line(ending.out,
                "| a | 2 | 100 | 1e-3 | 3.0000 | 3.0000 |  | 3.0000 | 1 | 0 | 0 | 0 | 2 |");
    run_put_options("runs/b2", 2, 2.7, HAND, "ln", 1, 64, 0.1, 200, 200, 3e-3, 3e-4, 10, 1);
    ending = script("table.py runs/a runs/b runs/b2");
    expect_success(&ending);
    expect_line(ending.out, "| 1 | 200 | 3e-3 | 2.6000 | 2.6000 ± 0.1414 | 2.5000 to 2.7000 | "
                            "2.6000 ± 0.1414 | 2 | 0 | 0 | 0 | 2 |");
}

Test(plot_labels, the_table_names_the_grammar) {
    mkdir("runs", 0777);
    static const char *const corpora[] = {"null", "\"a.txt\""};
    for (int i = 0; i < 2; i++) {
        char folder[32], text[512];
        snprintf(folder, sizeof folder, "runs/%d", i);
        mkdir(folder, 0777);
        snprintf(
            text, sizeof text,
            "{\"exit_reason\": \"done\", \"val_loss\": 2, \"best_val_loss\": 2, \"seconds\": 1, "
            "\"options\": {\"corpus\": %s, \"norm\": \"ln\", \"placement\": \"pre\", \"seed\": 1}}",
            corpora[i]);
        text_put(folder, "summary.json", text);
    }
    struct ending ending = script("table.py runs");
    expect_success(&ending);
    expect_part(ending.out, "| 0 | grammar | 2.0000 |"), expect_part(ending.out, "| 1 | a.txt | ");
}

/* Runs of versions without --start had random weights. */
Test(plot_labels, where_a_run_starts_is_named) {
    mkdir("runs", 0777);
    run_put_options("runs/1", 1, 3, HAND, "ln", 2, 64, 0.1, 100, 100, 1e-3, 1e-4, 10, 1);
    run_put_options("runs/2", 1, 2, HAND ", \"start\": \"runs/first\"", "ln", 2, 64, 0.1, 100, 100,
                    1e-3, 1e-4, 10, 1);
    run_put_options("runs/3", 2, 2, HAND ", \"start\": null", "ln", 2, 64, 0.1, 100, 100, 1e-3,
                    1e-4, 10, 1);
    struct ending ending = script("plot.py runs -o a.svg");
    expect_success(&ending);
    const char *picture = file_text("a.svg", NULL);
    expect_part(picture, ">start random: 2.500<"), expect_part(picture, ">start first: 2.000<");
    ending = script("table.py runs/2 runs/3");
    expect_success(&ending);
    expect_part(ending.out, "| runs/first | 2.0000 |"),
        expect_part(ending.out, "| random | 2.0000");
}

Test(plot_labels, the_tables_command) {
    struct ending ending = script("table.py --help");
    expect_success(&ending);
    expect_part(ending.out, "scripts/table.py [--csv=FILE] FOLDER | RUN...");
    static const struct {
        int status;
        const char *command, *complaint;
    } wrong[] = {{2, "table.py", "table: the following arguments are required: FOLDER | RUN"},
                 {2, "table.py --cvs=x runs", "table: unrecognized arguments: --cvs=x"},
                 {2, "table.py --csv= runs", "table: --csv: must name a file"},
                 {1, "table.py nosuch", "table: nosuch: no run in it (a RUN is"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ending = script("%s", wrong[i].command);
        cr_expect(ending.status == wrong[i].status, "%s: %d", wrong[i].command, ending.status);
        expect_part(ending.err, wrong[i].complaint);
        cr_expect(!*ending.out && strchr(ending.err, '\n') == ending.err + strlen(ending.err) - 1);
    }
}
