/* What is due at a step of training. The step is the number of updates done so far,
   t->outcome.steps. */
#ifndef DUE_H
#define DUE_H

#include "model/lab/session.h"

/* An evaluation: every --eval-interval steps and at the last step. */
bool due_evaluation(const struct session *t);

/* A checkpoint during training: every --checkpoint-interval steps; with auto, when the time since
   the last one is 100 times as long as that one took. None is due at the step at which this program
   started. */
bool due_checkpoint(const struct session *t);

/* A probe of this step's update: every --probe-interval steps. */
bool due_probe(const struct session *t);

/* A row of log.csv: every --log-interval steps, and whenever there was an evaluation. */
bool due_log(const struct session *t, const struct log_row *row);

#endif
