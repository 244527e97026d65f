#include "tests/runs.h"
#include "tests/command.h"
#include "tests/json.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct log log_of(const char *folder) {
    struct log log = {0};
    char path[256], *rest;
    snprintf(path, sizeof path, "%s/log.csv", folder);
    char *text = file_text(path, NULL), *line;
    cr_assert(text && *text && text[strlen(text) - 1] == '\n', "%s: is cut short", path);
    cr_expect_str_eq(strsep(&text, "\n"), HEADER);
    for (; (line = strsep(&text, "\n")) && *line; log.rows++) {
        cr_assert(log.rows < LOG_ROWS, "%s: too many rows for the test", path);
        rest = line;
        for (int column = 0; column < COLUMNS; column++)
            cr_assert((log.cell[log.rows][column] = strsep(&rest, ",")), "%s: too few cells", path);
        cr_assert(!rest, "%s: too many cells", path);
    }
    cr_assert(log.rows > 0, "%s: no rows", path);
    return log;
}

double log_number(const struct log *log, int row, int column) {
    cr_assert(row >= 0 && row < log->rows && *log->cell[row][column], "row %d has no number", row);
    return strtod(log->cell[row][column], NULL);
}

void expect_same_log(const char *one, const char *other) {
    static const int columns[] = {STEP, TOKENS, LR, TRAIN_LOSS, VAL_LOSS, GRAD_NORM};
    struct log a = log_of(one), b = log_of(other);
    cr_assert(a.rows > 2 && a.rows == b.rows);
    for (int row = 0; row < a.rows; row++)
        for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
            cr_expect_str_eq(a.cell[row][columns[i]], b.cell[row][columns[i]], "%s and %s, row %d",
                             one, other, row);
}

void expect_same_file(const char *one, const char *other, const char *name) {
    char path[256];
    size_t bytes, other_bytes;
    snprintf(path, sizeof path, "%s/%s", one, name);
    char *text = file_text(path, &bytes);
    snprintf(path, sizeof path, "%s/%s", other, name);
    char *other_text = file_text(path, &other_bytes);
    cr_assert(text && other_text, "%s is missing", name);
    cr_expect(bytes > 0 && bytes == other_bytes && !memcmp(text, other_text, bytes),
              "%s: %s differs from %s", name, one, other);
}

char *summary_of(const char *folder) {
    char path[256];
    snprintf(path, sizeof path, "%s/summary.json", folder);
    char *text = file_text(path, NULL);
    cr_assert(text, "%s is missing", path);
    cr_expect(json_valid(text), "%s", text);
    return text;
}

void expect_member(const char *folder, const char *name, const char *value) {
    const char *found = json_member(summary_of(folder), name);
    cr_expect(json_is(found, value), "%s/summary.json: %s is not %s: %.40s", folder, name, value,
              found ? found : "missing");
}

void expect_same_folder(const char *one, const char *other) {
    expect_same_log(one, other);
    expect_same_file(one, other, "config.ini");
    expect_same_file(one, other, "model.safetensors");
    expect_same_file(one, other, "checkpoint.safetensors");
    expect_same_file(one, other, "sample.txt");
    char path[64];
    snprintf(path, sizeof path, "%s/probes.csv", one);
    size_t probed = file_there(path);
    if (probed) expect_same_file(one, other, "probes.csv");
    cr_expect(files_in(one) == 7 + probed && files_in(other) == 7 + probed,
              "temporary files remain");
}
