/* What a trained model is used for: to write text or items, and to be measured. */
#ifndef USE_H
#define USE_H

#include "model/lab/session.h"

/* --sample: writes what the trained model makes to sample.txt, and shows it. */
void use_sample(struct session *t);

/* --generate: writes the prompt and its continuation, or items, to standard output. Items are
   marked as known or new if the corpus that the model was trained on can be read. If the command
   line names a corpus (`corpus_given`), it must be that one. */
void use_generate(struct session *t, bool corpus_given);

/* --evaluate: prints the loss on the validation part of the corpus that the model was trained on,
   or on the whole of another corpus. With --dump, it then writes what the model computed. */
void use_evaluate(struct session *t);

#endif
