/* From options to a run that is ready to train. */
#ifndef SESSION_H
#define SESSION_H

#include "model/lab/state.h"

/* Of several ranks the first alone writes and speaks. Those on one machine share its cores, unless
   --threads says how many each has. */
void session_join(struct session *t);

/* session_compare() dies if the ranks do not have the same program, options and corpus.
   session_compare_weights() dies if they do not start from the same weights, because one may have
   read another checkpoint. */
void session_compare(const struct session *t);
void session_compare_weights(const struct session *t);

/* Reads the corpus that the options name. `known` is the vocabulary of a stored model; NULL: the
   corpus has its own. */
void session_corpus(struct corpus *corpus, const struct config *config,
                    const struct vocabulary *known);

/* Reads the corpus, makes the model, the optimizer and all other memory of training, and opens the
   run's folder: a new one, or with --resume the run as it was at its last checkpoint. */
void session_start(struct session *t);

/* Closes the run and the stored model, and frees all memory. */
void session_free(struct session *t);

#endif
