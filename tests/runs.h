/* Reads and compares what runs leave in their folders. Whatever is missing or malformed fails the
   test. */
#ifndef RUNS_H
#define RUNS_H

#define HEADER "step,seconds,tokens,lr,train_loss,val_loss,grad_norm,tokens_per_second"
enum { STEP, SECONDS, TOKENS, LR, TRAIN_LOSS, VAL_LOSS, GRAD_NORM, SPEED, COLUMNS };

enum { LOG_ROWS = 512 };

/* The cells of FOLDER/log.csv below the header. */
struct log {
    int rows;
    const char *cell[LOG_ROWS][COLUMNS];
};

struct log log_of(const char *folder);
double log_number(const struct log *log, int row, int column);

/* Fail unless two runs of the same computation left the same: the log except for its times, or a
   file. */
void expect_same_log(const char *one, const char *other);
void expect_same_file(const char *one, const char *other, const char *name);

/* FOLDER/summary.json; expect_member() fails unless a member of it has this value. */
char *summary_of(const char *folder);
void expect_member(const char *folder, const char *name, const char *value);

#endif
