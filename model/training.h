/* The state of the program, and what training (train.c) and use (use.c) share. */
#ifndef TRAINING_H
#define TRAINING_H

#include "../data/corpus.h"
#include "../data/progress.h"
#include "../data/run.h"
#include "checkpoint.h"
#include "measure.h"
#include "probe.h"
#include <signal.h>

/* Everything that lives as long as a run. */
struct training {
    struct config config;
    struct checkpoint checkpoint; // that it goes on from, if any
    struct corpus corpus;
    struct model model;
    struct adam adam;
    struct probe probe;
    struct batch batch;
    struct run run;
    struct progress progress;
    struct outcome outcome;
    double saved, saving; // when it was saved last, and the seconds that it took
};

/* The corpus that the configuration names: in its own vocabulary, or in one that is known. */
void training_corpus(struct training *t, const struct vocabulary *known);

/* SIGINT or SIGTERM, if one came: finish the step, save, leave. */
extern volatile sig_atomic_t training_stopped;

/* The score on the validation part, or on --eval-iters batches spread evenly over it; of less if a
   signal comes in between. By a model made for these statistics, which of another batch are those
   of the batch before. */
struct score training_evaluate(struct training *t, struct model *model, enum statistics source);

#endif
