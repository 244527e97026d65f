/* What training writes: rows of log.csv, checkpoints, models and summary.json. */
#pragma once

#include "model/app/calendar.h"
#include "model/app/checkpoint.h"
#include "model/app/update.h"

struct record {
    struct run run;
    struct state state;      // what is known of it
    struct update update;    // of this step
    const struct plan *plan; // this and what follows belong to others
    const struct config *config;
    struct model *model;
    const struct optimizer *optimizer;
    const struct tensor_list *tracked; // by probes
    struct model best;                 // of --keep-best: only its lists of tensors, or none
};

/* Prepares the record of a run on this corpus. With --keep-best it takes memory for a copy of the
   model. */
void record_init(struct record *r, const struct plan *plan, const struct corpus *corpus,
                 struct model *model, const struct optimizer *optimizer,
                 const struct tensor_list *tracked);
void record_free(struct record *r);

/* ---- rows of log.csv, and the clock that times them ---- */

/* Starts the clock of a new run, or of one that continues after state.seconds. */
void record_start(struct record *r);

/* Begins step state.step: sets its learning rate, state.lr; nothing is measured yet. */
void record_step(struct record *r);

/* After an evaluation, if there was one: with --keep-best, one with the lowest validation loss so far also
   keeps the model. */
void record_evaluation(struct record *r);
void record_update(struct record *r, struct update update);

/* Writes the row every --log-interval steps, after an evaluation, if it is the last, or if a number in
   it is not finite; then counts the update. */
void record_write(struct record *r, enum ending_reason ending);

/* If a number of the row is not finite, or at the last step one of the model, writes summary.json
   and dies with status 3; the message names the first tensor that holds such a number. The row is
   in the log already. */
void record_check(struct record *r, bool last);

/* ---- checkpoints and models ---- */

/* Saves the run after state.step updates: checkpoint.safetensors, which --resume needs, and at
   the end model.safetensors too. With --checkpoint-interval=0 the end gets a checkpoint only if a
   signal arrived or an older checkpoint exists. If the model holds NaN or infinity, nothing is
   written. */
void record_save(struct record *r, enum ending_reason ending);

/* summary.json; `exit_reason` is "done", "diverged" or "interrupted". */
void record_save_summary(struct record *r, const char *exit_reason);

/* --keep-best: a copy of the model as it was at the evaluation with the lowest validation loss.

   The copy is kept in memory, in best.safetensors and in each checkpoint. The file is for users of
   the model. The copy in the checkpoint makes a resumed run exact: from it, --resume writes
   best.safetensors as it was at the checkpoint's step, in case the file is newer. */

/* When a run resumes: record_read_best() reads the copy, if there is one, from the checkpoint;
   record_resume_best() writes best.safetensors, or removes it if there is no copy. */
void record_read_best(struct record *r, const struct checkpoint *from);
void record_resume_best(struct record *r);
