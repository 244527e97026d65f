/* From options to a run that is ready to train. */
#ifndef SETUP_H
#define SETUP_H

#include "model/lab/session.h"

/* Of several ranks the first alone writes and speaks. Those on one machine share its cores, unless
   --threads says how many each has. */
void setup_join(struct session *t);

/* Dies if the ranks do not have the same program, options and corpus; and then, if they do not start
   from the same weights: one may have read another checkpoint. */
void setup_compare(const struct session *t);
void setup_compare_weights(const struct session *t);

/* Reads the corpus that the options name, and notes in the outcome what it holds. `known` is the
   vocabulary of a stored model; NULL: the corpus has its own. */
void setup_corpus(struct session *t, const struct vocabulary *known);

/* Reads the corpus, makes the model, the optimizer and all other memory of training, and opens the
   run's folder: a new one, or with --resume the run as it was at its last checkpoint. */
void setup_run(struct session *t);

/* Closes the run and frees what setup_run() made, except for the model. */
void setup_free(struct session *t);

#endif
