/* Writes the checkpoint, model and summary of a run. */
#ifndef SAVE_H
#define SAVE_H

#include "model/lab/session.h"

/* Saves the run after t->outcome.steps updates: checkpoint.safetensors, which --resume needs, and
   at the last step model.safetensors too. With --checkpoint-interval=0 the last step gets a
   checkpoint only if the run was interrupted or an older checkpoint exists. If the model holds NaN
   or infinity, nothing is written. */
void save_run(struct session *t, bool last);

/* summary.json; `exit_reason` is "done", "diverged" or "interrupted". */
void save_summary(struct session *t, const char *exit_reason);

/* --keep-best: a copy of the model as it was at the evaluation with the lowest validation loss.

   The copy is kept in memory, in best.safetensors and in each checkpoint. The file is for users of
   the model. The copy in the checkpoint makes a resumed run exact: from it, --resume writes
   best.safetensors as it was at the checkpoint's step, in case the file is newer. */

/* Takes memory for the copy. Without --keep-best, all functions here do nothing. */
void save_best_init(struct session *t);
void save_best_free(struct session *t);

/* Whether the model can be kept: every number in it is finite. True without --keep-best. */
bool save_best_possible(const struct session *t);

/* Copies the model and writes best.safetensors. The outcome already has its step and loss. */
void save_best_keep(struct session *t);

/* The copy for a checkpoint; NULL if there is none. */
const struct model *save_best_copy(const struct session *t);

/* When a run resumes: reads the copy from the checkpoint and writes best.safetensors. Removes the
   file if there is no checkpoint, or none with a copy. */
void save_best_resume(struct session *t);

#endif
