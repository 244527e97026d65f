/* Names of arrays and texts, shared by checkpoint_write.c, checkpoint_open.c and
   checkpoint_read.c. */
#ifndef CHECKPOINT_PARTS_H
#define CHECKPOINT_PARTS_H

#include "model/lab/checkpoint.h"

enum { NAME_SIZE = 128, PREFIX_SIZE = 64, TEXT_SIZE = 64 };

/* nanoGPT's head is tied to its token embedding, but its state dict has both names. */
#define EMBEDDING_NAME "transformer.wte.weight"
#define HEAD_NAME      "lm_head.weight"

/* Prefixes of the names: the optimizer's state, as OPTIMIZER "exp_avg." with the name of the state;
   the running statistics of probes; and the model of --keep-best. */
#define OPTIMIZER "optimizer."
#define TRACKED   "probe."
#define BEST      "best."

static inline enum stored_type stored_real(void) {
    return sizeof(real) == sizeof(float) ? STORED_F32 : STORED_F64;
}

/* The first value of the random streams of batches and dropout, each a text of the file. A program
   whose streams differ cannot continue the run. */
enum { RANDOM_KEYS = 2 };
extern const char *const checkpoint_key_names[RANDOM_KEYS];
void checkpoint_key_text(int i, const struct config *config, char text[TEXT_SIZE]);

/* What is before a tensor's name in that of the optimizer's state i of it; false if its kind has no
   such state. */
bool checkpoint_state_prefix(const struct optimizer *optimizer, const struct tensor *tensor, int i,
                             char prefix[PREFIX_SIZE]);

/* The array with this name, also if torch.compile() has put a prefix before it; NULL if there is
   none. The embedding may have only the head's name. */
const struct stored *checkpoint_find(const struct checkpoint *checkpoint, const char *name);
const struct stored *checkpoint_embedding(const struct checkpoint *checkpoint);

#endif
