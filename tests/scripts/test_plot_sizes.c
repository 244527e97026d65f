/* scripts/plot.py in pictures of a given size: the data gets most of it, legends are complete and
   do not overlap it, and lines that coincide can be told apart; panels in columns. */
#include "tests/logs.h"
#include "tests/scripts.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

TestSuite(plot_sizes, .init = folder_enter, .fini = folder_leave);

/* ---- what an SVG says ---- */

struct box {
    double left, top, right, bottom; // points, from the upper left corner
};

static struct box picture_box(const char *picture) {
    struct box box = {0};
    const char *at = strstr(picture, "viewBox=\"0 0 ");
    cr_assert(at && sscanf(at, "viewBox=\"0 0 %lf %lf", &box.right, &box.bottom) == 2);
    return box;
}

/* The rectangle in which the lines of a chart are drawn. */
static struct box axes_box(const char *picture, int number) {
    char name[32];
    double x[3], y[3];
    snprintf(name, sizeof name, "<g id=\"axes_%d\">", number);
    const char *at = strstr(picture, name);
    cr_assert(at && (at = strstr(at, " d=\"M ")), "no axes %d", number);
    cr_assert(sscanf(at, " d=\"M %lf %lf L %lf %lf L %lf %lf", x, y, x + 1, y + 1, x + 2, y + 2) ==
              6);
    return (struct box){x[0], y[2], x[1], y[0]};
}

/* The position of a text: the lower left corner of its letters. */
static void text_place(const char *picture, const char *text, double *x, double *y) {
    char bounded[128];
    snprintf(bounded, sizeof bounded, ">%s<", text);
    const char *at = strstr(picture, bounded);
    cr_assert(at, "no text %s", text);
    while (strncmp(at, "<text", 5)) at--;
    const char *of_x = strstr(at, " x=\""), *of_y = strstr(at, " y=\"");
    cr_assert(of_x && of_y && sscanf(of_x, " x=\"%lf", x) == 1 && sscanf(of_y, " y=\"%lf", y) == 1);
}

/* An ablation's folder: the first norms in the first placements, two seeds each. */
static const char *const norms[] = {"ln", "rms", "bn", "gn", "dyt", "none"}, *const places[] = {
                                                                                 "post", "pre",
                                                                                 "sandwich"};

static void ablation_put(int norm_count, int place_count) {
    mkdir("A", 0777), mkdir("A/runs", 0777);
    text_put("A", "grid.txt", "");
    for (int i = 0; i < 2 * norm_count * place_count; i++) {
        char folder[64];
        const char *norm = norms[i / 2 % norm_count], *place = places[i / 2 / norm_count];
        snprintf(folder, sizeof folder, "A/runs/%d", i);
        run_put_options(folder, i % 2 + 1, 2 + 0.01 * i, "\"norm\": \"%s\", \"placement\": \"%s\"",
                        norm, place);
    }
}

/* ---- sizes ---- */

struct size {
    double width, height; // inches
    int norms, places;
};

ParameterizedTestParameters(plot_sizes, data_has_most_of_the_picture) {
    static struct size sizes[] = {{3.3, 2.5, 2, 1},  {3.3, 2.5, 3, 2},  {3.3, 2.5, 6, 3},
                                  {6.75, 2.6, 2, 1}, {6.75, 2.6, 6, 3}, {10, 4.2, 6, 3}};
    return cr_make_param_array(struct size, sizes, sizeof sizes / sizeof *sizes);
}

ParameterizedTest(struct size *size, plot_sizes, data_has_most_of_the_picture) {
    ablation_put(size->norms, size->places);
    struct ending ending =
        script("plot.py A --chart=curves --size=%gx%g -o a.svg", size->width, size->height);
    expect_success(&ending);
    const char *picture = file_text("a.svg", NULL);
    const struct box all = picture_box(picture), data = axes_box(picture, 1);
    cr_expect(fabs(all.right - 72 * size->width) < 0.1 &&
              fabs(all.bottom - 72 * size->height) < 0.1);
    cr_expect(data.right - data.left > 0.8 * all.right, "%g to %g of %g", data.left, data.right,
              all.right);
    cr_expect(data.bottom - data.top > 0.4 * all.bottom, "%g to %g of %g", data.top, data.bottom,
              all.bottom);
    double x, y, seen[32][2], axis;
    text_place(picture, "training step", &x, &axis);
    int count = 0;
    for (int i = 0; i < size->norms * size->places; i++, count++) {
        char label[64], full[80];
        const char *norm = norms[i % size->norms], *place = places[i / size->norms];
        snprintf(label, sizeof label, "%s%s%s", norm, size->places > 1 ? ", " : "",
                 size->places > 1 ? place : "");
        snprintf(full, sizeof full, "%s: %.3f", label, 2 + 0.01 * (2 * i + 0.5));
        char bounded[96];
        snprintf(bounded, sizeof bounded, ">%s<", full);
        const char *text = strstr(picture, bounded) ? full : label;
        text_place(picture, text, &x, &y);
        bool inside = size->width >= 10 && y < data.bottom;
        cr_expect(inside || y > axis, "%s overlaps the chart", text);
        cr_expect(x > 0 && x + 3 * (double)strlen(text) < all.right && y < all.bottom, "%s: %g, %g",
                  text, x, y);
        for (int j = 0; j < count; j++)
            cr_expect(fabs(y - seen[j][1]) > 4 || fabs(x - seen[j][0]) > 20,
                      "%s overlaps another text", text);
        seen[count][0] = x, seen[count][1] = y;
    }
}

