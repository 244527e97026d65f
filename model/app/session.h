/* The state of the program when it trains, from options to a run that is ready. */
#pragma once

#include "model/app/chart.h"
#include "model/app/record.h"

struct session {
    struct plan plan;
    struct checkpoint checkpoint; // what was stored: the run to resume or the model to use
    struct loader loader;
    struct model model;
    struct optimizer optimizer;
    struct probe probe;
    struct record record;
    struct progress progress;
    struct chart chart; // see messages.h
};

/* Sets the number of threads. Dies if the ranks cannot all read the corpus. */
void session_join(const struct config *config);

/* session_compare() dies if the ranks do not have the same program, options and corpus.
   session_compare_weights() dies if they do not start from the same weights, because one may have
   read another checkpoint; `optimizer` may be NULL. */
void session_compare(const struct config *config, const struct corpus *corpus);
void session_compare_weights(const struct model *model, const struct optimizer *optimizer);

/* Reads the corpus that the options name. `known` is the vocabulary of a stored model; NULL: the
   corpus has its own. */
void session_corpus(struct corpus *corpus, const struct config *config,
                    const struct vocabulary *known);

/* Reads the corpus, makes the model, the optimizer and all other memory of training, and opens the
   run's folder: a new one, or with --resume the run as it was at its last checkpoint. */
void session_start(struct session *t);

/* Closes the run and frees what session_start() made. */
void session_free(struct session *t);
