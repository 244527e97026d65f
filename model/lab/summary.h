/* The outcome of a run, and summary.json. */
#ifndef SUMMARY_H
#define SUMMARY_H

#include "data/text/items.h"
#include "model/lab/config.h"

/* A loss that was not measured is negative (NOT_MEASURED). */
struct outcome {
    const char *exit_reason; // "done", "diverged", "interrupted"
    const char *ended_by;    // the option that ended the run: "max-iters", "max-seconds", "stop-at"
    int64_t steps, best_step;
    int64_t profiled;                  // updates that this program made, timed by --profile
    int64_t tokens, pads;              // targets trained on; pads in their batches
    double seconds, tokens_per_second; // of the whole run; during updates only
    double train_loss, val_loss, best_val_loss;
    double eval_train_loss; // of the last evaluation, with --eval-train
    double val_accuracy;    // of the last evaluation: fraction of targets with the highest logit
    const char *corpus;     // its name
    size_t corpus_bytes, corpus_characters, vocabulary;
    uint32_t corpus_crc32;
    struct items_size items; // all 0 if the corpus is not one of items
    double grammar_entropy;  // nats per character; negative for other corpora
};

/* Writes options, outcome, sizes, and what built the program, as JSON. */
void summary_write(FILE *stream, const struct model *model, const struct config *config,
                   const struct outcome *outcome);

#endif
