/* The operations outside the layers: see outer.c. Every thread of the team calls every function.
   model.h has the losses and logits. */
#ifndef OUTER_H
#define OUTER_H

#include "model/model.h"

/* Compute stream_in from `embedded`, and the input of the head from the streams. */
void outer_start_forward(const struct model *m, const struct pass *pass);
void outer_end_forward(const struct model *m, const struct pass *pass);

/* Computes dstream_out from dhead_in, which is in dstream[0]. Returns the index of the dstream that
   holds it. */
size_t outer_end_backward(const struct model *m, const struct pass *pass);

/* dembedded from dstream_in, in dx or in dstream_in itself. Without EMBEDDING these are the same,
   and the probed gradient is that of all streams' start. */
const real *outer_start_backward(const struct model *m, const struct pass *pass, real *dx,
                                 real *dstream_in);

/* Computes the losses of a batch, dhead_in (N,C), and the gradient of the head's weight; `scale` is
   the weight of a target in the gradient. */
void head_backward(struct model *m, const struct batch *batch, const struct parts *parts,
                   real *dhead_in, real scale);

/* Adds the gradients of the norms, and of the connection before the head. A barrier precedes the
   call. */
void outer_gradient(const struct model *m, const struct parts *parts);

#endif
