/* Output of training: messages on standard error, unless --quiet; the chart of --plot. */
#pragma once

#include "model/app/chart.h"
#include "model/app/record.h"

/* ---- messages ---- */

/* At the start: corpus and sizes, the formulas of norm and placement, options without effect, and
   the step at which a run resumes. */
void messages_start(struct progress *progress, const struct record *r, int argc, char **argv);

/* For a stored model that is only used: a note on options without effect. */
void messages_without_effect(const struct config *config, int argc, char **argv);

/* After the update of the row: its losses, if it was evaluated, and the plot and the live line.
   After the last row the live line is removed. */
void messages_progress(struct progress *progress, struct chart *chart, const struct record *r,
                       bool last);

/* At the end: the result, the folder, and the command that writes text with the model or continues an
   interrupted run; `program` is argv[0]. */
void messages_end(struct progress *progress, const struct record *r, const char *program);

/* ---- --plot: the loss curves of the run so far, and of the runs of --plot-beside ---- */

/* After progress_start(): the chart, with the curves of --plot-beside; without --plot it stays
   empty. Dies with status 1 if one of these runs has no log, and with status 2 if they are too
   many. */
void messages_plot_start(struct chart *chart, struct progress *progress,
                         const struct config *config);

/* After the run's folder was opened: adds the losses in the log of a run that is resumed. */
void messages_plot_resume(struct chart *chart, const struct config *config, const char *folder);
