/* scripts/plot.py --chart=differences: pairs by seed, intervals against tabulated quantiles of
   Student's t, and messages where there is too little to pair. */
#include "tests/logs.h"
#include "tests/scripts.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

TestSuite(plot_differences, .init = folder_enter, .fini = folder_leave);

/* The cells low and high in the row of a variant's mean. */
static void interval_of(const char *table, const char *variant, double mean, int seeds, double *low,
                        double *high) {
    char row[128];
    double at;
    int runs;
    snprintf(row, sizeof row, "\ndifferences,%s,mean,,", variant);
    const char *found = strstr(table, row);
    cr_assert(found && sscanf(found + strlen(row), "%lf,%lf,%lf,%d", &at, low, high, &runs) == 4,
              "no row %s in:\n%s", row, table);
    cr_expect(fabs(at - mean) < 1e-7 && runs == seeds, "%s: %g of %d", variant, at, runs);
}

/* ---- numbers ---- */

Test(plot_differences, intervals_are_students) {
    // The 0.995 quantile by the number of pairs.
    static const struct {
        int seeds;
        double quantile;
    } known[] = {{2, 63.65674}, {3, 9.924843},  {4, 5.840909},
                 {5, 4.604095}, {11, 3.169273}, {31, 2.749996}};
    enum { KNOWN = sizeof known / sizeof *known };
    double sum[KNOWN] = {0}, squares[KNOWN] = {0};
    char folder[64], norm[16];
    mkdir("runs", 0777);
    for (int seed = 1; seed <= 31; seed++) {
        double start = 2 + 0.1 * (seed % 7); // changes both of a pair alike
        snprintf(folder, sizeof folder, "runs/ln%d", seed);
        run_put(folder, "ln", 0.01, seed, start);
        for (int i = 0; i < KNOWN; i++) {
            if (seed > known[i].seeds) continue;
            double difference = 0.01 * (seed % 3) + 0.001 * i - 0.005;
            snprintf(folder, sizeof folder, "runs/n%d-%d", i, seed);
            snprintf(norm, sizeof norm, "n%d", i);
            run_put(folder, norm, 0.01, seed, start + difference);
            sum[i] += difference, squares[i] += difference * difference;
        }
    }
    struct ending ending = script("plot.py runs --baseline=norm=ln -o a.svg --table=a.csv");
    expect_success(&ending);
    const char *table = file_text("a.csv", NULL);
    for (int i = 0; i < KNOWN; i++) {
        double n = known[i].seeds, mean = sum[i] / n, low, high;
        double deviation = sqrt((squares[i] - n * mean * mean) / (n - 1));
        double half = known[i].quantile * deviation / sqrt(n);
        snprintf(norm, sizeof norm, "n%d", i);
        interval_of(table, norm, mean, known[i].seeds, &low, &high);
        cr_expect(fabs(high - mean - half) < 1e-5 * half && fabs(mean - low - half) < 1e-5 * half,
                  "%d pairs: %g to %g, not %g around %g", known[i].seeds, low, high, half, mean);
    }
    expect_line(table, "differences,n1,difference,3,-0.004,,,");
    cr_expect(!strstr(table, "differences,ln,"));
    const char *picture = file_text("a.svg", NULL);
    expect_part(picture, ">final validation loss minus that of ln (nats per character)<");
    expect_part(picture, ">mean, 99 % Student-t interval<");
    expect_part(picture, ">arrow: the interval continues<");
    cr_expect(!strstr(picture, "common seed"));
}

/* ---- pairs ---- */

/* Two seeds with this norm, placement and bn-momentum, and the losses `loss` and `loss` + 0.1. */
static void pair_put(const char *norm, const char *place, double momentum, double loss) {
    for (int seed = 1; seed <= 2; seed++) {
        char folder[64];
        snprintf(folder, sizeof folder, "runs/%s-%s-%g-s%d", norm, place, momentum, seed);
        run_put_options(folder, seed, loss + 0.1 * (seed - 1),
                        "\"norm\": \"%s\", \"placement\": \"%s\", \"bn-momentum\": %g", norm, place,
                        momentum);
    }
}

