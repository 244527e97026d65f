/* --show-norm: prints a norm, step by step or as a module of PyTorch. */
#pragma once

#include "model/norm/formula.h"

/* Prints the formula of a norm of C channels with these settings, its gradient step by
   step, and what it computes; of a kind without one, a line that says so. Or prints it as a module of
   PyTorch. */
void formula_show(const struct norm_kind *kind, const struct norm_options *options, size_t C,
                  bool torch);

/* ---- what both forms share ---- */

struct steps {
    struct graph g; // of the formula and its gradient
    int of[GRAPH_NODES], y, uses[GRAPH_NODES];
    bool needed[GRAPH_NODES], constant[GRAPH_NODES];
    bool mean[GRAPH_NODES];     // a sum over channels that is divided by C wherever it is used
    char name[GRAPH_NODES][72]; // of a step; "": none
    const struct norm_kind *kind;
    bool torch; // they are printed as Python
    const struct formula *formula;
};

/* The node of a leaf, or -1. */
int show_leaf(const struct graph *g, enum graph_op op, int k);

/* The name of option i of the kind in a formula. */
const char *show_option(const struct norm_kind *kind, int i);

/* Whether the parameter is learned with these options. */
bool show_learns(const struct norm_tensor *t, const struct norm_options *options);

/* Prints node i inside a step, whose own node is written out. */
void show_sum(const struct steps *s, int i, int step);

/* formula_show_torch.c: the name of parameter i as an attribute of a module of PyTorch; prints the
   norm as one. */
const char *show_attribute(const struct norm_kind *kind, int i);
void show_module(const struct norm *norm, const struct norm_options *options,
                 const struct steps *s);
