/* y = x W^T + b                      x (N,in), y (N,out), W (out,in), b (out)

   Backward: dx = dy W
             dW = dy^T x
             db = sum of dy over the tokens */
#include "model/layer/linear.h"
#include "model/math/matmul.h"
#include "model/math/profile.h"
#include "model/math/simd.h"
#include <stdio.h>

enum {
    SHARED_COLUMNS = 4 * LANES, // in linear_forward_shared(), parts are multiples of this,
    SHARED_PARTS = 8,           // and at most so many
};

void linear_tie(struct linear *linear, struct param weight, size_t in, size_t out,
                struct arena *arena) {
    size_t padded = vec_padded(out);
    *linear = (struct linear){.in = in, .out = out, .weight = weight, .padded = padded};
    linear->transposed = arena_reals(arena, in * padded);
}

void linear_attach(struct linear *linear, const char *name, size_t in, size_t out, bool bias,
                   double deviation, const struct layout *layout) {
    struct tensor_list *params = &layout->lists->param;
    char full[sizeof params->tensor->name];
    snprintf(full, sizeof full, "%s.weight", name);
    linear_tie(linear, tensor_take(params, full, out, in, 0, deviation), in, out, layout->arena);
    snprintf(full, sizeof full, "%s.bias", name);
    if (!bias) return;
    linear->bias = tensor_take(params, full, out, 0, 0, 0);
    linear->bias_sums = arena_reals(layout->arena, team_row_blocks(layout->B * layout->T) * out);
}

void linear_prepare(const struct linear *linear) {
    struct range own = team_part(linear->out, 64 / sizeof(real)); // rows of W
    matmul_transpose(own.end - own.begin, linear->in, linear->transposed + own.begin,
                     linear->padded, linear->weight.value + own.begin * linear->in, linear->in);
}

void linear_forward(const struct linear *linear, size_t M, real *y, const real *x) {
    matmul(M, linear->out, linear->in, matrix_of(x, linear->in),
           matrix_of(linear->transposed, linear->padded), matrix_of(y, linear->out),
           matrix_repeated(linear->bias.value));
    profile_lap(PROFILE_FORWARD);
}

void linear_forward_columns(const struct linear *linear, struct range columns, size_t M, real *y,
                            const real *x) {
    const real *bias = linear->bias.value ? linear->bias.value + columns.begin : NULL;
    matmul(M, columns.end - columns.begin, linear->in, matrix_of(x, linear->in),
           matrix_of(linear->transposed + columns.begin, linear->padded),
           matrix_of(y + columns.begin, linear->out), matrix_repeated(bias));
    profile_lap(PROFILE_FORWARD);
}

/* The job of linear_forward_shared(). */
struct shared_product {
    const struct linear *linear;
    size_t M;
    real *y;       // (M,out)
    const real *x; // (M,in)
};

static void shared_columns(void *argument, size_t part, size_t parts, size_t thread) {
    const struct shared_product *p = argument;
    struct range columns = team_part_of(part, parts, p->linear->out, SHARED_COLUMNS);
    linear_forward_columns(p->linear, columns, p->M, p->y, p->x);
}

void linear_forward_shared(const struct linear *linear, size_t M, real *y, const real *x) {
    size_t units = (linear->out + SHARED_COLUMNS - 1) / SHARED_COLUMNS;
    team_share(shared_columns, &(struct shared_product){linear, M, y, x},
               size_min(units, SHARED_PARTS));
}

/* sum (columns) = the sum of the rows of x (M,columns). Sums are kept in registers. */
static void sum_rows(size_t M, size_t columns, real *sum, const real *x) {
    size_t c = 0;
    for (; c + LANES <= columns; c += LANES) {
        vec sums = {0};
        for (size_t m = 0; m < M; m++) sums += vec_load(x + m * columns + c);
        vec_store(sum + c, sums);
    }
    for (; c < columns; c++) {
        sum[c] = 0;
        for (size_t m = 0; m < M; m++) sum[c] += x[m * columns + c];
    }
}

void linear_backward(const struct linear *linear, size_t block, size_t M, real *dx,
                     const real *dy) {
    size_t in = linear->in, out = linear->out;
    matmul(M, in, out, matrix_of(dy, out), matrix_of(linear->weight.value, in), matrix_of(dx, in),
           matrix_zeros());
    if (linear->bias_sums) sum_rows(M, out, linear->bias_sums + block * out, dy);
    profile_lap(PROFILE_INPUT);
}

void linear_weight_gradient(const struct linear *linear, size_t N, const real *dy, size_t dy_row,
                            const real *x) {
    // The threads form a grid over dW: as many of them down its rows as there are tiles of rows,
    // the others across its columns. Threads that do not fill the grid have nothing to do.
    enum { TILE_ROWS = 8, TILE_COLUMNS = 64 };
    size_t in = linear->in, out = linear->out;
    size_t threads = (size_t)omp_get_num_threads(), thread = (size_t)omp_get_thread_num();
    size_t down = size_min(threads, (out + TILE_ROWS - 1) / TILE_ROWS), across = threads / down;
    if (thread < down * across) {
        struct range o = team_part_of(thread % down, down, out, TILE_ROWS);
        struct range i = team_part_of(thread / down, across, in, TILE_COLUMNS);
        struct matrix dw = matrix_of(linear->weight.grad + o.begin * in + i.begin, in);
        matmul(o.end - o.begin, i.end - i.begin, N,
               matrix_transposed(matrix_of(dy + o.begin, dy_row)), matrix_of(x + i.begin, in), dw,
               dw);
    }
    profile_lap(PROFILE_WEIGHT);
}

void linear_bias_gradient(const struct linear *linear, size_t N) {
    if (linear->bias_sums) team_add_blocks(N, linear->out, linear->bias.grad, linear->bias_sums);
}
