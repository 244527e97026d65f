/* What is due at a step of training: questions, which change nothing but interrupt_signal. A step's
   number is the number of updates before it. */
#pragma once

#include "model/app/run.h"
#include "model/options/config.h"

/* The reason why training ends: a signal arrived; --max-iters updates are done; --max-seconds are
   over; the loss of this step's evaluation is at most --stop-at. */
enum ending_reason { ENDING_NONE, ENDING_SIGNAL, ENDING_ITERS, ENDING_SECONDS, ENDING_LOSS };

/* The first of these reasons that holds at this step. */
enum ending_reason calendar_end(const struct config *config, const struct state *run);

/* The option that ended the run, "max-iters"; NULL if none did. */
const char *calendar_ending_option(enum ending_reason ending);

/* An evaluation: every --eval-interval steps, and at the end unless a signal arrived. */
bool calendar_evaluation(const struct config *config, int64_t step, enum ending_reason ending);

/* A checkpoint during training: every --checkpoint-interval steps; with auto, when the time since
   the last one is 100 times as long as that one took. None is due at the step at which this program
   started. */
bool calendar_checkpoint(const struct config *config, const struct state *run);

/* What is due every `interval` steps, such as a row of samples.txt; 0: never. */
bool calendar_every(int64_t interval, int64_t step);
