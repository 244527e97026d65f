/* --keep-best: a copy of the model as it was at the evaluation with the lowest validation loss.

   The copy is kept in memory, in best.safetensors and in each checkpoint. The file is for users of
   the model. The copy in the checkpoint makes a resumed run exact: from it, --resume writes
   best.safetensors as it was at the checkpoint's step, in case the file is newer. */
#ifndef BEST_H
#define BEST_H

#include "model/lab/training.h"

/* Takes memory for the copy. Without --keep-best, all functions here do nothing. */
void best_init(struct training *t);
void best_free(struct training *t);

/* Whether the model can be kept: every number in it is finite. True without --keep-best. */
bool best_possible(const struct training *t);

/* Copies the model and writes best.safetensors. The outcome already has its step and loss. */
void best_keep(struct training *t);

/* The copy for a checkpoint; NULL if there is none. */
const struct model *best_copy(const struct training *t);

/* When a run resumes: reads the copy from the checkpoint and writes best.safetensors. Removes the
   file if there is no checkpoint, or none with a copy. */
void best_resume(struct training *t);

#endif
