/* What a kind of optimizer is. Files of kinds include this header; code that trains includes
   optimizer.h.

   A kind is a row: its options, what it keeps of each tensor from update to update, which tensors
   it takes, and its update. It updates a tensor element by element, or by full matrices. Tensors
   that a kind does not take are AdamW's. */
#ifndef OPTIMIZER_KIND_H
#define OPTIMIZER_KIND_H

#include "model/kind_option.h"
#include "model/math/team.h"
#include "model/math/tensor.h"
#include <stdbool.h>

enum { OPTIMIZER_STATES = 2 };  // maximum number of values that a kind keeps of a weight
enum { OPTIMIZER_FACTORS = 4 }; // maximum number of factors of an update

/* The settings of an optimizer. */
struct optimizer_options {
    int64_t kind;        // an index of optimizer_kinds
    double peak;         // learning rate after warm-up, to which a kind's own is relative
    double weight_decay; // of tensors that decay (tensor.h)
    double grad_clip;    // largest norm of the gradient; 0: no limit
    union kind_value value[KIND_OPTIONS_MAX]; // in the order of optimizer_option_list()
};

struct optimizer_kind;

/* A kind with its settings, and with the numbers that it computes once per update. */
struct optimizer_rule {
    const struct optimizer_kind *kind;
    union kind_value option[KIND_OPTIONS]; // in the order of kind->options
    double weight_decay;
    double peak;                    // learning rate after warm-up, and
    double rate;                    // of this update
    int64_t step;                   // number of this update, from 1
    real clip;                      // factor of the gradient
    real factor[OPTIMIZER_FACTORS]; // what kind->prepare() computes
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
    const char *name;                                    // as in --optimizer=NAME
    const char *formula;                                 // in a line
    const char *source;                                  // the paper, in a line
    const struct kind_option *options[KIND_OPTIONS + 1]; // NULL ends the list
    const char *state[OPTIMIZER_STATES + 1]; // what is kept of each weight, initially 0: its name
                                             // in checkpoints; NULL ends the list

    /* Dies with status 2 if the options contradict each other; may be NULL. */
    void (*check)(const struct optimizer_rule *rule);

    /* Whether the kind updates this tensor; NULL: it updates all. */
    bool (*takes)(const struct tensor *tensor);

    /* Computes rule->factor, once for each update; may be NULL. */
    void (*prepare)(struct optimizer_rule *rule);

    /* One of the two. elements: any run of a tensor's elements. matrix: one of the matrices that a
       tensor consists of (tensor_hidden()), with `scratch` for as many reals as scratch_size()
       says. */
    void (*elements)(const struct optimizer_rule *rule, const struct optimizer_span *span);
    void (*matrix)(const struct optimizer_rule *rule, const struct optimizer_span *span,
                   real *scratch);
    size_t (*scratch_size)(size_t rows, size_t columns);
};

/* Of decoupled weight decay towards w0, w - rate weight_decay (w - w0) = keep w + pull. */
static inline real optimizer_keep(const struct optimizer_rule *rule, const struct tensor *tensor,
                                  double rate) {
    return (real)(tensor->decays ? 1 - rate * rule->weight_decay : 1);
}

static inline real optimizer_pull(const struct optimizer_rule *rule, const struct tensor *tensor,
                                  double rate) {
    double decay = rate * rule->weight_decay;
    return (real)(tensor->decays ? decay * tensor->decay_target : 0);
}

#endif
