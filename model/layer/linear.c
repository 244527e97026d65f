/* y = x W^T + b                      x (N,in), y (N,out), W (out,in), b (out)

   Backward: dx = dy W
             dW = dy^T x
             db = sum of dy over the tokens */
#include "model/layer/linear.h"
#include "model/math/profile.h"
#include "model/math/simd.h"
#include <stdint.h>

/* Where copies in panels pay, measured (scripts/guides/performance.md): for the input gradient where rows of W are
   at least BACKWARD_IN wide; for the weight gradient, which moves in + out numbers per token for
   in * out multiply-adds, where the quotient is at least KEPT_MIN. Vectors of 64 bytes come with
   wide paths to a larger cache, and leave less time for copies. */
#if SIMD_BYTES >= 64
enum { BACKWARD_IN = 256, KEPT_MIN = 400 };
#else
enum { BACKWARD_IN = 128, KEPT_MIN = 90 };
#endif

void linear_tie(struct linear *linear, struct param weight, size_t in, size_t out,
                struct arena *arena) {
    *linear = (struct linear){.in = in, .out = out, .weight = weight};
    linear->panels_forward = arena_reals(arena, matrix_panels_size(in, out, PANEL));
    if (in >= BACKWARD_IN)
        linear->panels_backward = arena_reals(arena, matrix_panels_size(out, in, PANEL));
}

void linear_attach(struct linear *linear, const char *name, size_t in, size_t out, bool bias,
                   double deviation, const struct layout *layout) {
    struct tensor_list *params = &layout->lists->param;
    linear_tie(linear, tensor_take(params, name, "weight", out, in, 0, deviation), in, out,
               layout->arena);
    if (!bias) return;
    linear->bias = tensor_take(params, name, "bias", out, 0, 0, 0);
    tensor_sums(&linear->bias, layout);
}

void linear_prepare(const struct linear *linear) {
    size_t in = linear->in, out = linear->out;
    struct range share = team_part(out, 64 / sizeof(real)), o = share; // rows of W; of one panel
    for (; o.begin < share.end; o.begin = o.end) {
        size_t panel = o.begin / PANEL * PANEL;
        o.end = size_min(share.end, panel + PANEL);
        matmul_transpose(o.end - o.begin, in,
                         linear->panels_forward + panel * in + (o.begin - panel), PANEL,
                         linear->weight.value + o.begin * in, in);
    }
    if (linear->panels_backward)
        matmul_pack(share.end - share.begin, in, linear->panels_backward + share.begin * PANEL, out,
                    PANEL, matrix_of(linear->weight.value + share.begin * in, in));
}

void linear_fetch_forward(const struct linear *linear) {
    cache_fetch(matrix_panels_size(linear->in, linear->out, PANEL), linear->panels_forward);
}

void linear_fetch_backward(const struct linear *linear) {
    cache_fetch(linear->in * linear->out,
                linear->panels_backward ? linear->panels_backward : linear->weight.value);
}

struct matrix linear_weight(const struct linear *linear) {
    return linear->panels_backward ? matrix_panels(linear->panels_backward, linear->out)
                                   : matrix_of(linear->weight.value, linear->in);
}

void linear_forward(const struct linear *linear, size_t M, real *y, const real *x) {
    const size_t in = linear->in, out = linear->out;
    matmul(M, out, in, matrix_of(x, in), matrix_panels(linear->panels_forward, in),
           matrix_of(y, out), matrix_repeated(linear->bias.value));
    profile_lap(PROFILE_FORWARD);
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
    matmul(M, in, out, matrix_of(dy, out), linear_weight(linear), matrix_of(dx, in),
           matrix_zeros());
    for (size_t m = 0; linear->bias.sums && m < M; m += ROWS)
        sum_rows(size_min(ROWS, M - m), out, param_sums(&linear->bias, block * ROWS + m),
                 dy + m * out);
    profile_lap(PROFILE_INPUT);
}

/* The calling thread's region of dW: all of it if the thread has parts of its own. Otherwise the
   threads form a grid, whose largest region is as small as it can be; of such grids it is the one
   whose largest region reads the least of dy and x per token. Threads that do not fill the grid
   have no rows. */
struct region {
    struct range o, i; // rows, columns
};

