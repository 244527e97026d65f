/* The logits and losses after a forward pass (model_pass.h), and the gradient of the head. */
#pragma once

#include "model/model.h"

/* After forward: the sum of the losses of valid targets (nats) in *sum; returns their number. Writes
   the batch's part of `losses` and `correct`. */
size_t head_loss(struct model *model, const struct batch *batch, double *sum);

/* After forward: the logits (V) of token n of the batch's B T, until the next call. */
const real *head_logits(struct model *model, size_t n);

/* The gradient is that of `scale` times each token's loss; with a z_loss w > 0 that of `scale`
   times the loss + w (ln Z)^2, Z = sum_v exp(logit_v). */
struct loss {
    size_t V; // characters; logits and their gradients have the row stride vec_padded(V)
    real scale, z_loss;
};

/* For N <= ROWS tokens, losses (N) = -ln softmax(logits[n])[targets[n]], or 0 where targets[n] is
   negative (no target). If dlogits (N,V) is not NULL, it becomes the gradient, or 0 where there is
   no target, and 0 in the columns from V on. Without dlogits the logits (N,V) are overwritten; with
   it only their columns from V on are, unless dlogits is the same array, as it may be. By the
   calling thread. */
void loss_cross_entropy(const struct loss *loss, size_t N, real *losses, real *dlogits,
                        real *logits, const int32_t *targets);

/* Returns the number of valid targets, and in *sum the sum of their losses. */
size_t loss_sum(size_t N, const real *losses, const int32_t *targets, double *sum);

/* Computes the losses of a batch, dhead_in (N,C), and the gradient of the head's weight; `scale` is
   the weight of a target in the gradient. Every thread of the team calls it. */
void head_backward(struct model *m, const struct batch *batch, const struct parts *parts,
                   real *dhead_in, real scale);
