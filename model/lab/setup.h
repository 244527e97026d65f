/* From options to a run that is ready to train. */
#ifndef SETUP_H
#define SETUP_H

#include "model/lab/session.h"

/* Reads the corpus, makes the model, the optimizer and all other memory of training, and opens the
   run's folder: a new one, or with --resume the run as it was at its last checkpoint. */
void setup_run(struct session *t);

/* Closes the run and frees what setup_run() made, except for the model. */
void setup_free(struct session *t);

#endif
