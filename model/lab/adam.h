/* AdamW: Adam with decoupled weight decay. */
#ifndef ADAM_H
#define ADAM_H

#include "model/math/arena.h"
#include "model/math/tensor.h"

struct adam_options {
    double beta1, beta2, eps, weight_decay, grad_clip; // grad_clip 0: no clipping
};

struct adam {
    struct adam_options options;
    real *m, *v;     // first and second moments, in the parameters' layout
    double *squares; // sum of squares of each chunk of the gradient
    int64_t step;    // updates done
    int threads;     // in a pass over the tensors
    struct arena arena;
};

/* Moments for the parameters of `list`, all 0. `threads` is 1 until the caller sets it, to the size
   of the model's team: OpenMP would end and restart threads at each step if the sizes differed. */
void adam_init(struct adam *adam, const struct adam_options *options,
               const struct tensor_list *list);
void adam_free(struct adam *adam);

/* The L2 norm of the gradient of all parameters together. */
double adam_grad_norm(struct adam *adam, const struct tensor_list *list);

/* One update of every parameter at learning rate `lr`. If `grad_norm` exceeds grad_clip, the
   gradient is scaled down to that norm. Matrices that keep unit length are normalized after it. */
void adam_step(struct adam *adam, struct tensor_list *list, double lr, double grad_norm);

#endif
