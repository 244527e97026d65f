/* scripts/plot.py --probes: every kind of picture from short real runs, seeds as bands, malformed
   files. */
#include "tests/scripts.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(plot_probes, .init = folder_enter, .fini = folder_leave);

#define HEADER "step,layer,site,metric,value\n"

/* Two layers of two heads; updates 0 to 3 are probed. */
static void run_put(const char *folder, const char *options) {
    struct ending ending = train(TINY "--n-layer=2 --learning-rate=0.01 --probe-interval=1 "
                                      "--checkpoint-interval=0 --eval-iters=1 "
                                      "--grammar-chars=2000 --quiet --out=%s %s",
                                 folder, options);
    cr_assert(ending.status == 0, "%s", ending.err);
}

/* The value in the row of the run's probes.csv that begins like this. */
static const char *probe_of(const char *folder, const char *row) {
    static char value[64];
    char path[128], line[128];
    snprintf(path, sizeof path, "%s/probes.csv", folder);
    snprintf(line, sizeof line, "\n%s,", row);
    const char *at = strstr(file_text(path, NULL), line);
    cr_assert(at && sscanf(at + strlen(line), "%63s", value) == 1, "no row %s", row);
    return value;
}

/* ---- every kind ---- */

struct kind {
    char name[16];
    char row[64];      // a row of bn's probes.csv up to its value
    char line[64];     // the same row in the table up to its position
    char label[8][64]; // in the picture
};

ParameterizedTestParameters(plot_probes, ln_beside_bn) {
    static struct kind kinds[] = {
        {"distance",
         "3,1,ln_2,dist_var",
         "dist_var ln_2 layer 1,3",
         {">training step<", ">layer 1<", ">ln_1<", ">ln_f<", ">means: batch to running,<"}},
        {"discrepancy",
         "2,,ln_f,tid_mean",
         "tid_mean ln_f,2",
         {">layer 0<", ">running deviation<"}},
        {"terms", "3,0,ln_1,g_mean", "g_mean ln_1 layer 0,3", {">mean, ‖g_mean‖<"}},
        {"updates",
         "1,1,mlp.c_proj.weight,update_ratio",
         "update_ratio mlp.c_proj.weight layer 1,1",
         {">MLP<", ">embeddings<", ">attn.c_attn.weight<", ">wte.weight<"}},
        {"layers",
         "3,1,attn,stream_rms", // after attention, in the middle of layer 1
         "stream_rms stream step 3,1.5",
         {">depth (layers)<", ">step 0<", ">step 3<", ">mlp<", ">residual stream<"}},
        {"attention",
         "3,1,head.0,entropy",
         "entropy step 3 layer 1,0",
         {">entropy (nats)<", ">largest logit<", ">head<", ">layer<", ">a weight above 0.99<"}},
    };
    return cr_make_param_array(struct kind, kinds, sizeof kinds / sizeof *kinds);
}

ParameterizedTest(struct kind *kind, plot_probes, ln_beside_bn) {
    char line[256];
    run_put("ln", "--norm=ln"), run_put("bn", "--norm=bn");
    struct ending ending =
        script("plot.py --probes=%s ln bn -o a.svg --table=a.csv --title=A~title", kind->name);
    expect_success(&ending);
    cr_expect_str_eq(ending.out, "a.svg\n");
    const char *picture = file_text("a.svg", NULL);
    expect_picture("a.svg", "<?xml", "</svg>");
    expect_part(picture, ">A title<");
    expect_part(picture, !strcmp(kind->name, "attention") ? ">bn, step 3<" : ">bn<");
    expect_part(picture, !strcmp(kind->name, "attention") ? ">ln, step 3<" : ">ln<");
    for (int i = 0; i < 8 && *kind->label[i]; i++) expect_part(picture, kind->label[i]);
    bool map = !strcmp(kind->name, "attention");
    snprintf(line, sizeof line, "probes,bn,%s,%s,,,%s", kind->line, probe_of("bn", kind->row),
             map ? "" : "1");
    expect_line(file_text("a.csv", NULL), line);
}

Test(plot_probes, a_picture_stands_with_its_run) {
    run_put("one", "");
    struct ending ending = script("plot.py --probes=distance,terms --metrics=g_var,dist_mean "
                                  "--sites=ln_2 one --dpi=50 --table=a.csv");
    expect_success(&ending);
    cr_expect_str_eq(ending.out, "one/distance-terms.png\n");
    expect_picture("one/distance-terms.png", "\x89PNG", "IEND");
    const char *table = file_text("a.csv", NULL);
    expect_part(table, "\nprobes,one,g_var ln_2 layer 1,3,");
    expect_part(table, "\nprobes,one,dist_mean ln_2 layer 0,0,");
    cr_expect(!strstr(table, "g_mean") && !strstr(table, "ln_1"), "%s", table);
}

/* ---- seeds ---- */

