/* Cross-entropy of a softmax. */
#ifndef LOSS_H
#define LOSS_H

#include "model/math/real.h"
#include <stddef.h>
#include <stdint.h>

/* losses (N) = -ln softmax(logits[n])[targets[n]] in nats, 0 where the target is negative (no
   target); by the calling thread. Rows of logits (N,V) are vec_padded(V) reals apart; they are
   overwritten. With dlogits, laid out likewise, not NULL: dlogits = scale (softmax
   - onehot), 0 behind V and where there is no target. */
void loss_cross_entropy(size_t N, size_t V, real *losses, real *dlogits, real *logits,
                        const int32_t *targets, real scale);

/* Where no logit exceeds the target's: correct (N) = 1, else 0, as without a target. Before
   loss_cross_entropy(), which overwrites the logits. */
void loss_correct(size_t N, size_t V, unsigned char *correct, const real *logits,
                  const int32_t *targets);

/* The sum of the losses of valid targets in *sum, and the number of these targets. */
size_t loss_sum(size_t N, const real *losses, const int32_t *targets, double *sum);

#endif
