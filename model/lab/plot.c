#include "model/lab/plot.h"
#include "data/die.h"
#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>

/* Adds the losses in the log of a run; `train` may be NULL. */
static void add_log(const char *folder, struct curve *train, struct curve *validation) {
    struct curve *const curve[] = {[4] = train, [5] = validation}; // of the columns of a log
    char path[4096], row[512];
    snprintf(path, sizeof path, "%s/log.csv", folder);
    FILE *file = fopen(path, "r");
    if (!file) die(STATUS_MACHINE, "log: %s: %s", path, strerror(errno));
    while (fgets(row, sizeof row, file)) {
        char *rest = row, *end;
        for (int column = 0; rest && column < 6; strsep(&rest, ","), column++) {
            const double loss = strtod(rest, &end);
            if (curve[column] && end > rest) curve_add(curve[column], atof(row), loss);
        }
    }
    fclose(file);
}

/* Names a curve after the last part of a path. */
static void name_curve(struct curve *curve, const char *path) {
    char copy[4096]; // which basename() may change
    snprintf(copy, sizeof copy, "%s", path);
    snprintf(curve->name, sizeof curve->name, "%s", basename(copy));
}

void plot_start(struct session *t) {
    const struct config *config = &t->config;
    struct progress *progress = &t->progress;
    const char *others = config->plot_beside;
    struct chart *chart = &t->chart;
    const bool shown = config->plot == PLOT_ON || (config->plot == PLOT_AUTO && progress->live);
    if (!progress->shown || !shown) return;
    *chart = (struct chart){.curves = 1,
                            .curve[0].name = "train",
                            .label = "nats per character",
                            .logarithmic = config->plot_scale == PLOT_LOG,
                            .utf8 = progress->utf8,
                            .colour = progress->colour};
    progress->chart = chart;
    for (; others; others = strchr(others, ',') ? strchr(others, ',') + 1 : NULL) {
        char folder[3072];
        struct curve *curve = &chart->curve[chart->curves++];
        if (chart->curves == CHART_CURVES)
            die(STATUS_USAGE, "--plot-beside: has more than %d folders", CHART_CURVES - 2);
        snprintf(folder, sizeof folder, "%.*s", (int)strcspn(others, ","), others);
        name_curve(curve, folder);
        add_log(folder, NULL, curve);
    }
    strcpy(chart->curve[chart->curves++].name, "val");
}

void plot_resume(struct session *t) {
    if (!t->progress.chart) return;
    struct curve *validation = &t->chart.curve[t->chart.curves - 1];
    if (t->config.plot_beside) name_curve(validation, t->run.folder);
    if (t->config.resume) add_log(t->run.folder, t->chart.curve, validation);
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
