/* What a run leaves behind: the model's weights and the summary. */
#ifndef FILES_H
#define FILES_H

#include "config.h"

/* How a run went. Losses that were not measured are negative. */
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

/* Weights and running statistics as safetensors, with the names of nanoGPT's state dict; the
   options, `vocabulary` (see corpus_vocabulary()) and the step as texts. */
void files_write_model(FILE *stream, const struct model *model, const struct config *config,
                       const char *vocabulary, int64_t step);

/* summary.json: options, outcome, sizes, and what the program was built with. */
void files_write_summary(FILE *stream, const struct model *model, const struct config *config,
                         const struct outcome *outcome);

#endif