Test(plot_differences, the_baseline_agrees_in_everything_else) {
    mkdir("runs", 0777);
    text_put(".", "grid.txt", "");
    pair_put("ln", "pre", 0.1, 2), pair_put("ln", "post", 0.1, 3);
    pair_put("bn", "pre", 0.1, 2.25), pair_put("bn", "post", 0.1, 3.5);
    pair_put("bn", "pre", 0.01, 2.5); // which has no effect on ln
    struct ending ending = script("plot.py . --baseline=norm=ln -o a.svg --table=-");
    expect_success(&ending);
    expect_line(ending.out, "differences,\"bn, pre, bn-momentum 0.1\",difference,2,0.25,,,");
    expect_line(ending.out, "differences,\"bn, pre, bn-momentum 0.01\",difference,1,0.5,,,");
    expect_line(ending.out, "differences,\"bn, post, bn-momentum 0.1\",difference,1,0.5,,,");
    ending = script("plot.py . --baseline=norm=ln,placement=pre -o a.svg --table=-");
    expect_success(&ending);
    expect_line(ending.out, "differences,\"ln, post\",difference,1,1,,,");
    expect_line(ending.out, "differences,\"bn, post, bn-momentum 0.1\",difference,1,1.5,,,");

    ending = script("plot.py . --baseline=norm=bn -o b.svg");
    cr_expect(ending.status == 1 && !file_there("b.svg"));
    expect_part(ending.err, "plot: --baseline: bn, pre, bn-momentum 0.01 and bn, pre, bn-momentum "
                            "0.1 could both be the baseline of ln, pre");
    ending = script("plot.py . --baseline=norm=bn,bn-momentum=1e-1 -o b.svg --table=-");
    expect_success(&ending);
    expect_line(ending.out, "differences,\"ln, pre\",difference,1,-0.25,,,");
}

/* The style of the first dot of this variant in a picture of it and the baseline ln, pre. */
static void dot_style(const char *picture, const char *colour, char *style, size_t size) {
    char stroke[32];
    snprintf(stroke, sizeof stroke, "; stroke: %s", colour);
    const char *at = strstr(picture, stroke);
    cr_assert(at, "no dot of %s", colour);
    while (strncmp(at, "<use ", 5)) at--;
    const char *marker = strchr(at, '#'), *fill = strstr(at, "fill: ");
    snprintf(style, size, "%.11s %.13s", marker, fill);
}

/* Dots have no line style, so the marker tells placements apart. */
Test(plot_differences, placements_have_markers_of_their_own) {
    static const char *const places[] = {
        "pre",    "post",        "sandwich",   "peri",   "reordered", "deepnorm",
        "mix",    "residual",    "keel",       "lns",    "bare",      "siamese",
        "hybrid", "hybrid-star", "layerscale", "dsinit", "admin"};
    enum { PLACES = sizeof places / sizeof *places };
    mkdir("runs", 0777);
    for (int i = 0; i < PLACES; i++) {
        pair_put("ln", places[i], 0.1, 2 + 0.01 * i);
        pair_put("bn", places[i], 0.1, 3 + 0.02 * i);
    }
    struct ending ending = script("plot.py runs --baseline=norm=ln -o a.svg");
    expect_success(&ending);
    const char *at = file_text("a.svg", NULL);
    char style[2 * PLACES][32];
    int dots = 0;
    for (; dots < 2 * PLACES && (at = strstr(at, "; stroke: #0072b2")); at++, dots++)
        dot_style(at, "#0072b2", style[dots], sizeof *style);
    cr_assert(dots == 2 * PLACES, "%d dots", dots);
    for (int i = 0; i < dots; i++)
        for (int j = 0; j < i; j++)
            cr_expect((i / 2 == j / 2) == !strcmp(style[i], style[j]), "%s and %s: %s, %s",
                      places[i / 2], places[j / 2], style[i], style[j]);
}

