/* The steps of training: what is due, one update, one evaluation. A step's number is the number of
   updates before it. */
#ifndef STEP_H
#define STEP_H

#include "data/files/progress.h"
#include "data/files/run.h"
#include "data/text/corpus.h"
#include "model/lab/config.h"
#include "model/lab/measure.h"
#include "model/lab/probe.h"
#include "model/optimizer/optimizer.h"

/* ---- SIGINT and SIGTERM: training finishes its step, saves, and ends ---- */

/* The signal that the last interrupt_now() saw: the first one that this process received, or with
   several ranks the largest number among theirs; 0: none. */
extern int interrupt_signal;

/* Looks for a signal, of any rank; returns interrupt_signal. All ranks call it at the same
   points. */
int interrupt_now(void);

/* Whether the signals are only noted, instead of ending the program. Then a second Ctrl-C ends it
   at once. A second SIGTERM does not, since some programs send it to a process and then to the
   process's group. */
void interrupt_note(bool noted);

/* ---- what is due at a step: questions, which change nothing but interrupt_signal ---- */

/* Kept by record.c. */
struct clock {
    double start;          // now minus the seconds that the run took before
    int64_t step, tokens;  // of the run when this program started
    double updating;       // seconds spent in updates since then
    struct log_row logged; // the last one, of which `tokens` and `updating` count
    double saved, saving;  // when the last save ended, and the seconds that it took
};

/* The reason why training ends: a signal arrived; --max-iters updates are done; --max-seconds are
   over; the loss of this step's evaluation is at most --stop-at. */
enum ending_reason { ENDING_NONE, ENDING_SIGNAL, ENDING_ITERS, ENDING_SECONDS, ENDING_LOSS };

/* The first of these reasons that holds at this step. `row` has the loss once there was an
   evaluation. */
enum ending_reason due_end(const struct config *config, const struct clock *clock,
                           const struct log_row *row);

/* The option that ended the run, "max-iters"; NULL if none did. */
const char *due_ending_option(enum ending_reason ending);

/* An evaluation: every --eval-interval steps, and at the end unless a signal arrived. */
bool due_evaluation(const struct config *config, int64_t step, enum ending_reason ending);

/* A checkpoint during training: every --checkpoint-interval steps; with auto, when the time since
   the last one is 100 times as long as that one took. None is due at the step at which this program
   started. */
bool due_checkpoint(const struct config *config, const struct clock *clock, int64_t step);

/* What is due every `interval` steps, such as a row of samples.txt; 0: never. */
bool due_every(int64_t interval, int64_t step);

/* ---- batches ---- */

/* The corpus of a run, and the batch that is read from it. */
struct loader {
    const struct config *config;
    struct corpus corpus;
    struct batch batch;
};

/* ---- one update: the gradient of --grad-accum batches, then the optimizer ---- */

struct update {
    double loss;                // mean over all targets of the update's batches
    double grad_norm;           // of its gradient
    struct batch_count trained; // targets and pads of these batches
    double seconds;
};

/* Makes update number `step`. If the loss or its gradient's norm is not finite, the optimizer does
   not run, the weights stay as they are, and nothing counts as trained. Writes a probe of the
   update if one is due. */
struct update update_model(struct loader *loader, struct model *model, struct optimizer *optimizer,
                           struct probe *probe, int64_t step);

/* The targets and pads of all batches of update number `step`. May overwrite the loader's batch. */
struct batch_count update_count_targets(struct loader *loader, int64_t step);

/* Converts --max-tokens into a number of updates: the smallest that trains on at least that many
   targets. Dies with status 2 if --max-iters is given and differs. */
void update_settle_count(struct config *config, const struct loader *loader);

/* ---- the loss on the validation split, and on a slice of the training split ---- */

/* The number of batches of the validation split that are measured. evaluate_batch() fills
   loader->batch with the i-th, and for STATISTICS_OTHER `other` with the one to take statistics
   from, whose memory it takes if it has none. */
size_t evaluate_count(const struct loader *loader);
void evaluate_batch(struct loader *loader, enum statistics_source source, size_t i,
                    struct batch *other);

/* The score on the validation split, or on --eval-iters batches spread evenly over it; or for
   --eval-train on a slice of the training split of the same size, or all of it if that is shorter.
   `model` was made for statistics from `source` (measure_init()); with STATISTICS_OTHER, those of
   each batch come from the batch before it. An interrupt ends the loop early: the score then is of
   fewer batches. */
struct score evaluate_split(struct loader *loader, struct model *model,
                            enum statistics_source source, enum corpus_split split);

/* Puts the evaluation at a step of training into its row. If an interrupt arrives before its end,
   nothing is measured. Before the first update the loss by running statistics may not be finite: it
   then says so and measures nothing. */
void evaluate_model(struct loader *loader, struct model *model, struct progress *progress,
                    struct log_row *row);

#endif
