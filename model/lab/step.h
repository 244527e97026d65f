/* The steps of training: one update, one evaluation. */
#ifndef STEP_H
#define STEP_H

#include "model/lab/session.h"

/* ---- one update: the gradient of --grad-accum batches, then the optimizer ---- */

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

/* ---- the loss on the validation split, and on a slice of the training split ---- */

/* Calls `each` with every batch that evaluate_validation() measures, in order, until it returns
   false. `other` is the batch that STATISTICS_OTHER takes statistics from. */
typedef bool evaluate_batch(void *context, const struct batch *batch, const struct batch *other);
void evaluate_batches(struct session *t, enum statistics_source source, evaluate_batch *each,
                      void *context);

/* The score on the validation split, or on --eval-iters batches spread evenly over it. `model` was
   made for statistics from `source` (measure_init()); with STATISTICS_OTHER, those of each batch
   come from the batch before it. An interrupt ends the loop early: the score then is of fewer
   batches. */
struct score evaluate_validation(struct session *t, struct model *model,
                                 enum statistics_source source);

/* --eval-train: the same, with running statistics, on a slice of the training split that is as long
   as what evaluate_validation() measures, or as long as the training split allows. */
struct score evaluate_slice(struct session *t);

/* The evaluation of a run at one step: writes its losses to the row and to the outcome, and keeps
   the best model. If an interrupt arrives before the end, it changes nothing. Before the first update
   the loss by running statistics may not be finite: it then says so and records no loss. */
void evaluate_run(struct session *t, struct log_row *row);

#endif
