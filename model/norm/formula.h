/* A norm that is a formula, such as

     gamma * (x - mean_c(x)) / sqrt(var_c(x) + eps) + beta

   --norm, and each option that takes a norm, take its text. formula.c reads it into a graph
   (graph.h), which is differentiated; passes.h says how the result is computed. The text is the
   `formula` of a kind (kind.h). If the kind has functions of its own, they compute the same in
   another way, and tests compare the two. */
#pragma once

#include "model/norm/graph.h"
#include "model/norm/kind.h"
#include "model/norm/passes.h"

struct formula {
    const struct norm_kind *kind; // its parameters and options are those of the formula
    struct graph graph;
    int y;
    bool groups;        // sums over channels are over those of a group (--norm-groups)
    struct graph start; // initial values of parameters, of numbers, options and C
    int start_of[NORM_TENSORS];
    int states; // running averages of means over the batch
    enum graph_mean state[NORM_TENSORS];
    int state_of[NORM_TENSORS];          // their nodes
    struct program training, evaluation; // the same, unless there are states
};

/* formula_parse.c: reads the text of f->kind. Its parameters and options are added to `typed`, unless
   that is NULL. Dies with status 2 if the text is wrong; `option` has it as its value. */
void formula_read(struct formula *f, struct norm_kind *typed, const char *option);

/* A kind that is computed by the formula `text`, the value of an option, and the end of it. Dies with
   status 2, and says where, if the text cannot be read. */
struct norm_kind *formula_kind(const char *option, const char *text);
void formula_free(struct norm_kind *kind);

/* Adds such a kind to norm_kinds, unless it is there, and returns its name, the text; NULL if that is
   a word, as names of kinds are. */
const char *formula_add(const char *option, const char *text);

/* The formula of a kind, which is read when it is first asked for; NULL if the kind has none. */
const struct formula *formula_of(const struct norm_kind *kind);

/* The constants of a graph of the norm's kind, by node (graph_constants()). */
void formula_constants(const struct norm *norm, const struct graph *g, double *value);

/* The value of option i of the norm's kind. */
double formula_option(const struct norm *norm, int i);

/* The number of groups of channels; 1 without `groups`. */
size_t formula_groups(const struct norm *norm);

/* The initial value of parameter i. */
double formula_start(const struct norm *norm, int i);

/* The name of parameter i in the formula: gamma, beta, or the tensor's. */
const char *formula_symbol(const struct norm_kind *kind, int i);

/* ---- formula_norm.c: a norm that is computed by its formula ---- */

void formula_check(const struct norm *norm);
void formula_attached(const struct norm *norm);
size_t formula_saved_size(const struct norm *norm, size_t B, size_t T);
void formula_forward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                     real *y, const real *x);
void formula_backward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                      real *dx, const real *dy, const real *x, real *const *sum);
void formula_statistics(const struct norm *norm, const struct tokens *tokens, const real *x);
void formula_gradient_statistics(const struct norm *norm, const struct tokens *tokens,
                                 const real *dy, const real *x);
size_t formula_saturated(const struct norm *norm, const real *x); // of one with a curve

/* What y becomes if a number is added to all channels of a token, or to a channel of all tokens, or if
   these are multiplied by a positive number; only through eps: EFFECT_OF_EPS. Tried out on a few
   numbers; where y is no number: EFFECT_UNKNOWN. */
enum formula_change { SHIFT_OF_TOKEN, SCALE_OF_TOKEN, SHIFT_OF_CHANNEL, SCALE_OF_CHANNEL };
enum formula_effect { EFFECT_NONE, EFFECT_OF_EPS, EFFECT_SOME, EFFECT_UNKNOWN };
enum formula_effect formula_effect(const struct norm *norm, enum formula_change change);

/* Sets `terms` and `centred` of a typed kind, whose formula is tried out: if it is gamma xhat + beta
   (kind.h), with gamma and beta of each channel or without them, however it is written. */
void formula_find_terms(struct norm_kind *kind);

/* Whether the norm's formula, or with dy (N,C) its gradient, makes NaN or infinity of the finite
   numbers x (N,C), and the operation of which it does, such as log(-0.3), in *operation (held until
   the next call). Means over the batch are those of these rows. False without a formula. */
bool formula_fault(const struct norm *norm, size_t N, const real *x, const real *dy,
                   const char **operation);

/* Of the row of a kind without means over the batch. */
#define COMPUTED_BY_FORMULA                                                                        \
    .check = formula_check, .saved_size = formula_saved_size, .by_formula = true,                  \
    .forward = formula_forward, .backward = formula_backward
