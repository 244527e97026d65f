/* Models that have learned something. */
#ifndef FIT_H
#define FIT_H

#include "model/model.h"
#include "model/optimizer/optimizer.h"

extern const struct adamw_numbers fit_options;

/* Trains for at most `steps` updates on the same batch, with a warm-up of 100 updates (Post-LN
   needs it). Stops once the loss is below `enough`: where gradients vanish, Adam's steps grow until
   they leave the minimum. Returns the last loss. */
double fit_batch(struct model *model, struct optimizer *adam, const struct batch *batch, int steps,
                 double lr, double enough);

/* Initializes a small model and trains it, so that its running statistics are not the initial
   ones. */
void fit_small(struct model *model, const struct model_config *config, size_t B);

#endif
