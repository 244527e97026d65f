/* --keep-best: a copy of the model as it was at the evaluation with the lowest validation loss.

   The copy is kept in memory, in best.safetensors and in each checkpoint. The file is for users of
   the model. The copy in the checkpoint makes a resumed run exact: from it, --resume writes
   best.safetensors as it was at the checkpoint's step, in case the file is newer. */
#ifndef BEST_H
#define BEST_H

#include "model/lab/session.h"

/* Takes memory for the copy. Without --keep-best, all functions here do nothing. */
void best_init(struct session *t);
void best_free(struct session *t);

/* Whether the model can be kept: every number in it is finite. True without --keep-best. */
bool best_possible(const struct session *t);

/* Copies the model and writes best.safetensors. The outcome already has its step and loss. */
void best_keep(struct session *t);

/* The copy for a checkpoint; NULL if there is none. */
const struct model *best_copy(const struct session *t);

/* When a run resumes: reads the copy from the checkpoint and writes best.safetensors. Removes the
   file if there is no checkpoint, or none with a copy. */
void best_resume(struct session *t);

#endif