Test(plot_sizes, letters_get_smaller_but_can_be_read) {
    ablation_put(2, 1);
    double letters[2];
    for (int i = 0; i < 2; i++) {
        struct ending ending =
            script("plot.py A --chart=curves --size=%s -o a.svg", i ? "3.3x2.5" : "10x4.2");
        expect_success(&ending);
        const char *at = strstr(file_text("a.svg", NULL), ">training step<");
        while (at && strncmp(at, "font: ", 6)) at--;
        cr_assert(at && sscanf(at, "font: %lf", letters + i) == 1);
    }
    cr_expect(letters[0] > letters[1] && letters[1] >= 7, "%g %g", letters[0], letters[1]);
}

Test(plot_sizes, rows_of_dots_have_letters_that_fit) {
    ablation_put(6, 3);
    struct ending ending = script("plot.py A --chart=dots --size=3.3x2.5 -o a.svg");
    expect_success(&ending);
    const char *picture = file_text("a.svg", NULL);
    double x, y, before = 0, points;
    for (int i = 0; i < 3; i++, before = y) {
        char label[32];
        snprintf(label, sizeof label, "ln, %s", places[i]);
        text_place(picture, label, &x, &y);
        const char *at = strstr(picture, label);
        while (strncmp(at, "font: ", 6)) at--;
        cr_assert(sscanf(at, "font: %lf", &points) == 1);
        cr_expect(!i || y - before >= points, "%g points in rows of %g", points, y - before);
    }
    const struct box all = picture_box(picture), data = axes_box(picture, 1);
    cr_expect(data.right - data.left > 0.6 * all.right);
}

Test(plot_sizes, a_picture_without_room_is_refused) {
    ablation_put(6, 3);
    struct ending ending = script("plot.py A --chart=curves --size=1x1 -o a.svg");
    cr_expect(ending.status == 1 && !file_there("a.svg"));
    cr_expect_str_eq(ending.err,
                     "plot: --size=1x1: the legend of 18 entries leaves no room for data "
                     "(a larger size, or fewer runs)\n");
}

/* ---- lines that coincide ---- */

/* The width of the first line of this colour; *at is its position in the file. */
static double line_width(const char *picture, const char *colour, const char **at, bool *dashed) {
    char style[64];
    double width;
    snprintf(style, sizeof style, "stroke: %s; stroke-width: ", colour);
    *at = strstr(picture, style);
    cr_assert(*at && sscanf(*at + strlen(style), "%lf", &width) == 1, "no line of %s", colour);
    const char *begin = *at;
    while (*begin != '"') begin--;
    *dashed = !strncmp(begin, "\"fill: none; stroke-dasharray", 28);
    return width;
}

Test(plot_sizes, lines_on_each_other_differ_in_dashes_only) {
    run_put("ln", "ln", 0.01, 1, 2.5), run_put("rms", "rms", 0.01, 1, 2.5);
    struct ending ending = script("plot.py ln rms --lines=val -o a.svg");
    expect_success(&ending);
    const char *picture = file_text("a.svg", NULL), *lower, *upper;
    bool lower_dashed, upper_dashed;
    double below = line_width(picture, "#0072b2", &lower, &lower_dashed),
           above = line_width(picture, "#d55e00", &upper, &upper_dashed);
    cr_expect(lower < upper && below == above, "%g below %g", below, above);
    cr_expect(!lower_dashed && upper_dashed);
}

/* ---- columns ---- */

Test(plot_sizes, columns_of_curves_share_axes_and_looks) {
    ablation_put(3, 2);
    // Without one of them, the others keep their colours and dashes.
    struct ending ending = script("plot.py A/runs/0 A/runs/4 A/runs/6 A/runs/8 A/runs/10 "
                                  "--columns=placement --lines=val -o a.svg --table=-");
    expect_success(&ending);
    expect_line(ending.out, "curves,\"post, bn\",validation,10,2.04,,,1");
    expect_line(ending.out, "curves,\"pre, rms\",validation,10,2.08,,,1");
    const char *picture = file_text("a.svg", NULL);
    const struct box first = axes_box(picture, 1), second = axes_box(picture, 2);
    cr_expect(fabs(first.top - second.top) < 0.1 && first.right < second.left);
    cr_expect(fabs((first.right - first.left) / (second.right - second.left) - 1) < 0.1);
    expect_part(picture, ">post<"), expect_part(picture, ">pre<");
    expect_part(picture, ">ln<"), expect_part(picture, ">rms<"), expect_part(picture, ">bn<");
    const char *label = strstr(picture, ">ln<");
    cr_expect(!strstr(label + 1, ">ln<"), "twice in the legend");
    const char *second_axes = strstr(picture, "<g id=\"axes_2\">"), *at;
    bool dashed;
    cr_expect(line_width(picture, "#d55e00", &at, &dashed) ==
              line_width(second_axes, "#d55e00", &at, &dashed)); // ln

    ending = script("plot.py A --columns=size -o b.svg");
    cr_expect(ending.status == 1);
    cr_expect_str_eq(ending.err, "plot: --columns=size: not an option of these runs\n");
    ending = script("plot.py A --chart=dots --columns=norm");
    cr_expect(ending.status == 2);
    expect_part(ending.err, "plot: --columns: goes with --probes=layers and --chart=curves");
}
