#include "model/lab/plot.h"
#include "data/die.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Adds what a cell of a log holds, unless it is empty. */
static void add_cell(struct curve *curve, const char *step, const char *loss) {
    if (curve && loss && *loss && *loss != '\n') curve_add(curve, atof(step), atof(loss));
}

/* Adds the losses in the log of a run; `train` may be NULL. */
static void add_log(const char *folder, struct curve *train, struct curve *validation) {
    enum { STEP, TRAIN_LOSS = 4, VAL_LOSS, COLUMNS };
    char path[4096], row[512];
    snprintf(path, sizeof path, "%s/log.csv", folder);
    FILE *file = fopen(path, "r");
    if (!file) die(STATUS_MACHINE, "log: %s: %s", path, strerror(errno));
    while (fgets(row, sizeof row, file)) {
        char *cell[COLUMNS] = {0}, *rest = row;
        for (int i = 0; i < COLUMNS && rest; i++) cell[i] = strsep(&rest, ",");
        if (*row < '0' || *row > '9') continue; // the header
        add_cell(train, cell[STEP], cell[TRAIN_LOSS]);
        add_cell(validation, cell[STEP], cell[VAL_LOSS]);
    }
    fclose(file);
}

/* Names a curve after the last part of a path. */
static void name_curve(struct curve *curve, const char *path) {
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') end--;
    size_t start = end;
    while (start && path[start - 1] != '/') start--;
    snprintf(curve->name, sizeof curve->name, "%.*s", (int)(end - start), path + start);
}

static struct curve *add_curve(struct chart *chart, const char *path) {
    if (chart->curves == CHART_CURVES)
        die(STATUS_USAGE, "--plot-beside: has more than %d folders", CHART_CURVES - 2);
    struct curve *curve = &chart->curve[chart->curves++];
    name_curve(curve, path);
    return curve;
}

/* Whether the terminal shows UTF-8, as the locale says. */
static bool has_utf8(void) {
    const char *locale = getenv("LC_ALL");
    if (!locale || !*locale) locale = getenv("LC_CTYPE");
    if (!locale || !*locale) locale = getenv("LANG");
    const char *code = locale ? strchr(locale, '.') : NULL;
    return code && (!strncasecmp(code, ".utf-8", 6) || !strncasecmp(code, ".utf8", 5));
}

void plot_start(struct session *t) {
    const struct config *config = &t->config;
    const char *no_colour = getenv("NO_COLOR"), *others = config->plot_beside;
    const bool shown = config->plot == PLOT_ON || (config->plot == PLOT_AUTO && t->progress.live);
    if (!t->progress.shown || !shown) return;
    t->chart = (struct chart){.label = "nats per character",
                              .logarithmic = config->plot_scale == PLOT_LOG,
                              .utf8 = has_utf8(),
                              .colour = t->progress.live && !(no_colour && *no_colour)};
    t->progress.chart = &t->chart;
    add_curve(&t->chart, "train");
    for (; others; others = strchr(others, ',') ? strchr(others, ',') + 1 : NULL) {
        char folder[3072];
        snprintf(folder, sizeof folder, "%.*s", (int)strcspn(others, ","), others);
        add_log(folder, NULL, add_curve(&t->chart, folder));
    }
    add_curve(&t->chart, "val");
}

void plot_resume(struct session *t) {
    struct chart *chart = &t->chart;
    if (!t->progress.chart) return;
    struct curve *validation = &chart->curve[chart->curves - 1];
    if (t->config.plot_beside) name_curve(validation, t->run.folder);
    if (t->config.resume) add_log(t->run.folder, chart->curve, validation);
}

void plot_add(struct session *t, const struct log_row *row) {
    struct chart *chart = &t->chart;
    if (!t->progress.chart) return;
    if (row->train_loss >= 0) curve_add(chart->curve, (double)row->step, row->train_loss);
    if (row->val_loss >= 0)
        curve_add(&chart->curve[chart->curves - 1], (double)row->step, row->val_loss);
    int64_t end = t->config.max_iters;
    while (end > 16 && end / 2 > row->step && !t->config.plot_beside) end /= 2;
    chart->end = end ? (double)end : 1;
}
