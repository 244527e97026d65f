/* How a formula is computed: as passes over the rows of a batch.

     forward   [a pass for each level of means over the batch]  the pass that computes y
     backward  [the same for means of gradients]                the pass that computes dx, and sums of
                                                                the parameters' gradients

   So a token's norm has one pass each way. Batch normalization has two more forward, as its variance
   needs its mean, and one more backward. A pass is a list of steps, each a loop over a group of rows
   whose values stay in the first cache:

     y = a b c + d e + f          each of them (rows,C), (rows), (C), or one number
     y = sum_c a b c              or y += a b c for each row
     y = tanh a, ...

   Values of ROW shape are saved: later passes, and backward, find them again. Values of FULL shape
   are computed again, which is cheaper than to keep them. */
#pragma once

#include "model/norm/graph.h"
#include "model/norm/kind.h"

enum { PASSES = 8, PASS_STEPS = 120, PASS_VALUES = 160 };
enum { PASS_OUTPUTS = 1 + NORM_TENSORS, PASS_MEMORY = 32768 }; // reals of a thread

/* Where a value is. */
enum pass_place {
    AT_NUMBER, // constants, which a norm computes once
    AT_HEIGHT, // the number of rows at hand
    AT_PARAM,
    AT_STATE,
    AT_MEAN, // over the batch
    AT_X,
    AT_DY,
    AT_OUT,    // y or dx
    AT_SAVED,  // of each row
    AT_SLOT,   // (rows at hand,C) of the thread
    AT_COLUMN, // (C) of the thread
    AT_SINGLE, // one number of the thread
};

struct pass_value {
    enum pass_place place;
    int index;
    enum graph_shape shape;
};

enum { STEP_OPERANDS = 6 }; // a b c d e f

struct pass_step {
    enum graph_op op; // G_ADD is also a product
    enum graph_shape shape;
    short y, x[STEP_OPERANDS];          // values
    enum graph_shape of[STEP_OPERANDS]; // their shapes; along rows, rows count as channels
    int vary;                           // 2 bits each: the shape, if it differs between rows
};

struct program_pass {
    struct pass_step step[PASS_STEPS];
    int part[4]; // the steps before the rows begin here, of the rows, after the rows
    struct pass_value value[PASS_VALUES];
    int values, slots, columns, singles;
    int outputs, node[PASS_OUTPUTS];      // y; or dx and gradients of parameters; or means
    bool writes;                          // the first of them is y or dx
    short result[PASS_OUTPUTS];           // their values
    enum graph_shape shape[PASS_OUTPUTS]; // of what sums are added to
};

struct program {
    struct graph graph;
    int forward_levels, backward_levels;
    struct program_pass forward[PASSES], backward[PASSES]; // the last one is that of the result
    struct program_pass curve; // the tanh or erf of each number; without outputs if there is none
    // places of nodes, or -1: of constants, of ROW nodes, of G_MEAN_N nodes
    short number_at[GRAPH_NODES], saved_at[GRAPH_NODES], mean_at[GRAPH_NODES];
    int numbers, saved, means;
    int tracked[NORM_TENSORS]; // the mean that state i averages
};

/* passes.c: the program that computes y of the graph, and its gradient. tracked (states) are G_MEAN_N
   nodes of the graph. */
void program_compile(struct program *p, const struct graph *graph, int y, int states,
                     const int *tracked);

/* passes_run.c. The rows at hand, and what a pass works on. */
struct pass_rows {
    const struct norm *norm;
    const struct program *program;
    const struct program_pass *pass;
    size_t N;           // rows at hand
    size_t C, first;    // channels at hand, all or those of a group, of which this is the first
    size_t stride;      // from a row of x, dy and out to the next
    const real *x, *dy; // (N,stride)
    real *out;          // (N,stride) y or dx
    real *saved;        // (program->saved, saved_stride)
    size_t saved_stride;
    const real *means;   // (program->means, norm->C)
    const real *numbers; // (program->numbers)
};

/* Runs the pass, and adds its results to sum[]: those that are not `out`. */
void pass_run(const struct pass_rows *r, real *const *sum);

/* Whether the passes of the program have memory for rows of C channels. */
bool program_fits(const struct program *p, size_t C);
