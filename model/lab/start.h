/* --start: a run that starts from the weights of a file.

   The vocabulary of the file, if it has one, becomes that of the run, so that a character keeps its
   embedding and another text may lack some of the characters. A run that resumes has its weights
   and vocabulary in its checkpoint and does not read the file again, unless it was stopped before
   its first checkpoint. */
#ifndef START_H
#define START_H

#include "model/lab/session.h"

/* Before the corpus is read: opens the file, and reads the vocabulary into t->known. The stream of
   `file` stays NULL if no weights are to be read. */
void start_open(struct checkpoint *file, struct session *t);

/* Reads the weights into the new model, and closes the file. */
void start_read(struct checkpoint *file, struct session *t);

#endif
