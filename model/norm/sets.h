/* What norms share that pool each channel over sets of the batch's tokens: a sequence's time steps
   (in), or what stands at one position of every sequence (bn with --bn-axis=batch).

     mean = sum_k x / n,  var = sum_k (x - mean)^2 / n,  rstd = 1 / sqrt(var + eps)
     xhat = (x - mean) rstd,  y = gamma xhat + beta         k over the set's n valid tokens

   Training moves the running statistics by
     running <- (1 - momentum) running + momentum (mean over the sets that share them)
   of the sets' means and unbiased variances n / (n - 1) var: one row (C) of statistics for all
   sets, or a row for each. In evaluation they stand for mean and var.

   Backward: with s = sum_k dy and t = sum_k dy xhat,
     dx = gamma rstd (dy - s / n - xhat t / n)
     dgamma += sum over tokens of dy xhat,  dbeta += sum over tokens of dy

   In training a pad gets y = beta, dx = 0: against the statistics of the few tokens that a set may
   have it could be far out, further at every layer. A set of one token, which PyTorch refuses, gets
   y = beta too, and has no part in the running variance; an empty one has none in either.

   Threads share out sets, each in blocks of channels, so that few large sets are work for many; no
   sum is split among them. */
#ifndef NORM_SETS_H
#define NORM_SETS_H

#include "model/norm/norm.h"

/* Token k < size of set i < count is token i * start + k * step of the batch. */
struct sets {
    size_t C, count, size, start, step;
    real *mean, *rstd, *s, *t;        // (count,C); s and t divided by n
    real *running_mean, *running_var; // (rows,C)
    size_t rows;                      // count or 1; in evaluation always count
    const struct tokens *tokens;
};

/* The sets' reals that norm->saved holds, `most` being the largest count. */
size_t sets_size(size_t most, size_t C);

/* Of a norm whose parameters are gamma and beta and whose states are PyTorch's three. The sequences
   of a batch, which share one row of running statistics; in evaluation they are one set. */
struct sets sets_of_time(const struct norm *norm, const struct tokens *tokens);

/* The positions of a batch, each with a row of its own. */
struct sets sets_of_batch(const struct norm *norm, const struct tokens *tokens);

/* For statistics() and gradient_statistics() of a norm. sets_statistics() contains a barrier. */
void sets_statistics(const struct sets *sets, const struct norm *norm, const real *x);
void sets_gradient_statistics(const struct sets *sets, const real *dy, const real *x);

/* A block of rows, for forward() and backward(). */
void sets_forward(const struct sets *sets, const struct norm *norm, struct range rows, real *y,
                  const real *x);
void sets_backward(const struct sets *sets, const struct norm *norm, struct range rows, real *dx,
                   const real *dy, const real *x, real *const *sum);

#endif