/* Three runs of one variant with these texts as probes. */
static void seeds_put(const char *const text[3]) {
    char folder[16], options[32];
    for (int i = 0; i < 3; i++) {
        snprintf(folder, sizeof folder, "s%d", i + 1);
        snprintf(options, sizeof options, "--seed=%d", i + 1);
        run_put(folder, options);
        text_put(folder, "probes.csv", text[i]);
    }
}

Test(plot_probes, seeds_are_bands) {
    // The last seed was stopped before step 10.
    static const char *const text[] = {
        HEADER "0,0,ln_1,dist_mean,1\n0,,embd,stream_rms,4\n10,0,ln_1,dist_mean,8\n",
        HEADER "0,0,ln_1,dist_mean,3\n0,,embd,stream_rms,5\n10,0,ln_1,dist_mean,6\n",
        HEADER "0,0,ln_1,dist_mean,8\n0,,embd,stream_rms,9\n5,0,ln_1,dist_mean,7\n"};
    seeds_put(text);
    struct ending ending = script("plot.py --probes=distance s1 s2 s3 -o a.svg --table=a.csv");
    expect_success(&ending);
    const char *table = file_text("a.csv", NULL), *picture = file_text("a.svg", NULL);
    expect_line(table, "probes,\"ln, pre\",dist_mean ln_1 layer 0,0,4,1,8,3");
    expect_line(table, "probes,\"ln, pre\",dist_mean ln_1 layer 0,10,7,6,8,2");
    cr_expect(!strstr(table, "layer 0,5,"), "%s", table); // of one seed alone
    expect_part(picture, ">ln, pre, 3 seeds<");
    expect_part(picture, ">mean of 3 seeds<");
    expect_part(picture, ">band: lowest to highest<");
    expect_part(picture, ">paler: fewer seeds<");

    ending = script("plot.py --probes=layers s1 s2 s3 -o a.svg --table=a.csv --center=median "
                    "--band=sd --columns=norm,placement");
    expect_success(&ending);
    table = file_text("a.csv", NULL);
    expect_line(table, "probes,\"ln, pre\",stream_rms stream step 0,0,5,2.35424869,7.64575131,3");
    expect_part(file_text("a.svg", NULL), ">median of 3 seeds<");

    ending = script("plot.py --probes=distance s1 s2 s3 -o a.svg --table=a.csv --by=run");
    expect_success(&ending);
    expect_line(file_text("a.csv", NULL), "probes,s2,dist_mean ln_1 layer 0,10,6,,,1");
    ending = script("plot.py --probes=distance s1 s2 s3 -o a.svg --table=a.csv --band=none");
    expect_success(&ending);
    expect_line(file_text("a.csv", NULL), "probes,\"ln, pre\",dist_mean ln_1 layer 0,0,4,,,3");
    cr_expect(!strstr(file_text("a.svg", NULL), ">band"));
}

Test(plot_probes, heads_of_seeds_go_by_their_values) {
    static const char *const text[] = {HEADER "0,0,head.0,entropy,1\n0,0,head.1,entropy,3\n",
                                       HEADER "0,0,head.0,entropy,4\n0,0,head.1,entropy,2\n",
                                       HEADER "0,0,head.0,entropy,3\n0,0,head.1,entropy,5\n"};
    seeds_put(text);
    struct ending ending = script("plot.py --probes=attention . -o a.svg --table=a.csv");
    expect_success(&ending);
    const char *table = file_text("a.csv", NULL);
    expect_line(table, "probes,\"ln, pre\",entropy step 0 layer 0,0,2,,,");
    expect_line(table, "probes,\"ln, pre\",entropy step 0 layer 0,1,4,,,");
    expect_part(file_text("a.svg", NULL), ">head, in the order of values<");
}

Test(plot_probes, depths_are_lines_in_a_column_for_each_placement) {
    run_put("a", "--preln --n-layer=2"), run_put("b", "--preln --n-layer=3");
    run_put("c", "--postln --n-layer=2"), run_put("d", "--postln --n-layer=3");
    struct ending ending = script("plot.py --probes=layers --metrics=grad_norm --steps=1 . "
                                  "--sites=mlp.c_proj.weight --columns=placement -o a.svg "
                                  "--table=a.csv");
    char line[256];
    expect_success(&ending);
    snprintf(line, sizeof line,
             "probes,\"post, n-layer 3\",grad_norm mlp.c_proj.weight step 1,3,%s,,,1",
             probe_of("d", "1,2,mlp.c_proj.weight,grad_norm"));
    expect_line(file_text("a.csv", NULL), line);
    const char *picture = file_text("a.svg", NULL);
    static const char *const labels[] = {">pre<",       ">post<",      ">n-layer 2<",
                                         ">n-layer 3<", ">at step 1<", ">mlp.c_proj.weight<"};
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) expect_part(picture, labels[i]);
    cr_expect(!strstr(picture, ">a<") && !strstr(picture, ">step 0<"));
}

