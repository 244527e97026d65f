/* A linear layer y = x W^T + b, with its weights laid out as in PyTorch: W (out,in), b (out). */
#pragma once

#include "model/math/matmul.h"
#include "model/math/parts.h"

struct linear {
    size_t in, out;
    struct param weight; // (out,in)
    struct param bias;   // (out), or NULL if there is none
    // Copies of W in panels, remade after each update by linear_prepare(). Columns from `out` or
    // `in` on are zero.
    real *panels_forward;  // W^T (in,out)
    real *panels_backward; // W (out,in), or NULL where W is read in place
};

/* The operands of the weight gradient in panels: dy (rows,out) in panels of PANEL_A columns,
   x (rows,in) in panels of PANEL. Their data is NULL where they are read in place. */
struct linear_operands {
    struct matrix dy, x;
};

/* Declares the tensors NAME.weight, initially normal(0, deviation), and, if `bias`, NAME.bias,
   initially 0; takes the layer's memory. */
void linear_attach(struct linear *linear, const char *name, size_t in, size_t out, bool bias,
                   double deviation, const struct layout *layout);

/* As linear_attach(), for a tied layer: its weight belongs to another module, and it has no
   bias. */
void linear_tie(struct linear *linear, struct param weight, size_t in, size_t out,
                struct arena *arena);

/* Copies the weight into panels. Every thread of the team calls it after each change of the
   weights. A barrier must follow. */
void linear_prepare(const struct linear *linear);

/* Fetches the weight into the calling thread's cache, as the forward product or that of the input
   gradient reads it. */
void linear_fetch_forward(const struct linear *linear);
void linear_fetch_backward(const struct linear *linear);

/* y (M,out) = x (M,in) W^T + b, by the calling thread. */
void linear_forward(const struct linear *linear, size_t M, real *y, const real *x);

/* W as an operand, for a caller that computes dx = dy W itself. */
struct matrix linear_weight(const struct linear *linear);

/* dx (M,in) = dy (M,out) W, by the calling thread. The M tokens start with row block number
   `block`; the sums of dy over the row blocks are those of the bias (tensor.h). */
void linear_backward(const struct linear *linear, size_t block, size_t M, real *dx, const real *dy);

/* Takes memory for copies of the operands, unless they would make the gradient slower. */
void linear_operands_attach(struct linear_operands *kept, size_t in, size_t out, size_t rows,
                            struct arena *arena);

/* Copies these operands, dy (M,out) and x (M,in), of tokens that the calling thread has computed,
   into the rows of `kept` from `row` on. Does nothing if `kept` has no memory. */
void linear_keep(const struct linear *linear, const struct linear_operands *kept, size_t row,
                 size_t M, const real *dy, const real *x);

/* A pass's weight gradient is computed from runs of rows that end where a part does, or a multiple
   of this number of rows after the start of one, so that its sums are split at the same rows. */
static inline size_t linear_sum_rows(const struct parts *parts) {
    return size_min(parts->size, SUM_ROWS);
}

/* dW += dy^T x over `rows` of a pass: dy (rows,out) and x (rows,in), row-major or in the panels of
   linear_operands. Every thread of the team calls it, after a barrier, and computes its own region
   of dW; or one thread calls it for its own parts (parts_alone()). */
void linear_weight_gradient(const struct linear *linear, const struct parts *parts,
                            struct range rows, struct matrix dy, struct matrix x);
