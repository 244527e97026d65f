/* How a batch is cut: into micro-batches, one after another, and into parts (parts.h), which ranks
   share. Both consist of full sequences. Each, except for the last one, has a multiple of SUM_ROWS
   tokens, so that sums over tokens are split at the same rows (parts.h). */
#include "model/math/ranks.h"
#include "model/model.h"

/* The smallest number of sequences of T tokens that together have a multiple of SUM_ROWS tokens. */
static size_t whole_sequences(size_t T) {
    return SUM_ROWS / size_min(T & -T, SUM_ROWS); // T & -T: the largest power of 2 that divides T
}

size_t model_cut_rows(const struct model_config *config, size_t B) {
    size_t T = (size_t)config->block_size;
    if (!config->micro_batch_tokens || model_needs_batch(config)) return B * T;
    size_t unit = config->any_length ? SUM_ROWS : whole_sequences(T);
    size_t most = (size_t)config->micro_batch_tokens / T / unit * unit;
    return size_min(B, most ? most : unit) * T;
}

struct batch model_micro_batch(const struct model *m, const struct batch *batch, size_t first) {
    size_t B = batch->B, T = batch->T, unit = whole_sequences(T);
    if (B * T <= m->rows) return batch_part(batch, first, B - first);
    size_t most = m->rows / T / unit * unit, parts = (B + most - 1) / most;
    size_t each = ((B + parts - 1) / parts + unit - 1) / unit * unit; // about equal parts
    return batch_part(batch, first, size_min(each, B - first));
}

static size_t parts_wanted(const struct model_config *config) {
    return config->batch_parts > 0 ? (size_t)config->batch_parts : 1;
}

/* The number of sequences in a part (parts.h). */
static size_t part_sequences(const struct model_config *config, size_t B, size_t T) {
    size_t unit = whole_sequences(T), units = (B + unit - 1) / unit;
    return (units + parts_wanted(config) - 1) / parts_wanted(config) * unit;
}

struct parts model_parts(const struct model_config *config, const struct batch *batch,
                         const struct batch *all) {
    size_t T = batch->T;
    return (struct parts){.rows = batch->B * T,
                          .first = (batch->first - all->first) * T,
                          .all = all->B * T,
                          .each = part_sequences(config, all->B, T) * T};
}

bool model_shared(const struct model *m) {
    return ranks_count() > 1 && !m->lists.whole && !m->probing;
}

struct batch model_own(const struct model *m, const struct batch *all) {
    if (!model_shared(m)) return *all;
    size_t each = part_sequences(&m->config, all->B, all->T);
    struct range run = ranks_cut((all->B + each - 1) / each, ranks_number());
    size_t begin = size_min(run.begin * each, all->B);
    return batch_part(all, begin, size_min(run.end * each, all->B) - begin);
}

size_t model_cut_parts(const struct model_config *config, size_t B) {
    size_t unit = config->any_length ? 1 : whole_sequences((size_t)config->block_size);
    return size_min((B + unit - 1) / unit, parts_wanted(config));
}

size_t model_cut_slots(const struct model_config *config, size_t B) {
    size_t slots = 1;
    for (size_t count = 1; count <= model_cut_parts(config, B); count++) {
        const size_t begins[] = {0, ranks_cut(count, ranks_number()).begin};
        for (size_t i = 0; i < 2; i++)
            for (size_t part = begins[i], slot; part < count; part++)
                if ((slot = parts_height(begins[i], part, count)) >= slots) slots = slot + 1;
    }
    return slots;
}