/* ---- malformed files ---- */

Test(plot_probes, bad_files_are_named_and_the_others_drawn) {
    static const struct {
        const char *folder, *text, *complaint;
    } bad[] = {
        {"none", NULL, "none/probes.csv: No such file or directory (./train --probe-interval=K"},
        {"empty", "", "empty/probes.csv: empty"},
        {"header", HEADER, "header/probes.csv: only the header"},
        {"cells", HEADER "0,0,ln_1,dist_mean\n", "cells/probes.csv: damaged: line 2 has 4 cells"},
        {"number", HEADER "0,0,ln_1,dist_mean,1\n0,x,ln_1,dist_mean,1\n",
         "number/probes.csv: damaged: line 3: invalid literal"},
        {"columns", "step,value\n0,1\n", "columns/probes.csv: damaged: line 1 is not step,layer,"},
        {"bytes", "\xff\xfe\n", "bytes/probes.csv: damaged: not a text"},
    };
    run_put("good", "--norm=bn");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        run_put(bad[i].folder, "--probe-interval=0");
        if (bad[i].text) text_put(bad[i].folder, "probes.csv", bad[i].text);
    }
    struct ending ending = script("plot.py --probes=distance good none empty header cells number "
                                  "columns bytes -o a.svg");
    cr_expect(ending.status == 1, "%d", ending.status);
    cr_expect_str_eq(ending.out, "a.svg\n");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) expect_part(ending.err, bad[i].complaint);
    cr_expect(!strstr(ending.err, "Traceback"), "%s", ending.err);
    expect_part(file_text("a.svg", NULL), ">good<");

    ending = script("plot.py --probes=distance none -o b.svg");
    cr_expect(ending.status == 1 && !file_there("b.svg"), "%d", ending.status);
    cr_expect_str_eq(ending.err, "plot: none/probes.csv: No such file or directory "
                                 "(./train --probe-interval=K writes it)\n");
}

Test(plot_probes, a_run_under_way_and_one_that_diverged) {
    run_put("now", "");
    text_put("now", "probes.csv", // zeros and non-numbers have no position on a logarithmic axis
             HEADER "0,0,ln_1,dist_mean,nan\n0,0,ln_1,dist_var,0\n1,0,ln_1,dist_mean,2\n"
                    "2,0,ln_1,dist_mean,0\n3,0,ln_1,dist_mean,4\n4,0,ln_1,di");
    struct ending ending = script("plot.py --probes=distance now -o a.svg --table=a.csv");
    expect_success(&ending);
    const char *table = file_text("a.csv", NULL);
    expect_line(table, "probes,now,dist_mean ln_1 layer 0,1,2,,,1");
    expect_line(table, "probes,now,dist_mean ln_1 layer 0,3,4,,,1");
    cr_expect(!strstr(table, "layer 0,4,") && !strstr(table, "dist_mean ln_1 layer 0,0,"));
    expect_picture("a.svg", "<?xml", "</svg>");
}

/* ---- the command ---- */

Test(plot_probes, wrong_commands) {
    run_put("run", "--norm=dyt");
    static const struct {
        int status;
        const char *command, *complaint;
    } wrong[] = {
        {2, "plot.py run --probes=loss", "'loss' is not one or more of distance, discrepancy, "},
        {2, "plot.py run --probes=layers,terms", "--probes=layers,terms: not in one picture"},
        {2, "plot.py run --probes=terms --chart=dots", "--chart: not with --probes"},
        {2, "plot.py run --sites=ln_1", "--sites: goes with --probes"},
        {2, "plot.py run --probes=terms --columns=norm", "--columns: goes with --probes=layers"},
        {2, "plot.py run --probes=layers --steps=1,x", "'1,x' is not N,..."},
        {1, "plot.py run --probes=layers --steps=0,9",
         "--steps=9: not probed in run (0, 1, 2, 3 are)"},
        {1, "plot.py run --probes=layers --metrics=tid_var",
         "--metrics=tid_var: --probes=layers has stream_rms, "},
        {1, "plot.py run --probes=updates --sites=wte",
         "--sites=wte: update_ratio is measured at "},
        {1, "plot.py run --probes=layers --columns=size", "--columns=size: not an option of "},
        {1, "plot.py run --probes=layers --ylim=1:2", "--ylim: for one metric"},
        {1, "plot.py run --probes=terms",
         "--probes=terms: none of these runs has g_mean or g_var"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct ending ending = script("%s -o a.svg", wrong[i].command);
        const char *end = strchr(ending.err, '\n');
        cr_expect(ending.status == wrong[i].status, "%s: %d", wrong[i].command, ending.status);
        cr_expect(!strncmp(ending.err, "plot: ", 6) && end && !end[1], "%s", ending.err);
        expect_part(ending.err, wrong[i].complaint);
    }
    cr_expect(!file_there("a.svg"));
}
