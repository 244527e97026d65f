/* A curve that has filled its memory keeps the means of pairs of points, so that its number of
   points is bounded and each stands for equally many values. On a terminal with UTF-8 a cell
   has 2 x 4 dots (Braille patterns). */
#include "model/app/chart.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { MARGIN = 9, COLUMNS_MIN = 32, ROWS_MIN = 5 }; // MARGIN: columns for the labels of the y axis

void curve_add(struct curve *c, double x, double y) {
    struct point *p = &c->point[c->count];
    if (!isfinite(y)) return;
    if (!c->merge) c->merge = 1;
    if (!c->pending) *p = (struct point){0, 0};
    c->last = y;
    p->x += x / (double)c->merge;
    p->y += y / (double)c->merge;
    if (++c->pending < c->merge) return;
    c->pending = 0;
    if (++c->count < CURVE_POINTS) return;
    c->count /= 2;
    c->merge *= 2;
    for (p = c->point; p < c->point + c->count; p++) {
        const struct point *pair = p + (p - c->point);
        *p = (struct point){(pair[0].x + pair[1].x) / 2, (pair[0].y + pair[1].y) / 2};
    }
}

/* The area of the curves: cells of `across` x `down` dots. */
struct area {
    const struct chart *chart;
    size_t columns, rows, across, down;
    double top, bottom; // heights of the first and the last row of dots
    struct cell {
        uint8_t dots, curve; // a bit of each dot in the order of Unicode; the number of its curve
    } cell[CHART_ROWS][CHART_COLUMNS];
};

/* The height of a point: y or its logarithm; NaN if the point is not shown. */
static double height_of(const struct chart *chart, struct point p) {
    if (p.x > chart->end || (chart->logarithmic && p.y <= 0)) return NAN;
    return chart->logarithmic ? log(p.y) : p.y;
}

/* Sets top and bottom; false if no point is shown. */
static bool measure(struct area *a) {
    a->top = a->bottom = NAN; // fmax() and fmin() leave NaN out
    for (size_t k = 0; k < a->chart->curves; k++)
        for (size_t i = 0; i < a->chart->curve[k].count; i++) {
            const double height = height_of(a->chart, a->chart->curve[k].point[i]);
            a->top = fmax(a->top, height);
            a->bottom = fmin(a->bottom, height);
        }
    const double least = 1e-6 * fmax(1, fabs(a->top)); // of the difference, for round labels
    if (a->top - a->bottom < least) a->top += least, a->bottom -= least;
    return !isnan(a->top);
}

