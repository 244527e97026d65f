/* What a trained model is used for: to write text or items, and to be measured. */
#ifndef USE_H
#define USE_H

#include "model/lab/training.h"

/* What --sample asks for after training, shown and kept. */
void use_sample(struct training *t);

/* --generate: the prompt and what follows it, or items, on standard output. A corpus that is named
   for a model of items must be the one that it learned from; what else it learned from is read if
   it is there. */
void use_generate(struct training *t, bool corpus_named);

/* --evaluate: the loss, of the corpus that the model learned from on the part that it has not seen,
   of another one on everything. */
void use_evaluate(struct training *t);

#endif
