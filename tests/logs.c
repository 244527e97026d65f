#include "tests/logs.h"
#include "tests/scripts.h"
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

void log_put(const char *folder, size_t rows, const double (*row)[3]) {
    char text[4096], *at = text + sprintf(text, LOG_HEADER);
    mkdir(folder, 0777);
    for (size_t i = 0; i < rows; i++) {
        at += sprintf(at, "%g,%g,%g,0.01,", row[i][0], row[i][0] / 10, row[i][0] * 96);
        for (int column = 1; column < 3; column++)
            at += row[i][column] == -1 ? sprintf(at, ",") : sprintf(at, "%.9g,", row[i][column]);
        at += sprintf(at, "1,960\n");
    }
    text_put(folder, "log.csv", text);
}

static void summary_of_losses(const char *folder, const char *reason, int seed, double loss,
                              const char *options) {
    char text[2048];
    snprintf(text, sizeof text,
             "{\"exit_reason\": \"%s\", \"grammar_entropy\": 0.527, \"val_loss\": %.9g, "
             "\"best_val_loss\": %.9g, \"seconds\": 2, \"options\": {\"corpus\": null, %s, "
             "\"seed\": %d, \"sample\": %d}}\n",
             reason, loss, loss, options, seed, seed * 10);
    text_put(folder, "summary.json", text);
}

void summary_put_options(const char *folder, const char *reason, int seed, const char *options) {
    summary_of_losses(folder, reason, seed, 3, options);
}

void summary_put(const char *folder, const char *reason, const char *norm, double rate, int seed) {
    char options[256];
    snprintf(options, sizeof options,
             "\"norm\": \"%s\", \"placement\": \"pre\", \"learning-rate\": %g, \"min-lr\": %g",
             norm, rate, rate / 10);
    summary_put_options(folder, reason, seed, options);
}

static void log_put_ended(const char *folder, double loss) {
    const double rows[][3] = {{0, 4, 4}, {5, 3, -1}, {10, -1, loss}};
    log_put(folder, 3, rows);
}

void run_put(const char *folder, const char *norm, double rate, int seed, double loss) {
    run_put_options(
        folder, seed, loss,
        "\"norm\": \"%s\", \"placement\": \"pre\", \"learning-rate\": %g, \"min-lr\": %g", norm,
        rate, rate / 10);
}

void run_put_options(const char *folder, int seed, double loss, const char *format, ...) {
    char options[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(options, sizeof options, format, arguments);
    va_end(arguments);
    log_put_ended(folder, loss);
    summary_of_losses(folder, "done", seed, loss, options);
}
