/* --plot: the loss curves of the run so far, and of the runs of --plot-beside, as a chart that
   progress.h shows. */
#ifndef PLOT_H
#define PLOT_H

#include "model/lab/session.h"

/* After progress_start(): the chart, with the curves of --plot-beside. Dies with status 1 if one of
   these runs has no log, and with status 2 if they are too many. */
void plot_start(struct session *t);

/* After the run's folder was opened: adds the losses in the log of a run that is resumed. */
void plot_resume(struct session *t);

/* Adds the losses of the row. */
void plot_add(struct session *t, const struct log_row *row);

#endif
