/* Learned factors, one for each column: y = g x. See gain.c. */
#pragma once

#include "model/math/parts.h"

/* p is learned; the factor is g = scale p. Adam moves each parameter by about the learning rate, so
   a scale above 1 makes g faster, and one below 1 slower, than a weight. */
struct gain {
    size_t size, groups; // x has groups x size columns; group after group has the same factors
    real scale;
    struct param param; // (size), NULL if there is no gain
    real *x;            // (N,groups size) for gain_forward_kept(), from the caller; else NULL
};

/* Declares the parameter `name`, (size), for N = B T tokens of groups x size columns, where
   g is initially `start`. */
void gain_attach(struct gain *gain, const char *name, size_t size, size_t groups, double start,
                 double scale, const struct layout *layout);

static inline bool gain_present(const struct gain *gain) {
    return gain->size > 0;
}

/* y = g x for M tokens, by the calling thread; from token to token it is y_row and x_row numbers. y
   may be x. */
void gain_forward(const struct gain *gain, size_t M, real *y, size_t y_row, const real *x,
                  size_t x_row);

/* In dy, the gradient of y becomes that of x: M tokens, by the calling thread. They start with row
   block number `block`; the gradient of p is in its sums (tensor.h). */
void gain_backward(const struct gain *gain, size_t block, size_t M, real *dy, size_t dy_row,
                   const real *x, size_t x_row);

/* The same for the tokens `rows`, from which y, or dy, starts, in place: forward keeps x for
   backward. They do nothing without a gain. */
void gain_forward_kept(const struct gain *gain, struct range rows, real *y, size_t y_row);
void gain_backward_kept(const struct gain *gain, struct range rows, real *dy, size_t dy_row);
