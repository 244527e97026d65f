/* What is due at a step of training: questions, which change nothing. The step is the number of
   updates done so far. */
#ifndef DUE_H
#define DUE_H

#include "model/lab/session.h"

/* Why training ends: a signal arrived; --max-iters updates are done; --max-seconds are over; the loss
   of this step's evaluation is at most --stop-at. */
enum ending { ENDING_NONE, ENDING_SIGNAL, ENDING_ITERS, ENDING_SECONDS, ENDING_LOSS };

/* The first of these reasons that holds at this step. `row` has the loss once there was an
   evaluation. */
enum ending due_end(const struct session *t, const struct log_row *row);

/* The option that ended the run, "max-iters"; NULL if none did. */
const char *due_ending_option(enum ending ending);

/* An evaluation: every --eval-interval steps, and at the end unless a signal arrived. */
bool due_evaluation(const struct config *config, int64_t step, enum ending ending);

/* A checkpoint during training: every --checkpoint-interval steps; with auto, when the time since
   the last one is 100 times as long as that one took. None is due at the step at which this program
   started. */
bool due_checkpoint(const struct config *config, const struct clock *clock, int64_t step);

/* A probe of this step's update: every --probe-interval steps. */
bool due_probe(const struct config *config, int64_t step);

/* A row of samples.txt: every --sample-interval steps. */
bool due_sample(const struct config *config, int64_t step);

/* A row of log.csv: every --log-interval steps, and whenever there was an evaluation. */
bool due_log(const struct config *config, const struct log_row *row);

#endif