Test(plot_differences, too_few_seeds_are_said) {
    mkdir("runs", 0777);
    text_put(".", "grid.txt", "");
    pair_put("ln", "pre", 0.1, 2), pair_put("rms", "pre", 0.1, 2.5),
        pair_put("gn", "post", 0.1, 2.5);
    run_put_options("runs/bn1", 2, 2.5,
                    "\"norm\": \"bn\", \"placement\": \"pre\", \"bn-momentum\": 0.1");
    run_put_options("runs/bn2", 3, 9.5,
                    "\"norm\": \"bn\", \"placement\": \"pre\", \"bn-momentum\": 0.1");
    run_put_options("runs/in3", 3, 9.5,
                    "\"norm\": \"in\", \"placement\": \"pre\", \"bn-momentum\": 0.1");
    run_put_options("runs/rms3", 3, 9,
                    "\"norm\": \"rms\", \"placement\": \"pre\", \"bn-momentum\": 0.1");
    summary_put_options("runs/rms3", "diverged", 3,
                        "\"norm\": \"rms\", \"placement\": \"pre\", \"bn-momentum\": 0.1");
    run_put_options("runs/ln3", 3, 9,
                    "\"norm\": \"ln\", \"placement\": \"pre\", \"bn-momentum\": 0.1");
    summary_put_options("runs/ln3", "interrupted", 3,
                        "\"norm\": \"ln\", \"placement\": \"pre\", \"bn-momentum\": 0.1");
    struct ending ending = script("plot.py . --baseline=norm=ln -o a.svg --table=-");
    expect_success(&ending);
    expect_line(ending.out, "differences,\"bn, pre\",difference,2,0.4,,,");
    expect_line(ending.out, "differences,\"bn, pre\",mean,,0.4,,,1");
    expect_line(ending.out, "differences,\"rms, pre\",diverged,3,,,,");
    cr_expect(!strstr(ending.out, "difference,3") && !strstr(ending.out, "in, pre"), "%s",
              ending.out);
    static const char *const said[] = {">(not decided: one common seed)<",
                                       ">(not decided: no common seed)<", ">(no baseline)<",
                                       ">no interval with fewer than 2 common seeds<"};
    for (int i = 0; i < 4; i++) expect_part(file_text("a.svg", NULL), said[i]);
    ending = script("plot.py . --baseline=norm=ln --size=3.3x2.5 -o a.svg");
    expect_success(&ending);
    expect_part(file_text("a.svg", NULL), ">(not decided)<");
}

/* ---- the command ---- */

Test(plot_differences, wrong_baselines) {
    run_put("a", "ln", 0.01, 1, 3), run_put("b", "bn", 0.01, 1, 3), run_put("c", "bn", 0.01, 1, 3);
    static const struct {
        int status;
        const char *command, *complaint;
    } wrong[] = {
        {2, "plot.py a b --chart=differences",
         "plot: --chart=differences: needs the variant to compare "
         "with (--baseline=NAME=VALUE, such as --baseline=norm=ln)"},
        {2, "plot.py a b --chart=dots --baseline=norm=ln",
         "plot: --baseline: goes with --chart=diff"},
        {2, "plot.py a b --baseline=ln", "'ln' is not NAME=VALUE,..."},
        {2, "plot.py a b --probes=terms --baseline=norm=ln", "plot: --baseline: not with --probes"},
        {1, "plot.py a b --baseline=norm=rms",
         "plot: --baseline=norm=rms: no such run (there are bn, ln)"},
        {1, "plot.py a b --baseline=placement=pre",
         "plot: --baseline=placement=pre: these runs do not differ in placement (they differ in "
         "norm)"},
        {1, "plot.py a --baseline=norm=ln", "do not differ in norm (they differ in no option)"},
        {1, "plot.py a b c --baseline=norm=ln", "runs of the same options and seed have no pairs"},
        {1, "plot.py a b c --by=variant --baseline=norm=ln", "has the same seed 1"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct ending ending = script("%s -o x.svg", wrong[i].command);
        cr_expect(ending.status == wrong[i].status, "%s: %d", wrong[i].command, ending.status);
        expect_part(ending.err, wrong[i].complaint);
        cr_expect(!strstr(ending.err, "Traceback") && !file_there("x.svg"), "%s", ending.err);
    }
}
