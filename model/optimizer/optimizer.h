/* The optimizer of a model: one update of all parameters by their gradients.

   A kind of optimizer is a row: its options, what it keeps of each tensor from update to update,
   which tensors it takes, and its update. It updates a tensor element by element, or by full
   matrices. Tensors that a kind does not take are AdamW's. */
#pragma once

#include "model/math/arena.h"
#include "model/math/team.h"
#include "model/math/tensor.h"
#include "model/options/options.h"
#include <stdbool.h>

enum { OPTIMIZER_STATES = 2 }; // maximum number of values that a kind keeps of a weight

/* The settings of an optimizer. */
struct optimizer_options {
    int64_t kind;        // an index of optimizer_kinds
    double peak;         // learning rate after warm-up, to which a kind's own is relative
    double weight_decay; // of tensors that decay (tensor.h)
    double grad_clip;    // largest norm of the gradient; 0: no limit
    union option_data value[KIND_OPTIONS_MAX + 1]; // in the order of optimizer_option_list()
};

struct optimizer_kind;

/* A kind with its settings, and an update's learning rate and clipping. */
struct optimizer_rule {
    const struct optimizer_kind *kind;
    union option_data option[KIND_OPTIONS + 1]; // in the order of kind->options
    double weight_decay;
    double peak;  // learning rate after warm-up, and
    double rate;  // of this update
    int64_t step; // number of this update, from 1
    real clip;    // factor of the gradient
};

/* Elements that are updated: `size` of a tensor, or a matrix (rows,columns). */
struct optimizer_span {
    const struct tensor *tensor;
    size_t size, rows, columns;
    real *w;                       // the weights
    const real *grad;              // their gradient, before clipping
    real *state[OPTIMIZER_STATES]; // in the order of kind->state
};

/* Every thread of the team (team.h) calls `elements` and `matrix`, each thread for elements and
   matrices of its own. Results must not depend on how elements are split. */
struct optimizer_kind {
    const char *name;                               // as in --optimizer=NAME
    const char *formula;                            // in a line
    const char *source;                             // the paper, in a line
    const struct option *options[KIND_OPTIONS + 1]; // NULL ends the list
    const char *state[OPTIMIZER_STATES + 1]; // what is kept of each weight, initially 0: its name
                                             // in checkpoints; NULL ends the list

    /* Dies with status 2 if the options contradict each other; may be NULL. */
    void (*check)(const struct optimizer_rule *rule);

    /* Whether the kind updates this tensor; NULL: it updates all. */
    bool (*takes)(const struct tensor *tensor);

    /* One of the two. elements: any run of a tensor's elements. matrix: one of the matrices that a
       tensor consists of (tensor_hidden()), with `scratch` for as many reals as scratch_size()
       says. */
    void (*elements)(const struct optimizer_rule *rule, const struct optimizer_span *span);
    void (*matrix)(const struct optimizer_rule *rule, const struct optimizer_span *span,
                   real *scratch);
    size_t (*scratch_size)(size_t rows, size_t columns);
};

/* The factor of the weights in decoupled weight decay towards 0. What pulls elements towards
   another w0, rate weight_decay w0, is added after the kind's update. */
static inline real optimizer_keep(const struct optimizer_rule *rule, const struct tensor *tensor,
                                  double rate) {
    return (real)(tensor->decays ? 1 - rate * rule->weight_decay : 1);
}

/* The kinds, in the order of list.h, ended by NULL. */
extern const struct optimizer_kind *const optimizer_kinds[];

/* Every option that some kind lists, once, in the order of the kinds; ended by NULL. The first call
   makes the list, before there are threads. */
const struct option *const *optimizer_option_list(void);

/* The value of an option that the rule's kind lists, by the address of its row. */
static inline union option_data optimizer_option(const struct optimizer_rule *rule,
                                                 const struct option *option) {
    return rule->option[options_place(rule->kind->options, option)];
}

struct optimizer_matrix; // see optimizer.c

struct optimizer {
    struct optimizer_rule rule[2]; // the chosen kind's; AdamW's for tensors that it does not take
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

const struct optimizer_kind *optimizer_of(const struct optimizer *optimizer,
                                          const struct tensor *tensor);

/* The L2 norm of the gradient of all parameters together. */
double optimizer_grad_norm(struct optimizer *optimizer, const struct tensor_list *list);

/* One update of every parameter at learning rate `lr`. If `grad_norm` exceeds grad_clip, the
   gradient is scaled down to that norm. Matrices that keep unit length are normalized after it. */
void optimizer_step(struct optimizer *optimizer, struct tensor_list *list, double lr,
                    double grad_norm);