static struct region own_region(const struct linear *linear, const struct parts *parts) {
    enum { TILE_ROWS = 8 };
    size_t threads = (size_t)omp_get_num_threads(), thread = (size_t)omp_get_thread_num();
    if (threads == 1 || parts->alone) return (struct region){{0, linear->out}, {0, linear->in}};
    size_t tiles = (linear->out + TILE_ROWS - 1) / TILE_ROWS;
    size_t panels = (linear->in + PANEL - 1) / PANEL;
    size_t down = 1, across = 1, least = SIZE_MAX, reads = SIZE_MAX;
    for (size_t d = size_min(threads, tiles); d > 0; d--) {
        size_t a = size_min(threads / d, panels);
        size_t rows = (tiles + d - 1) / d * TILE_ROWS;
        size_t columns = size_min((panels + a - 1) / a * PANEL, linear->in);
        size_t size = rows * columns;
        if (size > least || (size == least && rows + columns >= reads)) continue;
        down = d, across = a, least = size, reads = rows + columns;
    }
    if (thread >= down * across) return (struct region){0};
    return (struct region){team_part_of(thread % down, down, linear->out, TILE_ROWS),
                           team_part_of(thread / down, across, linear->in, PANEL)};
}

/* The piece's slot of dW += A x in `region`, for A (rows of the region,rows of the piece)
   and x (rows of the piece,columns of the region). */
static void add_product(const struct linear *linear, const struct parts_piece *piece,
                        struct region region, struct matrix a, struct matrix x) {
    const bool below = parts_adds_below(piece);
    real *sum = param_slot(&linear->weight, piece->slot - (below ? 1 : 0));
    struct matrix dw = matrix_of(sum + region.o.begin * linear->in + region.i.begin, linear->in);
    matmul(region.o.end - region.o.begin, region.i.end - region.i.begin,
           piece->rows.end - piece->rows.begin, a, x, dw,
           piece->from_zero && !below ? matrix_zeros() : dw);
}

/* Completes a piece after its products. */
static void end_piece(const struct linear *linear, struct parts_piece piece, struct region region) {
    if (parts_adds_below(&piece)) piece.slot--, piece.merges--;
    for (size_t o = region.o.begin; piece.merges && o < region.o.end; o++)
        parts_end(&piece, &linear->weight,
                  (struct range){o * linear->in + region.i.begin, o * linear->in + region.i.end});
}

void linear_weight_gradient(const struct linear *linear, const struct parts *parts,
                            struct range rows, struct matrix dy, struct matrix x) {
    struct region region = own_region(linear, parts), band = region; // its rows in a panel of dy
    const bool fetch = dy.column_stride == 1 && omp_get_num_threads() > 1 && !parts->alone;
    const size_t width = dy.row_stride;
    struct parts_piece piece;
    x.data += region.i.begin * x.column_stride;
    for (size_t row = rows.begin, count; row < rows.end; row += count) {
        piece = parts_piece_at(parts, row, rows.end);
        count = piece.rows.end - row;
        if (fetch) { // other processors computed most of these rows, and have them in their caches
            cache_fetch_rows(count, region.o.end - region.o.begin, dy.data + region.o.begin, width);
            cache_fetch_rows(count, region.i.end - region.i.begin, x.data, x.row_stride);
        }
        for (band.o.begin = region.o.begin; band.o.begin < region.o.end;
             band.o.begin = band.o.end) {
            const size_t panel = band.o.begin / width * width;
            const real *a = dy.data + panel * dy.column_stride + (band.o.begin - panel);
            band.o.end = size_min(region.o.end, panel + width);
            add_product(linear, &piece, band, matrix_transposed(matrix_of(a, width)), x);
        }
        end_piece(linear, piece, region);
        dy.data += count * width, x.data += count * x.row_stride;
    }
    profile_lap(PROFILE_WEIGHT);
}

void linear_operands_attach(struct linear_operands *kept, size_t in, size_t out, size_t rows,
                            struct arena *arena) {
    *kept = (struct linear_operands){0};
    if (in * out < KEPT_MIN * (in + out)) return;
    kept->dy = matrix_panels(arena_reals(arena, matrix_panels_size(rows, out, PANEL_A)), rows);
    kept->dy.row_stride = PANEL_A;
    kept->x = matrix_panels(arena_reals(arena, matrix_panels_size(rows, in, PANEL)), rows);
}

void linear_keep(const struct linear *linear, const struct linear_operands *kept, size_t row,
                 size_t M, const real *dy, const real *x) {
    const struct matrix to_dy = matrix_from(kept->dy, row), to_x = matrix_from(kept->x, row);
    const size_t in = linear->in, out = linear->out;
    if (!kept->dy.data) return;
    matmul_pack(M, out, to_dy.data, to_dy.column_stride, PANEL_A, matrix_of(dy, out));
    matmul_pack(M, in, to_x.data, to_x.column_stride, PANEL, matrix_of(x, in));
    profile_lap(PROFILE_WEIGHT);
}
