/* --sample-interval: one sees a model learn to spell. */
#ifndef SAMPLE_LINE_H
#define SAMPLE_LINE_H

#include "model/lab/session.h"

/* Lets the model as it is write a line of at most 72 characters, or an item, into samples.txt and above
   the live line. Line breaks, tabs and backslashes become \n, \t and \\, other control characters ?.
   All lines of a run have the same random numbers, so that two of them differ by the model only. A
   line ends where a logit is not finite. Training is not touched. */
void sample_line(struct session *t);

#endif
