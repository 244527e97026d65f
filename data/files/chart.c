#include "data/files/chart.h"
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { MARGIN = 9, COLUMNS_MIN = 32, ROWS_MIN = 5 }; // MARGIN: columns for the labels of the y axis

void curve_add(struct curve *c, double x, double y) {
    if (!isfinite(y)) return;
    if (!c->merge) c->merge = 1;
    c->last = y;
    c->x += x;
    c->y += y;
    if (++c->pending < c->merge) return;
    c->point[c->count].x = c->x / (double)c->merge;
    c->point[c->count++].y = c->y / (double)c->merge;
    c->x = c->y = 0;
    c->pending = 0;
    if (c->count < CURVE_POINTS) return;
    c->count /= 2;
    c->merge *= 2;
    for (size_t i = 0; i < c->count; i++) {
        c->point[i].x = (c->point[2 * i].x + c->point[2 * i + 1].x) / 2;
        c->point[i].y = (c->point[2 * i].y + c->point[2 * i + 1].y) / 2;
    }
}

/* The area of the curves: cells of `across` x `down` dots. */
struct area {
    const struct chart *chart;
    size_t columns, rows, across, down;
    double top, bottom; // heights of the first and the last row of dots
    struct {
        uint8_t dots, curve; // a bit of each dot in the order of Unicode; the number of its curve
    } cell[CHART_ROWS][CHART_COLUMNS];
};

/* The height of a value: the value itself or its logarithm; NaN if it is not shown. */
static double height_of(const struct chart *chart, double y) {
    return !chart->logarithmic ? y : y > 0 ? log(y) : NAN;
}

static bool is_shown(const struct chart *chart, const struct curve *c, size_t i) {
    return c->point[i].x <= chart->end && !isnan(height_of(chart, c->point[i].y));
}

/* Sets top and bottom; false if no point is shown. */
static bool measure(struct area *a) {
    a->top = -INFINITY, a->bottom = INFINITY;
    for (size_t k = 0; k < a->chart->curves; k++)
        for (size_t i = 0; i < a->chart->curve[k].count; i++) {
            const double height = height_of(a->chart, a->chart->curve[k].point[i].y);
            if (!is_shown(a->chart, &a->chart->curve[k], i)) continue;
            a->top = fmax(a->top, height);
            a->bottom = fmin(a->bottom, height);
        }
    const double least = 1e-6 * fmax(1, fabs(a->top)); // of the difference, for round labels
    if (a->top - a->bottom < least) a->top += least, a->bottom -= least;
    return isfinite(a->top);
}

