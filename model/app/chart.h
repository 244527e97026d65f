/* A line chart in characters, such as loss curves in a terminal. What it looks like depends on its
   arguments only. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

enum { CHART_CURVES = 8, CHART_ROWS = 15, CHART_COLUMNS = 240, CURVE_POINTS = 480 };

/* A curve that grows. When it is full, each pair of neighbouring points becomes its mean, and from
   then on a point is the mean of twice as many values. Set `name`, and the rest to 0. */
struct curve {
    char name[24];
    double last;           // the value that was added last
    size_t merge, pending; // how many values make a point (0: 1); how many the next point has
    size_t count;          // of the points that are whole
    struct point {
        double x, y;
    } point[CURVE_POINTS];
};

/* Adds a value; one that is not finite is left out. The x of a curve do not fall. */
void curve_add(struct curve *curve, double x, double y);

struct chart {
    struct curve curve[CHART_CURVES]; // a later one covers an earlier one
    size_t curves;
    double end;        // the x axis is from 0 to here; what is beyond is not shown
    const char *label; // of the axes
    bool logarithmic;  // the y axis; values that are not positive are not shown
    bool utf8;         // braille dots instead of ASCII
    bool colour;       // tells curves apart; without it, characters do
};

/* Writes the chart as `rows` lines, each at most `columns` wide and ended by a newline: a legend
   with the last values, the curves beside the y axis, and the x axis; fewer than CHART_TEXT bytes.
   Writes nothing and returns false if the chart has no point yet or the space is too small for it.
   Larger numbers of rows and columns than CHART_ROWS and CHART_COLUMNS count as these. */
enum { CHART_TEXT = CHART_ROWS * (16 * CHART_COLUMNS + 64) };
bool chart_draw(const struct chart *chart, size_t columns, size_t rows, FILE *out);
