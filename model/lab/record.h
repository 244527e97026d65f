/* What training writes: rows of log.csv, checkpoints, models and summary.json. */
#ifndef RECORD_H
#define RECORD_H

#include "model/lab/session.h"

/* ---- rows of log.csv, and the clock that times them ---- */

/* Starts the clock of a new run, or of one that continues after t->outcome.seconds. */
void log_start(struct session *t);

/* The row of step t->outcome.steps, with nothing measured yet. */
struct log_row log_row(struct session *t);

/* Completes the row, brings the times of the outcome up to date, and writes the row if it is due,
   if it is the last, or if a number in it is not finite. */
void log_write(struct session *t, struct log_row *row, bool last);

/* If a number of the row is not finite, or at the last step one of the model, writes summary.json
   and dies with status 3; the message names the first tensor that holds such a number. The row is
   in the log already. */
void log_check(struct session *t, const struct log_row *row, bool last);

/* ---- checkpoints and models ---- */

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
