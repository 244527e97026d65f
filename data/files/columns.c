/* log.csv, the table of columns. A column that is added has an option and comes last: a run then
   resumes with the header that it started with. */
#include "data/files/columns.h"
#include "data/format.h"
#include <math.h>
#include <stdlib.h>

#define AT(member) .offset = offsetof(struct log_row, member)

const struct column log_columns[] = {
    {"step", "%.0f", AT(step), .counts = true},
    {"seconds", "%.3f", AT(seconds)},
    {"tokens", "%.0f", AT(tokens), .counts = true},
    {"lr", "%.6g", AT(lr)},
    {"train_loss", "%.9g", AT(train_loss), .what = "the training loss"},
    {"val_loss", "%.9g", AT(val_loss), .what = "the validation loss", .evaluated = true},
    {"grad_norm", "%.9g", AT(grad_norm), .what = "the gradient's norm"},
    {"tokens_per_second", "%.0f", AT(tokens_per_second)},
    {"eval_train_loss", "%.9g", AT(eval_train_loss), .what = "the loss on the training slice",
     .evaluated = true, .option = "eval-train"},
    {0},
};

double column_value(const struct column *column, const void *row) {
    const char *member = (const char *)row + column->offset;
    return column->counts ? (double)*(const int64_t *)member : *(const double *)member;
}

void column_set(const struct column *column, void *row, double value) {
    char *member = (char *)row + column->offset;
    if (column->counts)
        *(int64_t *)member = (int64_t)value;
    else
        *(double *)member = value;
}

struct log_row columns_unmeasured(void) {
    struct log_row row = {.val_accuracy = NOT_MEASURED};
    for (const struct column *c = log_columns; c->name; c++)
        if (!c->counts) column_set(c, &row, NOT_MEASURED);
    return row;
}

/* Whether the log has column number i. */
static bool has(size_t i, uint32_t optional) {
    return !log_columns[i].option || optional >> i & 1;
}

const char *columns_header(uint32_t optional) {
    static char line[1024];
    line[0] = 0;
    for (size_t i = 0; log_columns[i].name; i++)
        if (has(i, optional))
            format_add(line, sizeof line, "%s%s", i ? "," : "", log_columns[i].name);
    format_add(line, sizeof line, "\n");
    return line;
}

void columns_number(FILE *file, const char *format, double value) {
    if (isnan(value))
        fputs("nan", file); // printf() might print a sign
    else
        fprintf(file, format, value);
}

void columns_write(FILE *log, uint32_t optional, const struct log_row *row) {
    for (size_t i = 0; log_columns[i].name; i++) {
        const double value = column_value(&log_columns[i], row);
        if (!has(i, optional)) continue;
        if (i) fputc(',', log);
        if (!(value < 0)) columns_number(log, log_columns[i].format, value);
    }
}

bool columns_read(const char *line, struct log_row *row) {
    *row = columns_unmeasured();
    for (const struct column *c = log_columns; c->name && !c->option; c++) {
        char *end;
        const double value = strtod(line, &end);
        column_set(c, row, end == line ? NOT_MEASURED : value);
        line = end + (*end == ',');
    }
    return row->step >= 0;
}
