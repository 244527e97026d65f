/* Models in safetensors files: a run's model.safetensors, its checkpoint.safetensors, which holds
   Adam's moments too, and models of other programs with nanoGPT's names.

   Arrays have the names and shapes of nanoGPT's state dict; texts under `__metadata__` are the
   options, the vocabulary ("10 32 33 ...", code points or bytes in the ids' order), the step, how
   the run went so far, and keys of its random streams. The same state gives the same bytes. */
#ifndef CHECKPOINT_H
#define CHECKPOINT_H

#include "data/files/safetensors.h"
#include "data/text/vocabulary.h"
#include "model/lab/summary.h"

/* Writes the model, and with `adam` all that a run needs to go on. `best` is the copy that
   --keep-best keeps, or NULL: a checkpoint holds it too. Where `model` is that copy, the file says
   its step and validation loss. */
void checkpoint_write(FILE *stream, const struct model *model, const struct adam *adam,
                      const struct config *config, const struct vocabulary *vocabulary,
                      const struct outcome *outcome, const struct model *best);

/* A stored model, or a run that can go on. */
struct checkpoint {
    char path[4096];
    struct safetensors file; // its stream is NULL for a run that was stopped before it saved
};

/* Opens what config_stored() names, a run's folder or, but for --resume, a file, and makes `config`
   what is stored there and then what the command line says. What is missing, damaged or
   contradictory dies and says so; no size is believed that the arrays do not bear out. */
void checkpoint_open(struct checkpoint *checkpoint, struct config *config, int argc, char **argv);
void checkpoint_close(struct checkpoint *checkpoint);

/* The stored vocabulary, unless `vocabulary` is made already (--vocabulary); it must be as large as
   the model's embedding. */
void checkpoint_vocabulary(const struct checkpoint *checkpoint, int level,
                           struct vocabulary *vocabulary);

/* Weights and running statistics. An array that is missing, too many or of another shape dies. */
void checkpoint_read_model(const struct checkpoint *checkpoint, struct model *model);

/* Adam's moments, and in `outcome` how the run went: steps, tokens, losses. Dies where the corpus
   that outcome names is not the run's. */
void checkpoint_read_run(const struct checkpoint *checkpoint, const struct config *config,
                         const struct model *model, struct adam *adam, struct outcome *outcome);

/* The copy of the best model that a checkpoint holds. */
void checkpoint_read_best(const struct checkpoint *checkpoint, struct model *best);

/* Whether the corpus is the one that the model learned from. */
bool checkpoint_learned(const struct checkpoint *checkpoint, uint32_t corpus_crc32);

#endif
