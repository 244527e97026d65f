/* A formula as a graph of operations, which can be differentiated.

   Each value has a shape of two bits: whether it differs between channels, and between rows (tokens,
   or heads of tokens). An operation on two values has the bits of both.

       channels
       no          yes
     +-----------+-----------+
     | ONE  eps  | COL gamma |  rows: no
     | ROW  rms_c| FULL  x   |        yes
     +-----------+-----------+

   No two nodes are equal, and the operands of a node come before it. A product is

     (FULL factors x COL factors) x (ROW factors x ONE factors)

   with each class sorted, so that products of the same factors are one node, a sum leaves out what
   it does not run over, and what is the same for all rows is multiplied once.

   The gradient is by reverse mode, and is made of more nodes of the same kinds: the gradient of a
   value without channels is a sum over channels, that of a sum over channels a value without them;
   and so with rows. Therefore it needs no code of its own to be computed, and may itself be read. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum graph_shape { SHAPE_ONE = 0, SHAPE_COL = 1, SHAPE_ROW = 2, SHAPE_FULL = 3 };

enum graph_op {
    // leaves; k is the number, or which option, parameter or running average
    G_NUMBER,
    G_CHANNELS, // C
    G_OPTION,
    G_HEIGHT, // the number of rows at hand
    G_PARAM,
    G_STATE,
    G_X,
    G_DY, // the gradient of y
    // of two values
    G_ADD,
    G_MUL,
    G_MAX,
    G_GREATER, // a > b ? 1 : 0, without gradient
    // of one value
    G_RECIP,
    G_SQRT,
    G_RSQRT, // 1 / sqrt
    G_EXP,
    G_LOG,
    G_TANH,
    G_ERF,
    G_SIGMOID,
    G_STOP, // the value without its gradient
    // over channels; over the rows at hand; over the valid rows of the batch
    G_SUM_C,
    G_MAX_C,
    G_SUM_B,
    G_MEAN_N, // k: enum graph_mean
    G_OPS
};

/* What the running average of a mean over the batch is called, and how it is averaged: that of a
   variance is unbiased, as in PyTorch. */
enum graph_mean { MEAN_OF_VALUES, MEAN_OF_VARIANCE, MEAN_OF_SQUARES, GRAPH_MEANS };

struct graph_node {
    enum graph_op op;
    enum graph_shape shape;
    int a, b; // operands, -1: none
    double k;
};

enum { GRAPH_NODES = 1000 };

struct graph {
    const char *text; // of the formula, for messages
    int count;
    struct graph_node node[GRAPH_NODES];
};

static inline enum graph_shape graph_shape(const struct graph *g, int n) {
    return g->node[n].shape;
}

static inline bool graph_is_leaf(const struct graph *g, int n) {
    return g->node[n].op <= G_DY;
}

/* Each returns a node, which may be an earlier one. */
int graph_leaf(struct graph *g, enum graph_op op, enum graph_shape shape, double k);
int graph_number(struct graph *g, double k);
int graph_add(struct graph *g, int a, int b);
int graph_subtract(struct graph *g, int a, int b);
int graph_multiply(struct graph *g, int a, int b);
int graph_divide(struct graph *g, int a, int b);
int graph_power(struct graph *g, int a, double exponent);
int graph_pair(struct graph *g, enum graph_op op, int a, int b);   // G_MAX, G_GREATER
int graph_function(struct graph *g, enum graph_op op, int a);      // of one value
int graph_sum(struct graph *g, enum graph_op op, double k, int a); // G_SUM_C, G_SUM_B, G_MEAN_N
int graph_fill(struct graph *g, int a); // the same value for every row and channel

/* Copies a node, and what it needs, into another graph. map[] has the copies so far, initially -1;
   a node that it maps to itself beforehand is replaced by that copy. stop() disappears. */
int graph_copy(struct graph *to, const struct graph *from, int node, int *map);

/* The gradient of sum(dy y) for every node, in the same graph: of x and of what has rows in of[];
   of what has none the sum over the rows at hand, which the caller adds up over the batch. -1: 0. */
void graph_differentiate(struct graph *g, int y, int *of);

/* The nodes from which the value of a node follows, itself included, are marked. */
void graph_mark(const struct graph *g, int node, bool *marked);

/* The value of an operation on two numbers, or on one. */
double graph_function_value(enum graph_op op, double a, double b);

/* Which nodes are one number that follows from numbers, options and C; and the values of these. */
void graph_find_constants(const struct graph *g, bool *constant);
void graph_constants(const struct graph *g, double C, const double *option, double *value);

/* The value of every node (count,N,C) for rows x and dy (N,C), all of them valid and at hand, one node
   after another: slow and simple, for properties and tests. */
struct graph_input {
    size_t N, C;
    const double *x, *dy;    // (N,C)
    const double *param[16]; // (C), or one number
    const double *option;
};
void graph_values(const struct graph *g, const struct graph_input *in, double *value);
