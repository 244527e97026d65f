/* What norms share that pool each channel over the valid tokens of the batch (bn, pn-v, pn,
   prepbn):

     xhat = (x - mean) rstd,  y = gamma xhat + beta
     dx = divide (gamma dy - along_one - xhat along_x)

   where mean, rstd, divide, along_one and along_x are one number for each channel. A norm makes
   them from the batch's moments in statistics(), and from the batch's sums of dy and dy xhat in
   gradient_statistics(); it says what they are. In evaluation they are constants: dx = divide gamma
   dy.

   In training a pad takes no part in the statistics, and y = 0, dx = 0 of it: against statistics of
   other tokens it could be far out, further at every layer, up to infinity.

   Sums over tokens are made block by block and added in order, so that the same bits come out for
   any number of threads. Each thread has its own tokens in the first half of such a work and, after
   a barrier, its own channels in the second. */
#ifndef NORM_POOL_H
#define NORM_POOL_H

#include "model/norm/norm.h"

/* What a pooling norm keeps, each (C). In norm->saved it lies first. */
struct pool {
    size_t C;
    real *mean, *rstd, *divide, *along_one, *along_x;
    real *moment; // sum (x - mean)^2 / N of the batch
    real *blocks; // (row_blocks,2,C)
};

/* Reals that a pool of B sequences of T tokens needs, and the pool that lies at `reals`. */
size_t pool_size(size_t B, size_t T, size_t C);
struct pool pool_at(real *reals, size_t C);

/* Whether token n is a pad in training. */
static inline bool token_left_out(const struct tokens *tokens, size_t n) {
    return tokens->training && !token_counts(tokens, n);
}

/* The number of valid tokens. */
size_t pool_count(const struct tokens *tokens);

/* The calling thread's channels. */
struct range pool_channels(size_t C);

/* mean and moment of x (B,T,C) for the thread's channels; mean is 0 and the moment about 0 unless
   `centred`. Contains a barrier. Returns the number of valid tokens. */
size_t pool_moments(const struct pool *pool, const struct tokens *tokens, const real *x,
                    bool centred);

/* mean, rstd and divide of bn: of x, by which the running statistics (C) then move with the
   unbiased variance; or of these. For the thread's channels; pool_track() contains a barrier. */
void pool_track(const struct pool *pool, const struct tokens *tokens, const real *x,
                real *running_mean, real *running_var, real momentum, real eps);
void pool_recall(const struct pool *pool, const real *running_mean, const real *running_var,
                 real eps);

/* along_one = sum dy and along_x = sum dy xhat over the tokens that are not left out, for the
   thread's channels. Contains a barrier. */
void pool_gradient_sums(const struct pool *pool, const struct tokens *tokens, const real *dy,
                        const real *x);

/* From these sums: adds them to the gradients of beta and gamma, then makes what backward reads of
   them where mean and rstd are the batch's: times gamma / N. For the thread's channels. */
void pool_parameter_gradients(const struct pool *pool, const struct param *gamma,
                              const struct param *beta);
void pool_exact_backward(const struct pool *pool, const struct tokens *tokens, const real *gamma);

/* A block of rows: y (rows,C) and dx (rows,C) as above. */
void pool_forward(const struct pool *pool, const struct tokens *tokens, struct range rows,
                  const struct param *gamma, const struct param *beta, real *y, const real *x);
void pool_backward(const struct pool *pool, const struct tokens *tokens, struct range rows,
                   const real *gamma, real *dx, const real *dy, const real *x);

#endif
