/* Uses a trained model: writes text or items, and measures its loss. */
#pragma once

#include "model/app/record.h"

/* --sample: writes a text of the trained model to sample.txt, and shows it. */
void inference_sample(struct record *r, struct progress *progress);

/* --sample-interval: lets the model as it is write a line of at most 72 characters, or an item,
   into samples.txt and above the live line. Line breaks, tabs and backslashes become \n, \t and \\,
   other control characters ?. All lines of a run have the same random numbers, so that two of them
   differ by the model only. A line ends where a logit is not finite. Training is not touched. */
void inference_sample_line(struct record *r, struct progress *progress);

/* --generate: writes the prompt and its continuation, or items, to standard output. Items are
   marked as known or new if the corpus that the model was trained on can be read. If the command
   line names a corpus, it must be that one. */
void inference_generate(const struct plan *plan, const struct checkpoint *checkpoint,
                        struct progress *progress);

/* --evaluate: prints the loss on all of the corpus that the command line names or, if it names none,
   on the validation split of the corpus that the model was trained on. With --dump, it then writes
   what the model computed. */
void inference_evaluate(const struct plan *plan, const struct checkpoint *checkpoint);
