/* What a run knows at a step, and the table of its numbers that files have: log.csv, checkpoints and
   summary.json. A column of the log is a row of state_columns. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct corpus;

/* Losses in nats per character. A number that was not measured is negative. */
struct state {
    int64_t step;         // updates done
    int64_t tokens, pads; // targets that these updates trained on; pads in their batches
    double seconds;       // since the start of the run
    // measured at this step
    double lr, train_loss, val_loss, grad_norm, eval_train_loss;
    double tokens_per_second; // since the row before
    // of the last update and the last evaluation
    double last_train_loss, last_val_loss, last_eval_train_loss;
    double val_accuracy; // the fraction of targets that are predicted
    double best_val_loss;
    int64_t best_step;
    // of this program: when it started, minus the seconds that the run took before; its first step,
    // and tokens then; seconds spent in updates; tokens and these seconds at the row before
    double started, updating, logged_updating;
    int64_t first_step, first_tokens, logged_tokens;
    double speed;            // targets per second of all its updates
    double saved, saving;    // when the last save ended, and the seconds that it took
    int64_t profiled;        // its updates, timed by --profile
    const char *exit_reason; // "done", "diverged", "interrupted"
    const char *ended_by;    // the option that ended the run: "max-iters", "max-seconds", "stop-at"
    const struct corpus *corpus;
    double grammar_entropy;                   // nats per character; negative for other corpora
    double unigram_entropy, unigram_val_loss; // what frequencies alone give (corpus.h)
    uint32_t optional; // a bit for each row of state_columns whose option is on
};

enum { NOT_MEASURED = -1 };
enum { IN_LOG = 1, IN_CHECKPOINT = 2, IN_SUMMARY = 4, IN_BOTH = IN_CHECKPOINT | IN_SUMMARY };

/* A number of struct state, by its name in files. */
struct column {
    const char *name, *format; // of printf() for a double in the log
    size_t offset;             // of the member
    int in;                    // the files that have it, IN_...
    bool counts;               // the member is an int64_t, else a double
    bool evaluated;            // measured by an evaluation, else by an update
    const char *what;   // for a message if it is not finite: the run has then diverged; or NULL
    const char *option; // the switch without which a file lacks it; NULL: all have it
};

/* Ended by a row without a name. The log's columns come first; of these, those with an option are
   the last. */
extern const struct column state_columns[];

/* The number, and changing it. */
double column_value(const struct column *column, const struct state *state);
void column_set(const struct column *column, struct state *state, double value);

/* A step begins: what the log alone has is NOT_MEASURED. */
void columns_unmeasured(struct state *state);

/* Whether the file IN_... has the column, where these options are on (state.optional). */
bool column_is_in(const struct column *column, int file, uint32_t optional);

/* The log's first line, in a buffer of the function. */
const char *columns_header(uint32_t optional);

/* Writes a row without the end of its line; a value that was not measured is an empty cell. */
void columns_write(FILE *log, const struct state *state);

/* Reads the columns that every log has from a line; an empty cell is NOT_MEASURED. Returns false
   for the header. */
bool columns_read(const char *line, struct state *state);

/* As printf(); nan without a sign. */
void columns_number(FILE *file, const char *format, double value);
