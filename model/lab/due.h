/* What is due at a step of training. The step is the number of updates done so far,
   t->outcome.steps. */
#ifndef DUE_H
#define DUE_H

#include "model/lab/session.h"

/* The end of training: --max-iters updates are done, or --max-seconds are over. Notes in the outcome
   which of them it was. */
bool due_end(struct session *t);

/* The end after an evaluation: its loss is at most --stop-at. Notes it too. */
bool due_stop(struct session *t, const struct log_row *row);

/* An evaluation: every --eval-interval steps and at the end. */
bool due_evaluation(const struct session *t);

/* A checkpoint during training: every --checkpoint-interval steps; with auto, when the time since
   the last one is 100 times as long as that one took. None is due at the step at which this program
   started. */
bool due_checkpoint(const struct session *t);

/* A probe of this step's update: every --probe-interval steps. */
bool due_probe(const struct session *t);

/* A row of samples.txt: every --sample-interval steps. */
bool due_sample(const struct session *t);

/* A row of log.csv: every --log-interval steps, and whenever there was an evaluation. */
bool due_log(const struct session *t, const struct log_row *row);

#endif
