/* A trained model measured otherwise than by its running statistics, and whether it sees the
   future. Everything is put back as it was. */
#ifndef MEASURE_H
#define MEASURE_H

#include "model/model.h"

/* Where norms that pool over tokens take their statistics from. */
enum statistics {
    STATISTICS_RUNNING,  // as in evaluation
    STATISTICS_OWN,      // the batch that is measured, as in training
    STATISTICS_OTHER,    // another batch
    STATISTICS_SINGLE,   // the one sequence that is measured
    STATISTICS_POSITION, // the batch's tokens at the same position
    STATISTICS_SOURCES
};
extern const char *const statistics_name[STATISTICS_SOURCES];

/* Whether the source means anything for the norms of a model: positions do for bn alone. */
bool measure_has(const struct model_config *config, enum statistics source);

/* Makes a model of its own with the weights and running statistics of `model`, for batches of up to
   B x T, that takes its statistics from the source, without dropout; freed by model_free(). */
void measure_init(struct model *measured, const struct model *model, enum statistics source);

/* Of valid targets: the sum of their losses in nats, how many there are, and how many of them the
   model thought likeliest. */
struct score {
    double loss;
    size_t targets, correct;
};

/* Of a batch; `other` is the one of STATISTICS_OTHER. */
struct score measure_score(struct model *measured, enum statistics source,
                           const struct batch *batch, const struct batch *other);

/* How far logits (of tokens before position t, in all sequences) change when every token at t or
   later becomes another: largest and mean absolute change. With `training` under the batch's own
   statistics (a model of STATISTICS_OWN), else under running ones. */
struct leak {
    double largest, mean;
};
struct leak measure_leak(struct model *measured, bool training, const struct batch *batch,
                         size_t t);

#endif
