/* Models of other programs: files with nanoGPT's names that have only weights. They are made from
   the model of a run, so they must give the results of this run. */
#ifndef FOREIGN_H
#define FOREIGN_H

#include "tests/runs.h"

/* Options that say what the file does not, and two ways to use a model. */
#define SAID     "--n-head=2 --vocabulary=text.txt "
#define MEASURE  " other.txt --batch-size=2"
#define GENERATE " --prompt=the --num-chars=40"

/* Fixtures of a suite: a folder with text.txt and other.txt; the second one also trains a run of
   nanoGPT's own model with foreign_learn(). */
void foreign_enter(void);
void foreign_enter_and_learn(void);

/* Trains a run in out/ with these options. `edited` (runs.h) becomes its weights, without texts. */
void foreign_learn(const char *options);

/* Adds an array of zeros, or a text. */
struct stored *foreign_add(const char *name, int dimensions, const size_t *shape);
void foreign_say(const char *name, const char *text);

/* The values of an array. */
float *foreign_values(const struct stored *array);

/* Writes other.st without this array. */
void foreign_put_without(struct stored *array);

/* What ./train prints for this command with these options; fails unless it succeeds. */
char *foreign_output(const char *command, const char *options);

/* Fails unless other.st gives the same measurement and the same generated text as the run. */
void foreign_expect_same(const char *options);

/* Writes other.st. Fails unless it is refused with this status and a message that contains `part`,
   both for generation and for evaluation. */
void foreign_expect_refused(int status, const char *options, const char *part);

#endif
