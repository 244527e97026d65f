/* A linear layer y = x W^T + b, weights as PyTorch's Linear has them: W (out,in), b (out). */
#ifndef LINEAR_H
#define LINEAR_H

#include "tensor.h"

struct linear {
    size_t in, out;
    struct param weight; // (out,in)
    struct param bias;   // (out), or NULL without
};

/* Declares the layer's tensors `name`.weight, normal(0, deviation), and, if wanted, `name`.bias, 0.
 */
void linear_attach(struct linear *linear, const char *name, size_t in, size_t out, bool bias,
                   double deviation, struct tensor_list *params);

/* Reals of scratch that forward and backward use. */
size_t linear_scratch(size_t in, size_t out);

/* y (N,out) = x (N,in) W^T + b. */
void linear_forward(const struct linear *linear, size_t N, real *y, const real *x, real *scratch);

/* dx (N,in) = dy (N,out) W, dW += dy^T x, db += sum over tokens of dy. */
void linear_backward(const struct linear *linear, size_t N, real *dx, const real *dy, const real *x,
                     real *scratch);

#endif
