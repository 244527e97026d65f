/* How a batch is cut: into parts (parts.h), which threads and ranks share, and into micro-batches,
   which go through the model one after another. Both consist of full sequences. If a part has more
   than SUM_ROWS tokens, it has a multiple of SUM_ROWS:

     sums      |--SUM_ROWS--|--SUM_ROWS--|--SUM_ROWS--|--SUM_ROWS--|
     parts     |           0             |            1            |
     possible ends of a micro-batch
                            |            |            |            |

   Inside a part, the gradients of linear layers' weights are summed SUM_ROWS tokens at a time
   (linear_sum_rows()), all else by row blocks, which divide SUM_ROWS. So sums are the same for any
   size of micro-batches. */
#include "model/partition.h"
#include "model/math/ranks.h"

enum {
    PART_ROWS = 192,    // tokens that parts have at least, on average
    MICRO_THREADS = 16, // --micro-batch-tokens holds for up to as many; more take more tokens
};

/* The smallest multiple of `unit`, a power of 2, that is at least n sequences of T tokens. */
static size_t whole_sequences(size_t n, size_t T, size_t unit) {
    size_t step = unit / size_min(T & -T, unit); // T & -T: the largest power of 2 that divides T
    return (n + step - 1) / step * step;
}

size_t partition_parts_max(const struct model_config *config, size_t tokens) {
    size_t parts = config->batch_parts > 0 ? (size_t)config->batch_parts : 1;
    while (parts > 1 && tokens < parts * PART_ROWS) parts /= 2;
    return parts;
}

/* The number of sequences in a part (parts.h). */
static size_t part_sequences(const struct model_config *config, size_t B, size_t T) {
    size_t parts = partition_parts_max(config, B * T);
    size_t sequences = whole_sequences((B + parts - 1) / parts, T, ROWS);
    return sequences * T <= SUM_ROWS ? sequences : whole_sequences(sequences, T, SUM_ROWS);
}

size_t partition_rows(const struct model_config *config, size_t B, size_t threads) {
    size_t T = (size_t)config->block_size;
    size_t tokens = (size_t)config->micro_batch_tokens * size_max(threads, MICRO_THREADS);
    if (!config->micro_batch_tokens || model_needs_batch(config)) return B * T;
    size_t unit = config->any_length ? SUM_ROWS : whole_sequences(1, T, SUM_ROWS);
    size_t limit = tokens / MICRO_THREADS / T / unit * unit;
    return size_min(B, limit ? limit : unit) * T;
}

struct batch partition_micro_batch(const struct model_config *config, size_t rows,
                                   const struct batch *batch, const struct batch *full,
                                   size_t first) {
    size_t B = batch->B, T = batch->T, unit = part_sequences(config, full->B, T);
    if (B * T <= rows) return batch_part(batch, first, B - first);
    if (unit * T > SUM_ROWS) unit = whole_sequences(1, T, SUM_ROWS);
    size_t limit = rows / T / unit * unit, parts = (B + limit - 1) / limit;
    size_t sequences = ((B + parts - 1) / parts + unit - 1) / unit * unit; // about equal parts
    return batch_part(batch, first, size_min(sequences, B - first));
}

struct parts partition_parts(const struct model_config *config, const struct batch *batch,
                             const struct batch *full) {
    size_t T = batch->T;
    struct parts parts = {.rows = batch->B * T,
                          .first = (batch->first - full->first) * T,
                          .total = full->B * T,
                          .size = part_sequences(config, full->B, T) * T};
    parts.run.end = parts_count(&parts);
    return parts;
}

struct batch partition_share(const struct model_config *config, const struct batch *full) {
    size_t sequences = part_sequences(config, full->B, full->T);
    struct range run = ranks_parts((full->B + sequences - 1) / sequences, ranks.number);
    size_t begin = size_min(run.begin * sequences, full->B);
    return batch_part(full, begin, size_min(run.end * sequences, full->B) - begin);
}

/* The slots that threads need if each has parts of its own. */
static size_t thread_slots(const struct model_config *config, size_t B, size_t threads) {
    size_t T = (size_t)config->block_size, sequences = part_sequences(config, B, T), slots = 0;
    size_t count = (B + sequences - 1) / sequences,
           pass = partition_rows(config, B, threads) / T / sequences;
    for (size_t first = 0; pass >= threads && first < count; first += pass)
        slots = size_max(slots, parts_place_of(first, false).slot +
                                    threads * parts_stack(pass / threads, sequences * T));
    return slots;
}

size_t partition_slots(const struct model_config *config, size_t B, size_t threads) {
    size_t height = 1; // of the stack: it is highest before part 2^k - 1, which has the slot k
    for (size_t parts = partition_parts_max(config, B * (size_t)config->block_size); parts > 1;)
        parts /= 2, height++;
    return size_max(height, thread_slots(config, B, threads));
}
