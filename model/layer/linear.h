/* A linear layer y = x W^T + b, weights as PyTorch's Linear has them: W (out,in), b (out). */
#ifndef LINEAR_H
#define LINEAR_H

#include "model/math/team.h"
#include "model/math/tensor.h"

struct linear {
    size_t in, out;
    struct param weight; // (out,in)
    struct param bias;   // (out), or NULL without
    real *transposed;    // (in,padded) of the weight, made anew for each update
    size_t padded;       // out in whole vectors, zeros beyond
    real *db;            // (row_blocks,out) sums over each block's tokens
};

/* Declares the layer's tensors `name`.weight, normal(0, deviation), and, if wanted, `name`.bias, 0,
   and takes its memory. */
void linear_attach(struct linear *linear, const char *name, size_t in, size_t out, bool bias,
                   double deviation, const struct layout *layout);

/* The same with a weight that is declared already, and no bias. */
void linear_tie(struct linear *linear, struct param weight, size_t in, size_t out,
                struct arena *arena);

/* After a change of the weights, by every thread of the team; a barrier comes after it. */
void linear_prepare(const struct linear *linear);

/* y (M,out) = x (M,in) W^T + b, by the calling thread. */
void linear_forward(const struct linear *linear, size_t M, real *y, const real *x);

/* dx (M,in) = dy (M,out) W, by the calling thread; `block` is where these M tokens' sum of dy goes.
 */
void linear_backward(const struct linear *linear, size_t block, size_t M, real *dx, const real *dy);

/* dW += dy^T x over all N tokens, dy's rows `dy_row` reals apart, by every thread of the team, each
   its own elements of dW; after a barrier. */
void linear_weight_gradient(const struct linear *linear, size_t N, const real *dy, size_t dy_row,
                            const real *x);

/* db += the blocks' sums, by every thread of the team; after a barrier. */
void linear_bias_gradient(const struct linear *linear, size_t N);

#endif
