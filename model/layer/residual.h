/* Sums of the residual stream and a branch f. */
#ifndef RESIDUAL_H
#define RESIDUAL_H

#include "model/layer/dropout.h"
#include "model/math/team.h"

/* sum = a x + b drop(f), for some elements of the batch. The arrays start with the first of them;
   dropout needs their numbers in the batch. sum may be x. */
void residual_forward(struct range elements, real *sum, real a, const real *x, real b,
                      const real *f, struct dropout drop);

/* to = drop(b from): a branch, or in backward its gradient; to may be from. */
void residual_branch(struct range elements, real *to, real b, const real *from,
                     struct dropout drop);

/* sum (count) = a x + f; sum may be x or f. */
void residual_add(size_t count, real *sum, real a, const real *x, const real *f);

/* to (count) = s from, for a branch with a factor; to may be from. */
void residual_scale(size_t count, real *to, real s, const real *from);

/* The sum of x^2 over each row block of the given rows, in squares (row_blocks), for probes. x (rows,C)
   points to the first of the rows. */
void residual_squares(struct range rows, size_t C, real *squares, const real *x);

#endif
