/* How a run went, and summary.json that says so. */
#ifndef SUMMARY_H
#define SUMMARY_H

#include "config.h"

/* Losses that were not measured are negative. */
struct outcome {
    const char *exit_reason; // "done", "diverged", "interrupted"
    int64_t steps, tokens, best_step;
    double seconds, tokens_per_second; // in all; while training, evaluation left out
    double train_loss, val_loss, best_val_loss;
    const char *corpus; // its name and size
    size_t corpus_bytes, corpus_characters, vocabulary;
    uint32_t corpus_crc32;
    double grammar_entropy; // nats per character; negative for any other corpus
};

/* Options, outcome, sizes, and what the program was built with, as JSON. */
void summary_write(FILE *stream, const struct model *model, const struct config *config,
                   const struct outcome *outcome);

#endif
