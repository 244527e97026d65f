/* A residual connection with a learned factor lambda, a number or a vector of C; see lambda.c. */
#ifndef LAMBDA_H
#define LAMBDA_H

#include "model/connection/connection.h"

/* What lambda multiplies in sum = A x + B drop(f). A and B are linear in it:

     A = a (x0 + x1 lambda),  B = b (f0 + f1 lambda)

   with the placement's constant factors a and b. A kind's `own` is a row like this. */
struct lambda_form {
    double x0, x1, f0, f1;
    bool vector;         // C numbers, else one
    const char *name[2]; // attention's, the MLP's; the second NULL: the same one
    double (*start)(size_t layer, size_t L); // the initial value
    double (*scale)(size_t C);               // lambda = scale |parameter|; NULL: the parameter
};

/* Buffers of a connection with lambda. */
enum {
    LAMBDA_A,     // (C)
    LAMBDA_B,     // (C)
    LAMBDA_SLOPE, // (C) dlambda / dparameter; NULL: 1
    LAMBDA_SUM,   // (row_blocks,C) each row block's part of lambda's gradient, by channel
};

#endif