static void put_dot(struct area *a, size_t curve, long x, long y) {
    static const uint8_t bit[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    const size_t row = (size_t)y / a->down, column = (size_t)x / a->across;
    if (a->cell[row][column].curve != curve) a->cell[row][column].dots = 0;
    a->cell[row][column].curve = (uint8_t)curve;
    a->cell[row][column].dots |= bit[(size_t)y % a->down][(size_t)x % a->across];
}

/* Draws a curve: straight lines from point to point. */
static void put_curve(struct area *a, size_t k) {
    const struct curve *c = &a->chart->curve[k];
    const double width = (double)(a->columns * a->across - 1);
    const double depth = (double)(a->rows * a->down - 1);
    bool started = false;
    long x = 0, y = 0;
    for (size_t i = 0; i < c->count; i++) {
        if (!is_shown(a->chart, c, i)) continue;
        const double height = height_of(a->chart, c->point[i].y);
        const long to_x = lround(c->point[i].x / a->chart->end * width);
        const long to_y = lround((a->top - height) / (a->top - a->bottom) * depth);
        const long from_x = started ? x : to_x, from_y = started ? y : to_y;
        const double steps =
            fmax(1, fmax(fabs((double)(to_x - from_x)), fabs((double)(to_y - from_y))));
        for (double s = 0; s <= steps; s++)
            put_dot(a, k, from_x + lround((double)(to_x - from_x) * s / steps),
                    from_y + lround((double)(to_y - from_y) * s / steps));
        x = to_x, y = to_y, started = true;
    }
}

/* The number with the smallest number of digits in [low, high). */
static double round_number(double low, double high) {
    if (low <= 0 && high > 0) return 0;
    double unit = pow(10, ceil(log10(fabs(high)))), number = low;
    for (int digits = 0; digits < 9; digits++, unit /= 10) {
        number = ceil(high / unit - 1) * unit;
        if (number >= low) break;
    }
    return number;
}

/* Text that is appended to. */
struct output {
    char *text;
    size_t used;
};

static void put(struct output *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(struct output *out, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(out->text + out->used, CHART_TEXT - out->used, format, arguments);
    va_end(arguments);
    out->used += (size_t)length;
}

/* Begins the curve's colour, or ends it with curve -1. */
static void put_colour(struct output *out, const struct chart *chart, int curve) {
    static const int code[CHART_CURVES] = {2, 36, 35, 33, 32, 31, 34, 1}; // 2: faint, 1: bold
    if (chart->colour) put(out, curve < 0 ? "\033[m" : "\033[0;%dm", curve < 0 ? 0 : code[curve]);
}

static void put_cell(struct output *out, const struct chart *chart, size_t curve, uint8_t dots) {
    if (!dots)
        put(out, " ");
    else if (chart->utf8 && (chart->colour || !curve))
        put(out, "\xe2%c%c", 0xa0 + (dots >> 6), 0x80 + (dots & 0x3f)); // U+2800 + dots
    else
        put(out, "%c", ".ox+*#%@"[curve]);
}

/* The last value of each curve, as far as there is space, and the label. */
static void put_legend(struct output *out, const struct chart *chart, size_t columns) {
    size_t used = columns < 48 ? 0 : MARGIN, gap = used;
    for (size_t k = 0; k < chart->curves; k++) {
        const struct curve *c = &chart->curve[k];
        char entry[64];
        size_t width = (size_t)snprintf(entry, sizeof entry, " %s %#.4g", c->name, c->last) + 2;
        if (!c->count || used + width > columns) continue;
        put(out, "%*s", (int)gap, "");
        put_colour(out, chart, (int)k);
        put_cell(out, chart, k, 0x12);
        put_cell(out, chart, k, 0x12);
        put(out, "%s", entry);
        put_colour(out, chart, -1);
        used += width + 2;
        gap = 2;
    }
    if (used + strlen(chart->label) <= columns) put(out, "  %s", chart->label);
    put(out, "\n");
}

static void put_row(struct output *out, const struct area *a, size_t row) {
    const struct chart *chart = a->chart;
    const double down = (double)a->down, dot = (a->top - a->bottom) / ((double)a->rows * down - 1);
    const double high = a->top - ((double)row * down - 0.5) * dot, low = high - down * dot;
    char label[32] = "";
    size_t end = a->columns;
    int curve = -1;
    if (row % 3 == 0)
        snprintf(label, sizeof label, "%.6g",
                 chart->logarithmic ? round_number(exp(low), exp(high)) : round_number(low, high));
    if (strlen(label) > MARGIN - 2) *label = 0;
    put(out, "%*s ", MARGIN - 2, label);
    put(out, "%s", chart->utf8 ? *label ? "┤" : "│" : *label ? "+" : "|");
    while (end && !a->cell[row][end - 1].dots) end--;
    for (size_t column = 0; column < end; column++) {
        const int own = a->cell[row][column].dots ? a->cell[row][column].curve : curve;
        if (own != curve) put_colour(out, chart, own);
        curve = own;
        put_cell(out, chart, (size_t)own, a->cell[row][column].dots);
    }
    if (curve >= 0) put_colour(out, chart, -1);
    put(out, "\n");
}

/* The x axis with its start, middle and end. */
static void put_axis(struct output *out, const struct area *a) {
    char number[3][24];
    const size_t half = a->columns / 2;
    for (int i = 0; i < 3; i++) snprintf(number[i], sizeof *number, "%.0f", a->chart->end * i / 2);
    const size_t middle = half - strlen(number[1]) / 2, right = a->columns - strlen(number[2]);
    put(out, "%*s%s", MARGIN - 1, "", a->chart->utf8 ? "└" : "+");
    for (size_t column = 0; column < a->columns;) {
        const char *text = column == 0        ? number[0]
                           : column == middle ? number[1]
                           : column == right  ? number[2]
                           : a->chart->utf8   ? "─"
                                              : "-";
        put(out, "%s", text);
        column += *text < '0' || *text > '9' ? 1 : strlen(text);
    }
    put(out, "\n");
}

bool chart_draw(const struct chart *chart, size_t columns, size_t rows, char *text) {
    struct output out = {text, 0};
    struct area a = {.chart = chart,
                     .columns = (columns < CHART_COLUMNS ? columns : CHART_COLUMNS) - MARGIN,
                     .rows = (rows < CHART_ROWS ? rows : CHART_ROWS) - 2,
                     .across = chart->utf8 ? 2 : 1,
                     .down = chart->utf8 ? 4 : 1};
    *text = 0;
    if (columns < COLUMNS_MIN || rows < ROWS_MIN || !measure(&a)) return false;
    for (size_t k = 0; k < chart->curves; k++) put_curve(&a, k);
    put_legend(&out, chart, a.columns + MARGIN);
    for (size_t row = 0; row < a.rows; row++) put_row(&out, &a, row);
    put_axis(&out, &a);
    return true;
}
