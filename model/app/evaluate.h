/* The loss on the validation split, and on a slice of the training split. */
#pragma once

#include "data/text/corpus.h"
#include "model/app/progress.h"
#include "model/app/run.h"
#include "model/instruments/measure.h"
#include "model/options/config.h"

/* The corpus of a run, and the batch that is read from it for an update or an evaluation. */
struct loader {
    const struct config *config;
    struct corpus corpus;
    struct batch batch;
};

/* The number of batches of the validation split that are measured. evaluate_batch() fills
   loader->batch with the i-th, and for STATISTICS_OTHER `other` with the one to take statistics
   from, whose memory it takes if it has none. */
size_t evaluate_count(const struct loader *loader);
void evaluate_batch(struct loader *loader, enum statistics_source source, size_t i,
                    struct batch *other);

/* The score on the validation split, or on --eval-iters batches spread evenly over it; or for
   --eval-train on a slice of the training split of the same size, or all of it if that is shorter.
   With STATISTICS_OTHER, each batch has the statistics of the batch before it. An interrupt ends the loop early: the score then is of
   fewer batches. */
struct score evaluate_split(struct loader *loader, struct model *model,
                            enum statistics_source source, enum corpus_split split);

/* Evaluates at a step of training. If an interrupt arrives before its end,
   nothing is measured. Before the first update the loss by running statistics may not be finite: it
   then says so and measures nothing. */
void evaluate_model(struct loader *loader, struct model *model, struct progress *progress,
                    struct state *run);
