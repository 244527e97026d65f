/* How a batch is cut: into parts (parts.h), which threads and ranks share, and into micro-batches,
   one after another. */
#pragma once

#include "data/text/batch.h"
#include "model/model_config.h"

/* The micro-batch that starts at sequence `first` of `batch`, which has some or all
   sequences of the batch `full`. If there is memory for it, which is for `rows` tokens, the
   micro-batch is all of `batch`. */
struct batch partition_micro_batch(const struct model_config *config, size_t rows,
                                   const struct batch *batch, const struct batch *full,
                                   size_t first);

/* The number of tokens of the largest micro-batch, if batches have up to B sequences. */
size_t partition_rows(const struct model_config *config, size_t B, size_t threads);

/* The largest number of parts of a batch of up to this many tokens. */
size_t partition_parts_max(const struct model_config *config, size_t tokens);

/* The number of slots of gradients that this rank needs for its parts, or for all parts, and for
   the stacks of its threads. */
size_t partition_slots(const struct model_config *config, size_t B, size_t threads);

/* The parts of the batch `full`, in a pass over its micro-batch `batch`. */
struct parts partition_parts(const struct model_config *config, const struct batch *batch,
                             const struct batch *full);

/* The sequences of the batch that this rank computes, if ranks share it. */
struct batch partition_share(const struct model_config *config, const struct batch *full);
