/* The state of the program, and what training (train.c) and use (use.c) share. */
#ifndef TRAINING_H
#define TRAINING_H

#include "data/files/progress.h"
#include "data/files/run.h"
#include "data/text/corpus.h"
#include "model/lab/checkpoint.h"
#include "model/lab/measure.h"
#include "model/lab/probe.h"
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
    struct {
        struct model model; // its lists of tensors only
        struct arena arena;
    } best; // see best.h
};

/* The corpus that the configuration names: in its own vocabulary, or in one that is known. */
void training_corpus(struct training *t, const struct vocabulary *known);

/* --max-tokens as a number of updates: the fewest that train on at least so many targets. Items'
   batches differ, so they are counted one by one. Dies with status 2 where --max-iters says
   another number. */
void training_settle_updates(struct training *t);

/* The targets and pads of all batches of an update. The batches are not filled. */
struct batch_count training_count(const struct training *t, int64_t step);

/* SIGINT or SIGTERM, if one came: finish the step, save, leave. */
extern volatile sig_atomic_t training_stopped;

/* The score on the validation part, or on --eval-iters batches spread evenly over it; of less if a
   signal comes in between. By a model made for these statistics, which of another batch are those
   of the batch before. */
struct score training_evaluate(struct training *t, struct model *model,
                               enum statistics_source source);

/* --eval-train: the same, by running statistics, on a slice of the training part that is as long as
   what training_evaluate() measures, or as long as there is. */
struct score training_evaluate_slice(struct training *t);

/* An evaluation of the run: puts its losses in the row and in the outcome, and keeps the best
   model. False, and nothing changes, if a signal comes in between. */
bool training_measure(struct training *t, struct log_row *row);

/* A line on the evaluation in the row. */
void training_say_losses(struct training *t, const struct log_row *row);

#endif
