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
    real *m, *v;     // moments, laid out as the parameters
    double *squares; // of each CHUNK of the gradient, summed
    int64_t step;    // updates done
    int threads;     // of a pass
    struct arena arena;
};

/* Moments for the parameters of `list`, all 0; one thread until `threads` says otherwise (a team of
   another size than the model's would end threads and make them anew, each step). */
void adam_init(struct adam *adam, const struct adam_options *options,
               const struct tensor_list *list);
void adam_free(struct adam *adam);

/* The gradient's L2 norm over all parameters. */
double adam_grad_norm(struct adam *adam, const struct tensor_list *list);

/* One update of every parameter at rate `lr` with the gradient, scaled down to norm grad_clip if
   `grad_norm` is larger. */
void adam_step(struct adam *adam, struct tensor_list *list, double lr, double grad_norm);

#endif
