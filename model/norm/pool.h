/* Functions for norms that pool each channel over the valid tokens of sets of the batch. A set is
   the full batch (bn, brn, pn-v, pn, prepbn), a sequence (in), a shard of the batch (bn with
   --bn-shards), or a position of all sequences (bn with --bn-axis=batch).

     xhat = (x - mean) rstd,  y = gamma xhat + beta
     dx = factor (gamma dy - along_ones - xhat along_xhat)

   where mean, rstd, factor, along_ones and along_xhat are one number for each channel of a set. A
   norm computes them from the sets' moments in statistics(), and from the sets' sums of dy and
   dy xhat in gradient_statistics(). In evaluation mean and rstd are constants, so
   dx = factor gamma dy.

   In training a pad takes no part in the statistics, and its y and dx are 0. Normalized by other
   tokens' statistics it could lie far from them, farther at every layer, up to infinity.

   Sums over tokens are computed block by block and added in the order of parts.h, so the bits are
   the same for any number of threads. First each thread works on its own blocks of tokens, then,
   after a barrier, on its own channels. */
#pragma once

#include "model/norm/kind.h"

/* Takes the memory of a norm's pool. */
void pool_attach(struct norm *norm, const struct norm_options *options,
                 const struct layout *layout);

/* The weight of this batch in running statistics, where `momentum` is that in training. */
static inline real pool_weight(const struct tokens *tokens, double momentum) {
    return tokens->source == STATISTICS_OTHER ? 1 : (real)momentum; // earlier ones are forgotten
}

/* Whether token n is a pad in training. */
static inline bool token_left_out(const struct tokens *tokens, size_t n) {
    return tokens->training && !token_counts(tokens, n);
}

/* The number of valid tokens in set i. The full batch is that of all ranks, or with tokens->local
   this rank's part of it. */
size_t pool_count(const struct pool *pool, const struct tokens *tokens, size_t i);

/* The row blocks of the largest set. */
size_t pool_blocks(const struct pool *pool, size_t B, size_t T);

/* The calling thread's channels. The functions below compute arrays (sets,C) for these only. */
struct range pool_channels(size_t C);

/* mean and moment of x (B,T,C), which is complete: a block of rows also reads the first row of its
   part, except about_zero. So whoever has just written x needs a team_barrier() before. Contains a
   barrier. */
void pool_moments(const struct pool *pool, const struct tokens *tokens, const real *x);

/* In training, counts the batch. No thread reads the count until the next barrier. */
void pool_count_batch(const struct norm *norm, const struct tokens *tokens);

/* along_ones = sum dy and along_xhat = sum dy xhat over the tokens that are not left out. Contains
   a barrier. */
void pool_gradient_sums(const struct pool *pool, const struct tokens *tokens, const real *dy,
                        const real *x);

/* The gradients of gamma and beta of y = w (gamma (r xhat + d) + beta), with constants r and d (C),
   NULL for 1 and 0; and what pool_backward() needs if mean and rstd are the batch's: the sums of
   pool_gradient_sums() times gamma / N. Contains a barrier. */
void pool_gradients(const struct norm *norm, const struct tokens *tokens, const real *dy,
                    const real *x, real w, const real *r, const real *d);

/* ---- functions of kinds: bn has no others, and others call them ----

   The first options are epsilon and momentum, the first states the running mean and variance, the
   first parameters gamma and beta. */

/* mean, rstd and factor of bn, and counts the batch. In evaluation they are those of the running
   statistics, (sets,C). In training they are those of x, which updates the running statistics: those
   of each position, (sets,C), or those that all sets share, (C), which move by the mean over the sets
   of their means and of their unbiased variances. Contains a barrier in training. */
void pool_norm_statistics(const struct norm *norm, const struct tokens *tokens, const real *x);

/* pool_gradients() of y = gamma xhat + beta */
void pool_gradient_statistics(const struct norm *norm, const struct tokens *tokens, const real *dy,
                              const real *x);

/* A block of rows: y (rows,C) and dx (rows,C) by the formulas above. */
void pool_forward(const struct norm *norm, const struct tokens *tokens, struct range rows, real *y,
                  const real *x);
void pool_backward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                   real *dx, const real *dy, const real *x, real *const *sum);
