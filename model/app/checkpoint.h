/* Models in safetensors files: a run's model.safetensors, its checkpoint.safetensors, which also
   holds the optimizer's state, and models that scripts/load_pytorch.py converted.

   Arrays have the names and shapes of nanoGPT's state dict. The texts under `__metadata__` are the
   options, the vocabulary ("10 32 33 ...", code points or bytes in the order of their ids), the
   step, the losses so far, and keys of the random streams. The same state gives the same bytes. */
#pragma once

#include "data/files/safetensors.h"
#include "data/text/corpus.h"
#include "model/app/columns.h"
#include "model/optimizer/optimizer.h"
#include "model/options/config.h"
#include <math.h>

/* What a model must learn beyond the frequencies of characters, in nats, to count as trained. */
#define STUCK_WITHIN 0.05

/* The loss that these frequencies give, on the split where it is lower; negative if there is nothing
   else to learn. */
static inline double state_of_frequencies(const struct state *state) {
    return fmin(state->unigram_entropy, state->unigram_val_loss);
}

/* Whether the run is stuck: its last validation loss is no better than that. */
static inline bool state_stuck(const struct state *state) {
    const double loss = state_of_frequencies(state);
    return loss >= 0 && state->last_val_loss >= loss - STUCK_WITHIN;
}

enum { NAME_SIZE = 128, TEXT_SIZE = 64 };

/* nanoGPT's head is tied to its token embedding, but its state dict has both names. */
#define EMBEDDING_NAME "transformer.wte.weight"
#define HEAD_NAME      "lm_head.weight"

static inline enum stored_type stored_real(void) {
    return sizeof(real) == sizeof(float) ? STORED_F32 : STORED_F64;
}

/* Adds all tensors of a list to a file to be written, each name after `prefix`. */
void checkpoint_add(struct safetensors *file, const char *prefix, const struct tensor_list *list,
                    real *values);

/* Writes the model, or if `optimizer` is not NULL a checkpoint: all that --resume needs, also what
   probes have `tracked` (watch.h). `best` is the copy of --keep-best or NULL; a checkpoint holds it too. If `model` is that copy, the file
   says the step and validation loss of the copy. */
void checkpoint_write(FILE *stream, const struct model *model, const struct optimizer *optimizer,
                      const struct tensor_list *tracked, const struct plan *plan,
                      const struct state *run, const struct model *best);

/* A stored model, or a run to resume. safetensors_close() closes its file. */
struct checkpoint {
    char path[4096];
    struct safetensors file; // its stream is NULL if the run has no checkpoint yet
};

/* Opens what config_stored() names: a run's folder or, except for --resume, a file. Fills `config`
   with the stored options, then with those of the command line. Dies if something is missing,
   damaged or contradictory. A size in the texts counts only if the arrays have it too. */
void checkpoint_open(struct checkpoint *checkpoint, struct config *config, int argc, char **argv);

/* Opens the file that --start names: a run's folder or a file. */
void checkpoint_open_start(struct checkpoint *checkpoint, const char *place);

/* Reads the stored vocabulary, unless --vocabulary has filled `vocabulary` already. Dies if it is
   not as large as the model's embedding. */
void checkpoint_read_vocabulary(const struct checkpoint *checkpoint, int level,
                                struct vocabulary *vocabulary);

/* Reads weights and running statistics. Dies if an array is missing, unknown or misshapen. For
   --start, a file without any running statistics leaves those of the model as they are. */
void checkpoint_read_model(const struct checkpoint *checkpoint, struct model *model, bool start);

/* Reads the optimizer's state, what probes have tracked, and into `run` what a checkpoint has of it. Dies if the
   corpus of `run` is not that of the run. */
void checkpoint_read_run(const struct checkpoint *checkpoint, const struct config *config,
                         const struct model *model, struct optimizer *optimizer,
                         const struct tensor_list *tracked, struct state *run);

/* Reads the copy of --keep-best that a checkpoint holds. */
void checkpoint_read_best(const struct checkpoint *checkpoint, struct model *best);

/* Whether the corpus with this checksum is the one that the model was trained on. */
bool checkpoint_same_corpus(const struct checkpoint *checkpoint, uint32_t corpus_crc32);