static void put_dot(struct area *a, size_t curve, double x, double y) {
    static const uint8_t bit[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    struct cell *cell = &a->cell[(size_t)y / a->down][(size_t)x / a->across];
    if (cell->curve != curve) *cell = (struct cell){.curve = (uint8_t)curve};
    cell->dots |= bit[(size_t)y % a->down][(size_t)x % a->across];
}

/* Draws a curve: straight lines from point to point. */
static void put_curve(struct area *a, size_t k) {
    const struct curve *c = &a->chart->curve[k];
    const double width = (double)(a->columns * a->across - 1);
    const double depth = (double)(a->rows * a->down - 1);
    double x = -1, y = -1; // of the point before
    for (size_t i = 0; i < c->count; i++) {
        const double height = height_of(a->chart, c->point[i]);
        const double to_x = round(c->point[i].x / a->chart->end * width);
        const double to_y = round((a->top - height) / (a->top - a->bottom) * depth);
        if (isnan(height)) continue;
        if (x < 0) x = to_x, y = to_y;
        const double steps = fmax(1, fmax(fabs(to_x - x), fabs(to_y - y)));
        for (double s = 0; s <= steps; s++)
            put_dot(a, k, round(x + (to_x - x) * s / steps), round(y + (to_y - y) * s / steps));
        x = to_x, y = to_y;
    }
}

/* The number with the smallest number of digits in [low, high). */
static double round_number(double low, double high) {
    if (low <= 0 && high > 0) return 0;
    double unit = pow(10, ceil(log10(fabs(high)))), number = -INFINITY;
    for (int digits = 0; digits < 9 && number < low; digits++, unit /= 10)
        number = ceil(high / unit - 1) * unit;
    return number;
}

/* The colour of a curve, or with CHART_CURVES none. */
static void put_colour(FILE *out, const struct chart *chart, size_t curve) {
    static const int code[CHART_CURVES + 1] = {2,  36, 35, 33, 32,
                                               31, 34, 1,  0}; // 2: faint, 1: bold
    if (chart->colour) fprintf(out, "\033[0;%dm", code[curve]);
}

static void put_cell(FILE *out, const struct chart *chart, size_t curve, uint8_t dots) {
    if (!dots)
        putc(' ', out);
    else if (chart->utf8 && (chart->colour || !curve))
        fprintf(out, "\xe2%c%c", 0xa0 + (dots >> 6), 0x80 + (dots & 0x3f)); // U+2800 + dots
    else
        putc(".ox+*#%@"[curve], out);
}

/* The last value of each curve, as far as there is space, and the label. */
static void put_legend(FILE *out, const struct chart *chart, size_t columns) {
    size_t used = columns < 48 ? 0 : MARGIN;
    fprintf(out, "%*s", (int)used, "");
    for (size_t k = 0; k < chart->curves; k++) {
        const struct curve *c = &chart->curve[k];
        char entry[64];
        size_t width = 2 + (size_t)snprintf(entry, sizeof entry, " %s %#.4g  ", c->name, c->last);
        if (!c->count || used + width > columns) continue;
        put_colour(out, chart, k);
        put_cell(out, chart, k, 0x12);
        put_cell(out, chart, k, 0x12);
        fputs(entry, out);
        used += width;
    }
    put_colour(out, chart, CHART_CURVES);
    fprintf(out, "%s\n", used + strlen(chart->label) <= columns ? chart->label : "");
}

static void put_row(FILE *out, const struct area *a, size_t row) {
    const struct chart *chart = a->chart;
    const double down = (double)a->down, dot = (a->top - a->bottom) / ((double)a->rows * down - 1);
    const double high = a->top - ((double)row * down - 0.5) * dot, low = high - down * dot;
    char label[32] = "";
    size_t end = a->columns, curve = CHART_CURVES;
    if (row % 3 == 0)
        snprintf(label, sizeof label, "%.6g",
                 chart->logarithmic ? round_number(exp(low), exp(high)) : round_number(low, high));
    if (strlen(label) > MARGIN - 2) *label = 0;
    fprintf(out, "%*s ", MARGIN - 2, label);
    fputs(chart->utf8 ? *label ? "┤" : "│" : *label ? "+" : "|", out);
    while (end && !a->cell[row][end - 1].dots) end--;
    for (size_t column = 0; column < end; column++) {
        const uint8_t cell_curve = a->cell[row][column].curve, dots = a->cell[row][column].dots;
        if (dots && cell_curve != curve) put_colour(out, chart, curve = cell_curve);
        put_cell(out, chart, cell_curve, dots);
    }
    put_colour(out, chart, CHART_CURVES);
    putc('\n', out);
}

/* The x axis with its start, middle and end. */
static void put_axis(FILE *out, const struct area *a) {
    char middle[24], end[24];
    const int length = snprintf(middle, sizeof middle, "%.0f", a->chart->end / 2);
    const int right = (int)a->columns - snprintf(end, sizeof end, "%.0f", a->chart->end);
    const int left = (int)a->columns / 2 - length / 2;
    fprintf(out, "%*s%s0", MARGIN - 1, "", a->chart->utf8 ? "└" : "+");
    for (int column = 1; column < right; column++)
        if (column != left || left + length > right)
            fputs(a->chart->utf8 ? "─" : "-", out);
        else
            column += fprintf(out, "%s", middle) - 1;
    fprintf(out, "%s\n", end);
}

bool chart_draw(const struct chart *chart, size_t columns, size_t rows, FILE *out) {
    struct area a = {.chart = chart,
                     .columns = (columns < CHART_COLUMNS ? columns : CHART_COLUMNS) - MARGIN,
                     .rows = (rows < CHART_ROWS ? rows : CHART_ROWS) - 2,
                     .across = chart->utf8 ? 2 : 1,
                     .down = chart->utf8 ? 4 : 1};
    if (columns < COLUMNS_MIN || rows < ROWS_MIN || !measure(&a)) return false;
    for (size_t k = 0; k < chart->curves; k++) put_curve(&a, k);
    put_legend(out, chart, a.columns + MARGIN);
    for (size_t row = 0; row < a.rows; row++) put_row(out, &a, row);
    put_axis(out, &a);
    return true;
}
