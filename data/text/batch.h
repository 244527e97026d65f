/* A batch: B sequences of T character ids, and for each the id that follows it. A corpus fills it,
   a model reads it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct batch {
    size_t B, T;
    size_t B_max, T_max;  // there is memory for this many
    size_t first;         // of a part of a batch: the number of its first sequence there
    int32_t *ids;         // (B,T)
    int32_t *targets;     // (B,T), -1 where there is nothing to predict
    unsigned char *valid; // (B,T), 0 marks a pad; NULL: no pads
    unsigned char *marks; // (B_max,T_max) memory that `valid` may point to
};

/* The number of targets and of pads in a batch. */
struct batch_count {
    size_t targets, pads;
};

/* Memory for batches of up to B x T, without pads so far; freed by batch_free(). */
struct batch batch_make(size_t B, size_t T);
void batch_free(struct batch *batch);

size_t batch_targets(const struct batch *batch);

/* The B sequences of a batch from number `first` on. */
struct batch batch_part(const struct batch *batch, size_t first, size_t B);
