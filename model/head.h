/* The head's part of a pass; see head.c. model.h has what other modules call. */
#ifndef HEAD_H
#define HEAD_H

#include "model/model.h"

/* The losses of a batch, dhead_in (N,C), and the gradient of the head's weight; `scale` is the weight
   of a target in the gradient. Every thread of the team calls it. */
void head_backward(struct model *m, const struct batch *batch, const struct parts *parts,
                   real *dhead_in, real scale);

#endif
