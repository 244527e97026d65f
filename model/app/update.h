/* One update: the gradient of --grad-accum batches, then the optimizer. */
#pragma once

#include "model/app/evaluate.h"
#include "model/instruments/fault.h"
#include "model/instruments/probe.h"
#include "model/optimizer/optimizer.h"

struct update {
    double loss;                // mean over all targets of the update's batches
    double grad_norm;           // of its gradient
    struct batch_count trained; // targets and pads of these batches
    double seconds;
    struct fault fault; // if one of these two is not finite
};

/* Makes update number `step`, with this learning rate. If the loss or its gradient's norm is not finite, the optimizer does
   not run, the weights stay as they are, and nothing counts as trained. Writes a probe of the
   update if one is due. */
struct update update_model(struct loader *loader, struct model *model, struct optimizer *optimizer,
                           struct probe *probe, int64_t step, double rate);

/* The targets and pads of all batches of update number `step`. May overwrite the loader's batch. */
struct batch_count update_count_targets(struct loader *loader, int64_t step);
