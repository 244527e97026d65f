/* Messages of training on standard error, unless --quiet. */
#ifndef SAY_H
#define SAY_H

#include "model/lab/session.h"

/* At the start: corpus and sizes, the formulas of norm and placement, options without effect, and
   the step at which a run resumes. */
void say_start(struct session *t, int argc, char **argv);

/* For a stored model that is only used: a note on options without effect. */
void say_without_effect(const struct config *config, int argc, char **argv);

/* After the update of the row: its losses, if it was evaluated, and the plot and the live line. After
   the last row the live line is removed. */
void say_progress(struct session *t, const struct log_row *row, bool last);

/* At the end: the result and the folder. */
void say_end(struct session *t);

/* The command that continues an interrupted run; `program` is argv[0]. */
void say_resume(struct session *t, const char *program);

#endif
