/* Norms that pool each channel over sets of the batch's tokens. A set is a sequence's time steps
   (in), all tokens of a shard of the batch (bn with --bn-shards), or the tokens at one position
   of every sequence (bn with --bn-axis=batch).

     mean = sum_k x / n,  var = sum_k (x - mean)^2 / n,  rstd = 1 / sqrt(var + eps)
     xhat = (x - mean) rstd,  y = gamma xhat + beta         k over the set's n valid tokens

   Training updates the running statistics, which are mean and var in evaluation:
     running <- (1 - momentum) running + momentum (mean over the sets that share them)
   of the sets' means and their unbiased variances n / (n - 1) var. All sets of sequences share
   running statistics (C). Each position has its own, so they are (T,C).

   Backward: with s = sum_k dy and t = sum_k dy xhat,
     dx = gamma rstd (dy - s / n - xhat t / n)
     dgamma += sum over tokens of dy xhat,  dbeta += sum over tokens of dy

   In training a pad gets y = beta, dx = 0. A set may have few tokens, and normalized by their
   statistics the pad could lie far from them, and farther at every layer. A set of one token, which
   PyTorch refuses, gets y = beta too, and takes no part in the running variance. An empty set takes
   no part in either running statistic.

   Threads split the sets, each set in blocks of channels, so that few large sets are work for many
   threads. No sum is split among threads. */
#ifndef NORM_SETS_H
#define NORM_SETS_H

#include "model/norm/kind.h"

/* The parameters, states and options of such a kind have this order, and its row has the functions
   below. A set is a position if the row's running statistics are (T,C), else a sequence; with
   SETS_SHARDS = k it is one of k shards of the batch, or a sequence if the batch has fewer. */
enum { SETS_GAMMA, SETS_BETA };
enum { SETS_RUNNING_MEAN, SETS_RUNNING_VAR, SETS_BATCHES };
enum { SETS_EPS, SETS_MOMENTUM, SETS_SHARDS }; // the last of bn alone

size_t sets_saved_size(const struct norm *norm, size_t B, size_t T);
void sets_forward(const struct norm *norm, const struct tokens *tokens, struct range rows, real *y,
                  const real *x);
void sets_backward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                   real *dx, const real *dy, const real *x, real *const *sum);
void sets_statistics(const struct norm *norm, const struct tokens *tokens, const real *x);
void sets_gradient_statistics(const struct norm *norm, const struct tokens *tokens, const real *dy,
                              const real *x);

#endif
