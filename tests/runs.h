/* What runs leave in their folders, read and compared. Everything that is missing or malformed
   fails the test. */
#ifndef RUNS_H
#define RUNS_H

#define HEADER "step,seconds,tokens,lr,train_loss,val_loss,grad_norm,tokens_per_second"
enum { STEP, SECONDS, TOKENS, LR, TRAIN_LOSS, VAL_LOSS, GRAD_NORM, SPEED, COLUMNS };

enum { LOG_ROWS = 512 };

/* The texts of FOLDER/log.csv below the header. */
struct log {
    int rows;
    const char *cell[LOG_ROWS][COLUMNS];
};

struct log log_of(const char *folder);
double log_number(const struct log *log, int row, int column);

/* All that must be the same in two runs of the same numbers: the log without its times; a file. */
void expect_same_log(const char *one, const char *other);
void expect_same_file(const char *one, const char *other, const char *name);

/* FOLDER/summary.json, and a member of it. */
char *summary_of(const char *folder);
void expect_member(const char *folder, const char *name, const char *value);

#endif
