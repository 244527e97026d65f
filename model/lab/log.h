/* The rows of log.csv and the clock that times them.

   Row `step` describes the model after `step` updates: its losses if it was evaluated, and the loss
   and gradient norm of the update that follows. So a row is started before its update and written
   after it. Time in evaluations and saving counts in `seconds` but not in `tokens_per_second`. */
#ifndef LOG_H
#define LOG_H

#include "model/lab/session.h"

/* Starts the clock of a new run, or of one that continues after t->outcome.seconds. */
void log_start(struct session *t);

/* The row of step t->outcome.steps, with nothing measured yet. */
struct log_row log_row(struct session *t);

/* Completes the row, brings the times of the outcome up to date, and writes the row if it is due,
   if it is the last, or if a number in it is not finite. */
void log_write(struct session *t, struct log_row *row, bool last);

/* If a number of the row is not finite, or at the last step one of the model, writes summary.json
   and dies with status 3; the message names the first tensor that holds such a number. The row is
   in the log already. */
void log_check(struct session *t, const struct log_row *row, bool last);

#endif
