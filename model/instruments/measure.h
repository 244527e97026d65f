/* Measures a trained model under other statistics than its running ones, and whether it sees the
   future. The weights and running statistics of the model do not change. */
#pragma once

#include "model/model.h"

/* The names of enum statistics_source (model/norm/kind.h), then "all" and NULL. */
extern const char *const statistics_name[STATISTICS_SOURCES + 2];

/* Whether the source means something for a norm of the model: STATISTICS_POSITION does only for
   kinds that can pool at each position alone. */
bool measure_has(const struct model_config *config, enum statistics_source source);

/* The forward passes that measure a model on a batch, one for each micro-batch, or with
   STATISTICS_SINGLE one for each sequence:

     for (struct passes p = measure_start(...); measure_next(&p);)
         model_forward(p.model, &p.part, p.training, 0), use(p.part);

   STATISTICS_OTHER takes statistics from the batch `other`. The loop must run to its end: then the
   running statistics are as they were. */
struct passes {
    struct model *model;
    const struct batch *batch;
    struct batch part;     // of this pass; part.first is the number of its first sequence
    size_t done;           // sequences of the batch
    bool training, single; // single: a pass for each sequence
    real *state;           // the running statistics before; NULL: no pass changes them
};
struct passes measure_start(struct model *model, enum statistics_source source,
                            const struct batch *batch, const struct batch *other);
bool measure_next(struct passes *passes);

/* A score over valid targets: the sum of their losses in nats, how many of them the model predicts,
   where one of k equally likely characters counts 1/k, and their number. */
struct score {
    double loss, correct;
    size_t targets;
};

/* Scores a batch. */
struct score measure_score(struct model *model, enum statistics_source source,
                           const struct batch *batch, const struct batch *other);

/* The leak at position t: the largest and the mean absolute change of the logits of tokens before
   t, in all sequences, when every token from t on is replaced by another. */
struct leak {
    double largest, mean;
};
struct leak measure_leak(struct model *model, enum statistics_source source,
                         const struct batch *batch, size_t t);
