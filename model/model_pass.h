/* The passes over a model: forward, backward, and the gradient of a batch, which is made of them. */
#pragma once

#include "model/model.h"

/* Sets the initial values that depend on the run's first batch before the first update, by a
   forward pass in training. A second call sets the same ones. */
void model_set_initial(struct model *model, const struct batch *batch);

/* ---- training ---- */

/* Forward and backward of the batch, micro-batch by micro-batch. Adds `scale` times the
   gradient of the batch's mean loss over its valid targets to every parameter's gradient; returns
   that mean loss. `number`, that of the batch in the run, keys dropout. */
double model_gradient(struct model *model, const struct batch *batch, uint64_t number,
                      double scale);

void model_zero_grad(struct model *model);

/* Whether ranks share the next batch, each with some of its parts. */
bool model_shares(const struct model *model);

/* The second half of model_gradient(), after a forward pass of the full batch in training mode, for
   those that look at the model between the two. */
double model_backward(struct model *model, const struct batch *batch, uint64_t number,
                      double scale);

/* ---- a batch for which there is memory, such as a micro-batch ---- */

/* Computes all layers, up to the input of the head. Pads come after a sequence's tokens:
   causal attention hides them from the tokens, and they have no targets, so no loss. Only norms
   that pool over tokens would see them; these leave them out unless config.pad_stats includes them.
   In training such norms use and track the batch's statistics, and dropout is on, keyed by the
   batch's `number`. In evaluation they use running statistics, and dropout is off. A caller that
   changes weights increments lists.param.version. */
void model_forward(struct model *model, const struct batch *batch, bool training, uint64_t number);

/* The tokens of the batch, as norms see them in a forward pass. */
struct tokens model_tokens(const struct model *model, const struct batch *batch, bool training);

/* Extends one sequence in evaluation mode by the tokens first .. end - 1 of `ids` (end <= T);
   earlier calls computed those before `first`. Attention reads their keys and values from where
   forward keeps them for backward, so one more character costs one token's work. The result has the
   same bits as a forward pass of the full sequence. It runs on the calling thread alone. */
void model_extend(struct model *model, const int32_t *ids, size_t first, size_t end);
