/* What a run writes beside its tables: checkpoint, model and summary. */
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

#endif
