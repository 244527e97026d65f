/* --keep-best: a copy of the model as it was at the evaluation with the lowest validation loss.

   The copy lies in memory, in best.safetensors and in each checkpoint. The file is for whoever uses
   the model. The checkpoint's copy makes a resumed run exact: it writes best.safetensors again as
   it was at the checkpoint's step, so a file that is newer than the checkpoint does no harm. */
#ifndef BEST_H
#define BEST_H

#include "model/lab/training.h"

/* Takes memory for the copy. Without --keep-best this function and the others do nothing. */
void best_init(struct training *t);
void best_free(struct training *t);

/* Whether the model can be kept: every number in it is finite. True without --keep-best. */
bool best_possible(const struct training *t);

/* Copies the model and writes best.safetensors; the outcome has its step and loss already. */
void best_keep(struct training *t);

/* The copy for a checkpoint; NULL if there is none. */
const struct model *best_copy(const struct training *t);

/* For a run that goes on: takes the copy from its checkpoint and writes best.safetensors. Without a
   checkpoint, or before the first evaluation, removes the file. */
void best_resume(struct training *t);

#endif
