/* The loss: cross-entropy of a softmax over the vocabulary, in nats. */
#ifndef LOSS_H
#define LOSS_H

#include "model/math/real.h"
#include <stddef.h>
#include <stdint.h>

/* losses (N) = -ln softmax(logits[n])[targets[n]], or 0 where targets[n] is negative (no target).
   If dlogits is not NULL, dlogits = scale (softmax - onehot), or 0 where there is no target. Both
   logits and dlogits are (N,V) with row stride vec_padded(V); the columns from V on of dlogits
   become 0. The logits are overwritten,
   and may be dlogits. By the calling thread. */
void loss_cross_entropy(size_t N, size_t V, real *losses, real *dlogits, real *logits,
                        const int32_t *targets, real scale);

/* correct (N) = 1 where no logit is larger than the target's, 0 elsewhere and where there is no
   target. To be called before loss_cross_entropy(), which overwrites the logits. */
void loss_correct(size_t N, size_t V, unsigned char *correct, const real *logits,
                  const int32_t *targets);

/* Returns the number of valid targets, and in *sum the sum of their losses. */
size_t loss_sum(size_t N, const real *losses, const int32_t *targets, double *sum);

#endif
