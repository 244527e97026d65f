/* The learned factor lambda of a residual sum, a number or a vector of C; see lambda.c. */
#ifndef LAMBDA_H
#define LAMBDA_H

#include "model/layer/dropout.h"
#include "model/math/parts.h"

/* What lambda multiplies in sum = A x + B f, f the sub-layer's output after its dropout. */
enum lambda_form {
    LAMBDA_NONE,   // A = a,          B = 1: nothing is learned
    LAMBDA_BRANCH, // A = a,          B = lambda
    LAMBDA_MIX,    // A = 1 - lambda, B = lambda: from x towards f
    LAMBDA_STREAM, // A = lambda,     B = 1
};

struct lambda {
    enum lambda_form form;
    bool vector; // C numbers, else one
    size_t C;
    real a;             // of LAMBDA_BRANCH
    double scale;       // 0: lambda is the parameter, else scale |parameter|
    struct param param; // (C) or (1)
    real *factor[2];    // (C) A and B
    real *slope;        // (C) dlambda / dparameter; NULL: 1
    real *f;            // (B,T,C) OUT(projected) before dropout, for backward; NULL: not needed
    real *sum;    // (row_blocks,C) each row block's part of lambda's gradient; if two sub-layers
                  // share lambda, the sum of their parts
    real *number; // (row_blocks) the sums of these over C, if lambda is one number
    bool starts, ends; // whether backward starts the sums here, and whether they end here
};

/* Declares lambda as `name` with the value `start` at first, unless it is `shared` with the sub-layer
   below: then it is that one's tensor and sums. Takes the memory. `form` is not LAMBDA_NONE, and
   `scale` is set. */
void lambda_attach(struct lambda *lambda, const char *name, double start, struct lambda *shared,
                   const struct layout *layout);

/* Whether B is not 1. */
static inline bool lambda_scales_branch(const struct lambda *lambda) {
    return lambda->form == LAMBDA_BRANCH || lambda->form == LAMBDA_MIX;
}

/* After a change of lambda, and before a barrier; by every thread of the team. */
void lambda_prepare(const struct lambda *lambda);

/* sum (rows,C) = A x + B drop(f), for some rows; x and f point to the first of them. */
void lambda_forward(const struct lambda *lambda, struct range rows, real *sum, const real *x,
                    const real *f, struct dropout drop);

/* The part of lambda's gradient of each row block of `rows`, and
   dout (rows,C) = drop(B dsum), unless B = 1. dsum and x point to the first of the rows. */
void lambda_backward(const struct lambda *lambda, struct range rows, real *dout, const real *dsum,
                     const real *x, struct dropout drop);

/* dx (rows,C) = A dsum + dbranch. */
void lambda_backward_stream(const struct lambda *lambda, struct range rows, real *dx,
                            const real *dsum, const real *dbranch);

/* Adds the sums of all row blocks to lambda's gradient, after backward of the sub-layers that share
   it. By every thread of the team after a barrier. */
void lambda_gradient(const struct lambda *lambda, const struct parts *parts);

#endif
