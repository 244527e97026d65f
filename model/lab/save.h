/* What a run writes beside its tables: checkpoint, model and summary. */
#ifndef SAVE_H
#define SAVE_H

#include "model/lab/training.h"

/* Saves the run after t->outcome.steps updates: checkpoint.safetensors, which --resume needs, and
   at the last step model.safetensors too. The last step has a checkpoint unless
   --checkpoint-interval is 0, or the run was interrupted. If the model holds NaN or infinity,
   nothing is written. */
void save_run(struct training *t, bool last);

/* summary.json; `exit_reason` is "done", "diverged" or "interrupted". */
void save_summary(struct training *t, const char *exit_reason);

#endif
