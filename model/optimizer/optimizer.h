/* The optimizer of a model: one update of all parameters by their gradients. */
#ifndef OPTIMIZER_H
#define OPTIMIZER_H

#include "model/math/arena.h"
#include "model/optimizer/kind.h"

/* The kinds, in the order of list.h, ended by NULL. */
extern const struct optimizer_kind *const optimizer_kinds[];

/* Every option that some kind lists, once, in the order of the kinds; ended by NULL. The first call
   makes the list, before there are threads. */
const struct kind_option *const *optimizer_option_list(void);

/* The name of option i of an optimizer of this kind, NULL after the last. The options are its own,
   and AdamW's if AdamW updates the tensors that it does not take. */
const char *optimizer_option_name(const struct optimizer_kind *kind, size_t i);

struct optimizer_matrix; // see optimizer.c

struct optimizer {
    struct optimizer_rule rule[2]; // the chosen kind's; AdamW's for tensors that it does not take
    int rules;                     // 1 or 2
    double grad_clip;
    real *state[OPTIMIZER_STATES]; // in the parameters' layout, each tensor's as its kind names it
    double *squares;               // sum of squares of each chunk of the gradient
    struct optimizer_matrix *matrix; // those that are updated as a whole, the largest first
    size_t matrices;
    real *scratch; // (threads,scratch_size)
    size_t scratch_size;
    int64_t step; // updates done
    int threads;  // in a pass over the tensors
    struct arena arena;
};

/* An optimizer for the parameters of `list`, whose state is 0. `threads` is the size of the model's
   team: OpenMP would end and restart threads at each step if the sizes differed. */
void optimizer_init(struct optimizer *optimizer, const struct optimizer_options *options,
                    const struct tensor_list *list, int threads);
void optimizer_free(struct optimizer *optimizer);

/* The kind that updates this tensor. */
const struct optimizer_kind *optimizer_of(const struct optimizer *optimizer,
                                          const struct tensor *tensor);

/* The L2 norm of the gradient of all parameters together. */
double optimizer_grad_norm(struct optimizer *optimizer, const struct tensor_list *list);

/* One update of every parameter at learning rate `lr`. If `grad_norm` exceeds grad_clip, the
   gradient is scaled down to that norm. Matrices that keep unit length are normalized after it. */
void optimizer_step(struct optimizer *optimizer, struct tensor_list *list, double lr,
                    double grad_norm);

#endif
