/* A sigmoid gate of attention's output: see gate.c. */
#ifndef GATE_H
#define GATE_H

#include "model/math/real.h"
#include <stddef.h>

/* A token has C channels of output and G numbers z, one for each run of C / G channels. z and its
   gradient are the last columns of the matrices in and din (M,row). */
struct gate {
    size_t C, G, row; // G is 0 if there is no gate
};

/* out (M,C) = out * sigmoid(z), in place, by the calling thread. */
void gate_forward(const struct gate *gate, size_t M, real *out, const real *in);

/* dout (M,C) becomes the gradient of what gate_forward() found in `out`, in place; dz is written.
   `out` is what gate_forward() left. By the calling thread. */
void gate_backward(const struct gate *gate, size_t M, real *dout, real *din, const real *out,
                   const real *in);

#endif
