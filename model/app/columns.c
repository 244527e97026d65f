/* The table of a run's numbers. A column that is added to the log has an option and comes last in
   it: a run then resumes with the header that it started with. */
#include "model/app/columns.h"
#include "data/format.h"
#include <math.h>
#include <stdlib.h>

#define AT(member) .offset = offsetof(struct state, member)

const struct column state_columns[] = {
    {"step", "%.0f", AT(step), IN_LOG, .counts = true},
    {"seconds", "%.3f", AT(seconds), IN_LOG | IN_SUMMARY},
    {"tokens", "%.0f", AT(tokens), IN_LOG | IN_BOTH, .counts = true},
    {"lr", "%.6g", AT(lr), IN_LOG},
    {"train_loss", "%.9g", AT(train_loss), IN_LOG, .what = "the training loss"},
    {"val_loss", "%.9g", AT(val_loss), IN_LOG, .what = "the validation loss", .evaluated = true},
    {"grad_norm", "%.9g", AT(grad_norm), IN_LOG, .what = "the gradient's norm"},
    {"tokens_per_second", "%.0f", AT(tokens_per_second), IN_LOG},
    {"eval_train_loss", "%.9g", AT(eval_train_loss), IN_LOG, .evaluated = true,
     .what = "the loss on the training slice", .option = "eval-train"},
    {"train_loss", NULL, AT(last_train_loss), IN_BOTH},
    {"val_loss", NULL, AT(last_val_loss), IN_BOTH},
    {"eval_train_loss", NULL, AT(last_eval_train_loss), IN_BOTH, .option = "eval-train"},
    {"val_accuracy", NULL, AT(val_accuracy), IN_BOTH},
    {"best_val_loss", NULL, AT(best_val_loss), IN_BOTH},
    {"best_step", NULL, AT(best_step), IN_BOTH, .counts = true},
    {"pads", NULL, AT(pads), IN_CHECKPOINT, .counts = true},
    {"steps", NULL, AT(step), IN_SUMMARY, .counts = true},
    {"tokens_per_second", NULL, AT(speed), IN_SUMMARY},
    {"grammar_entropy", NULL, AT(grammar_entropy), IN_SUMMARY},
    {"unigram_entropy", NULL, AT(unigram_entropy), IN_SUMMARY},
    {"unigram_val_loss", NULL, AT(unigram_val_loss), IN_SUMMARY},
    {0},
};

double column_value(const struct column *column, const struct state *state) {
    const char *member = (const char *)state + column->offset;
    return column->counts ? (double)*(const int64_t *)member : *(const double *)member;
}

void column_set(const struct column *column, struct state *state, double value) {
    char *member = (char *)state + column->offset;
    if (column->counts)
        *(int64_t *)member = (int64_t)value;
    else
        *(double *)member = value;
}

void columns_unmeasured(struct state *state) {
    for (const struct column *c = state_columns; c->name; c++)
        if (c->in == IN_LOG && !c->counts) column_set(c, state, NOT_MEASURED);
}

bool column_is_in(const struct column *c, int file, uint32_t optional) {
    return c->in & file && (!c->option || optional >> (c - state_columns) & 1);
}

const char *columns_header(uint32_t optional) {
    static char line[1024];
    line[0] = 0;
    for (const struct column *c = state_columns; c->name; c++)
        if (column_is_in(c, IN_LOG, optional))
            format_add(line, sizeof line, "%s%s", *line ? "," : "", c->name);
    format_add(line, sizeof line, "\n");
    return line;
}

void columns_number(FILE *file, const char *format, double value) {
    if (isnan(value))
        fputs("nan", file); // printf() might print a sign
    else
        fprintf(file, format, value);
}

void columns_write(FILE *log, const struct state *state) {
    for (const struct column *c = state_columns; c->name; c++) {
        const double value = column_value(c, state);
        if (!column_is_in(c, IN_LOG, state->optional)) continue;
        if (c != state_columns) fputc(',', log);
        if (!(value < 0)) columns_number(log, c->format, value);
    }
}

bool columns_read(const char *line, struct state *state) {
    *state = (struct state){0};
    columns_unmeasured(state);
    for (const struct column *c = state_columns; c->in & IN_LOG && !c->option; c++) {
        char *end;
        const double value = strtod(line, &end);
        column_set(c, state, end == line ? NOT_MEASURED : value);
        line = end + (*end == ',');
    }
    return state->step >= 0;
}
