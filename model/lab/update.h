/* One update: the gradient of --grad-accum batches, then the optimizer. */
#ifndef UPDATE_H
#define UPDATE_H

#include "model/lab/session.h"

/* The targets and pads of all batches of update number `step`. The batches are not filled. */
struct batch_count update_count(const struct session *t, int64_t step);

/* Makes update number t->outcome.steps. Writes to the row the mean loss over all targets of the
   update's batches, and the norm of its gradient. If either is not finite, the optimizer does not run and
   the weights stay as they are. A probe of the update is written too if one is due. */
void update_model(struct session *t, struct log_row *row);

/* Converts --max-tokens into a number of updates: the smallest that trains on at least that many
   targets. Batches of items differ in their targets, so they are counted one by one. Dies with
   status 2 if --max-iters is given and differs. */
void update_settle_count(struct session *t);

#endif
