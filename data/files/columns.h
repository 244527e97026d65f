/* The columns of log.csv. A column is a row of log_columns: which member of struct log_row it
   shows, how it is written, and the switch that turns it on. */
#ifndef COLUMNS_H
#define COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A row; losses in nats per character. Values that were not measured are negative. */
struct log_row {
    int64_t step;   // updates done before this row
    double seconds; // since the start of the run
    int64_t tokens; // that these updates trained on
    double lr, train_loss, val_loss, grad_norm, tokens_per_second, eval_train_loss;
    double val_accuracy, updating; // have no columns; seconds spent in updates by this program
};

enum { NOT_MEASURED = -1 };

/* A number of a struct, here of struct log_row, by its name in a file. */
struct column {
    const char *name, *format; // in the file; of printf() for a double
    size_t offset;             // of the member
    bool counts;               // the member is an int64_t, else a double
    bool evaluated;            // measured by an evaluation, else by an update
    const char *what;   // for a message if it is not finite: the run has then diverged; or NULL
    const char *option; // the switch without which a file lacks it; NULL: all have it
};

/* Ended by a row without a name. Those with an option are the last. */
extern const struct column log_columns[];

/* The number in this struct, and changing it. */
double column_value(const struct column *column, const void *row);
void column_set(const struct column *column, void *row, double value);

/* A row in which nothing is measured yet: every double with a column is NOT_MEASURED. */
struct log_row columns_unmeasured(void);

/* The log's columns with an option are those whose bits are set in `optional`, counted as the rows
   of log_columns are. */

/* The first line, in a buffer of the function. */
const char *columns_header(uint32_t optional);

/* Writes a row without the end of its line; a value that was not measured is an empty cell. */
void columns_write(FILE *log, uint32_t optional, const struct log_row *row);

/* Reads the columns that every log has from a line; an empty cell is NOT_MEASURED. Returns false
   for the header. */
bool columns_read(const char *line, struct log_row *row);

/* As printf(); nan without a sign. */
void columns_number(FILE *file, const char *format, double value);

#endif
