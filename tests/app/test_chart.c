/* A chart in characters is a function of its curves and its size. */
#include "model/app/chart.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct chart chart;
static char text[CHART_TEXT];

static struct curve *add(const char *name, const double *y, size_t count) {
    struct curve *curve = &chart.curve[chart.curves++];
    strcpy(curve->name, name);
    for (size_t i = 0; i < count; i++) curve_add(curve, (double)i, y[i]);
    return curve;
}

static void start(void) {
    chart = (struct chart){.end = 4, .label = "nats"};
}

/* Draws the chart into `text`. */
static bool draw(size_t columns, size_t rows) {
    FILE *out = fmemopen(text, sizeof text, "w");
    *text = 0;
    const bool drawn = chart_draw(&chart, columns, rows, out);
    fclose(out);
    return drawn;
}

TestSuite(chart, .init = start);

Test(chart, a_straight_line_in_braille) {
    chart.utf8 = true;
    add("loss", (double[]){5, 4, 3, 2, 1}, 5);
    cr_expect(draw(33, 5));
    cr_expect_str_eq(text, "⠒⠒ loss 1.000  nats\n"
                           "      5 ┤⠉⠒⠒⠤⠤⣀⣀\n"
                           "        │       ⠉⠉⠒⠒⠤⠤⢄⣀⣀⡀\n"
                           "        │                ⠈⠉⠑⠒⠢⠤⢄⣀\n"
                           "        └0───────────2──────────4\n");
}

Test(chart, what_is_not_finite_or_has_no_logarithm_is_not_shown) {
    cr_expect(!draw(60, 10) && !*text, "no curve");
    add("loss", (double[]){NAN, INFINITY, -INFINITY}, 3);
    cr_expect(!draw(60, 10) && !*text, "no point");
    chart.logarithmic = true;
    add("zero", (double[]){0, -1}, 2);
    cr_expect(!draw(60, 10), "no logarithm");
    add("one", (double[]){0, 1}, 2);
    cr_expect(draw(60, 10), "one point");
}

Test(chart, points_beyond_the_axis_are_not_shown) {
    chart.end = 2;
    add("loss", (double[]){2, 2, 2, 100, 200}, 5);
    cr_assert(draw(60, 6));
    cr_expect(!strstr(text, "100 +") && !strstr(text, "200 +"), "%s", text);
}

/* The columns that a line takes: bytes that do not continue a character of UTF-8. */
static size_t width(const char *line) {
    size_t columns = 0;
    for (; *line && *line != '\n'; line++) {
        if (*line == '\033') line += strcspn(line, "m");
        columns += *line != 'm' && (*line & 0xc0) != 0x80;
    }
    return columns;
}

Test(chart, never_larger_than_asked_for) {
    double y[300];
    for (int i = 0; i < 300; i++) y[i] = i % 7 ? 1e-5 * i : 1e10 / (1 + i);
    chart.end = 299;
    for (int k = 0; k < CHART_CURVES; k++) add("a name of 23 characters", y + k, (size_t)(300 - k));
    for (int kind = 0; kind < 8; kind++) {
        chart.utf8 = kind & 1, chart.colour = kind & 2, chart.logarithmic = kind & 4;
        for (size_t columns = 0; columns < 300; columns += columns < 90 ? 1 : 23)
            for (size_t rows = 0; rows < 20; rows++) {
                bool drawn = draw(columns, rows);
                cr_assert(drawn == (columns >= 32 && rows >= 5));
                size_t lines = 0;
                for (const char *line = text; *line; line = strchr(line, '\n') + 1, lines++)
                    cr_expect(width(line) <= columns, "%zu columns: %s", columns, line);
                cr_expect(lines == (drawn ? rows < CHART_ROWS ? rows : CHART_ROWS : 0));
            }
    }
    cr_expect(strlen(text) < CHART_TEXT / 2);
}

Test(chart, labels_are_round_numbers_of_their_row) {
    srand(1);
    for (int i = 0; i < 200; i++) {
        start();
        chart.logarithmic = i % 2;
        double low = pow(10, rand() % 8 - 4) * (1 + rand() % 100), high = low * (1.001 + i * 0.05);
        add("loss", (double[]){high, low}, 2);
        cr_assert(draw(60, 15));
        const double dot = chart.logarithmic ? log(high / low) / 12 : (high - low) / 12;
        char *line = strchr(text, '\n') + 1;
        for (int row = 0; row < 13; row += 3) {
            double label = strtod(line, NULL);
            double centre = chart.logarithmic ? high * exp(-row * dot) : high - row * dot;
            double off = chart.logarithmic ? log(label / centre) : label - centre;
            cr_expect(fabs(off) < 0.52 * dot, "%g to %g, row %d: %g is not %g", low, high, row,
                      label, centre);
            for (int k = 0; k < 3; k++) line = strchr(line, '\n') + 1;
        }
    }
}

/* Any number of values keeps to CURVE_POINTS points, which are their means, in order. */
Test(chart, a_curve_of_many_values_has_means) {
    struct curve *curve = &chart.curve[0];
    const size_t values = 100003;
    for (size_t i = 0; i < values; i++) curve_add(curve, (double)i, 2 * (double)i);
    cr_expect(curve->count > CURVE_POINTS / 2 - 1 && curve->count < CURVE_POINTS);
    cr_expect(curve->last == 2 * (double)(values - 1));
    for (size_t i = 0; i < curve->count; i++) {
        double mean = ((double)i + 0.5) * (double)curve->merge - 0.5;
        cr_assert(curve->point[i].x == mean && curve->point[i].y == 2 * mean, "point %zu", i);
    }
}
