/* What the files of a checkpoint share (checkpoint_write.c, checkpoint_open.c, checkpoint_read.c):
   the names of arrays and texts. */
#ifndef CHECKPOINT_PARTS_H
#define CHECKPOINT_PARTS_H

#include "model/lab/checkpoint.h"

enum { LONGEST_NAME = 96, LONGEST_TEXT = 64 };

/* nanoGPT's head is tied to its token embedding, but its state dict names both. */
#define EMBEDDING_NAME "transformer.wte.weight"
#define HEAD_NAME      "lm_head.weight"

/* Adam's moments, in PyTorch's terms, the running statistics that probes alone know, and the model
   that --keep-best keeps. */
#define FIRST_MOMENT  "optimizer.exp_avg."
#define SECOND_MOMENT "optimizer.exp_avg_sq."
#define TRACKED       "probe."
#define BEST          "best."

static inline enum stored_type stored_real(void) {
    return sizeof(real) == sizeof(float) ? STORED_F32 : STORED_F64;
}

/* Values of the streams that batches and dropout are drawn from: a program that draws others cannot
   go on with the run. Each is a text of the file. */
enum { RANDOM_KEYS = 2 };
extern const char *const random_key_names[RANDOM_KEYS];
void random_key_text(int i, const struct config *config, char text[LONGEST_TEXT]);

/* `count` zeroed objects of `size` bytes, to be freed. Dies with status 1 without memory. */
void *checkpoint_room(size_t count, size_t size);

/* An array by nanoGPT's name, which torch.compile() puts a prefix before; NULL if there is none.
   The embedding may stand under the head's name alone. */
const struct stored *checkpoint_find(const struct checkpoint *checkpoint, const char *name);
const struct stored *checkpoint_embedding(const struct checkpoint *checkpoint);

#endif
