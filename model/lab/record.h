/* What training writes: rows of log.csv, checkpoints, models and summary.json. */
#ifndef RECORD_H
#define RECORD_H

#include "model/lab/state.h"

/* Prepares the outcome of a run. With --keep-best it takes memory for a copy of the model. */
void record_init(struct session *t);
void record_free(struct session *t);

/* ---- rows of log.csv, and the clock that times them ---- */

/* Starts the clock of a new run, or of one that continues after outcome.seconds. */
void log_start(struct session *t);

/* The row of step outcome.steps, with nothing measured yet. */
struct log_row log_row(struct session *t);

/* Add what was measured to the row and to the outcome. With --keep-best an evaluation with the
   lowest validation loss so far also keeps the model. */
void log_evaluation(struct session *t, struct log_row *row, struct evaluation evaluation);
void log_update(struct session *t, struct log_row *row, struct update update);

/* Completes the row, brings the outcome up to date, and writes the row if it is due, if it is the
   last, or if a number in it is not finite. */
void log_write(struct session *t, struct log_row *row, enum ending_reason ending);

/* If a number of the row is not finite, or at the last step one of the model, writes summary.json
   and dies with status 3; the message names the first tensor that holds such a number. The row is
   in the log already. */
void log_check(struct session *t, const struct log_row *row, bool last);

/* ---- checkpoints and models ---- */

/* Saves the run after outcome.steps updates: checkpoint.safetensors, which --resume needs, and at
   the end model.safetensors too. With --checkpoint-interval=0 the end gets a checkpoint only if a
   signal arrived or an older checkpoint exists. If the model holds NaN or infinity, nothing is
   written. */
void save_run(struct session *t, enum ending_reason ending);

/* summary.json; `exit_reason` is "done", "diverged" or "interrupted". */
void save_summary(struct session *t, const char *exit_reason);

/* --keep-best: a copy of the model as it was at the evaluation with the lowest validation loss.

   The copy is kept in memory, in best.safetensors and in each checkpoint. The file is for users of
   the model. The copy in the checkpoint makes a resumed run exact: from it, --resume writes
   best.safetensors as it was at the checkpoint's step, in case the file is newer. */

/* When a run resumes: reads the copy from the checkpoint and writes best.safetensors. Removes the
   file if there is no checkpoint, or none with a copy. */
void save_best_resume(struct session *t);

#endif
