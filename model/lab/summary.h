/* How a run went, and summary.json that says so. */
#ifndef SUMMARY_H
#define SUMMARY_H

#include "data/text/items.h"
#include "model/lab/config.h"

/* Losses that were not measured are negative. */
struct outcome {
    const char *exit_reason; // "done", "diverged", "interrupted"
    int64_t steps, best_step;
    int64_t tokens, pads; // targets that it trained on, and what its batches held besides
    double seconds, tokens_per_second; // in all; while training, evaluation left out
    double train_loss, val_loss, best_val_loss;
    double eval_train_loss; // of the last evaluation, with --eval-train
    double val_accuracy; // of the last evaluation: the share of targets that were thought likeliest
    const char *corpus;  // its name and size
    size_t corpus_bytes, corpus_characters, vocabulary;
    uint32_t corpus_crc32;
    struct items_size items; // all 0 if the corpus is not one of items
    double grammar_entropy;  // nats per character; negative for any other corpus
};

/* Options, outcome, sizes, and what the program was built with, as JSON. */
void summary_write(FILE *stream, const struct model *model, const struct config *config,
                   const struct outcome *outcome);

#endif
