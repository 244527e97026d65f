/* One update: the gradient of --grad-accum batches, then Adam. */
#ifndef UPDATE_H
#define UPDATE_H

#include "model/lab/training.h"

/* What the batches of an update hold. */
struct update_size {
    size_t targets, pads;
};

/* Samples the batches of update number `step` from the last to the first, so that the first one is
   left in t->batch, and counts what they hold: batches of items differ in their numbers of
   targets. */
struct update_size update_sample(struct training *t, int64_t step);

/* Makes update number t->outcome.steps. Writes to the row the mean loss over all targets of the
   update's batches, and the norm of its gradient. If either is not finite, Adam does not run and
   the weights stay as they are. A probe of the update is written too if one is due. */
void update_model(struct training *t, struct log_row *row);

/* Converts --max-tokens into a number of updates: the smallest that trains on at least that many
   targets. Samples the batches of items to count their targets. Dies with status 2 if --max-iters
   is given and differs. */
void update_settle_count(struct training *t);

#endif
