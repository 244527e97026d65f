/* Matrix products for training: C (M,N) = S + A (M,K) B (K,N). See matmul.c.

   B is either row-major or in panels. A panel is PANEL columns, stored row after row; the panels
   follow one another, and the last one is filled up with columns that nobody reads:

     columns   0 .. PANEL - 1, row 0, row 1, ..., row K - 1
     columns   PANEL .. 2 PANEL - 1, row 0, ...

   A product reads B panel by panel, so in panels it reads memory in order. Rows that are far apart,
   and most of all a power of two apart, fall on the same few places of the cache. */
#pragma once

#include "model/math/real.h"
#include "model/math/simd.h"
#include <stddef.h>

/* The part of C that is held in registers: rows, and vectors of columns. */
#if SIMD_REGISTERS >= 32
enum { TILE_M = 8, TILE_V = 3 };
#elif SIMD_REGISTERS >= 16
enum { TILE_M = 6, TILE_V = 2 };
#else
enum { TILE_M = 4, TILE_V = 2 };
#endif

enum { SUM_ROWS = 256 }; // values of k that are summed at a time

enum {
    PANEL = TILE_V * LANES, // columns of B
    PANEL_A = 48,           // rows of A: full tiles, and whole cache lines, for every machine
};

/* A matrix: its first element, and the strides in reals from one row to the next and from one
   column to the next. The transpose is the same memory with the strides exchanged. */
struct matrix {
    real *data;
    size_t row_stride, column_stride;
};

/* A row-major matrix. A product only writes to its C, so `data` may be const for the others. */
static inline struct matrix matrix_of(const real *data, size_t row_stride) {
    return (struct matrix){(real *)data, row_stride, 1};
}

static inline struct matrix matrix_transposed(struct matrix a) {
    return (struct matrix){a.data, a.column_stride, a.row_stride};
}

/* A B of K rows in panels. Column j, a multiple of PANEL, starts at j * K: that is its column
   stride, where a row-major matrix has 1. */
static inline struct matrix matrix_panels(const real *data, size_t K) {
    return (struct matrix){(real *)data, PANEL, K};
}

/* The rows from `row` on. */
static inline struct matrix matrix_from(struct matrix a, size_t row) {
    return (struct matrix){a.data + row * a.row_stride, a.row_stride, a.column_stride};
}

/* The reals of a matrix in panels that are `width` columns wide. */
static inline size_t matrix_panels_size(size_t rows, size_t columns, size_t width) {
    return rows * ((columns + width - 1) / width * width);
}

/* A matrix whose rows are all the same `row`, such as a bias; zeros if `row` is NULL. */
static inline struct matrix matrix_repeated(const real *row) {
    return (struct matrix){(real *)row, 0, 1};
}

static inline struct matrix matrix_zeros(void) {
    return matrix_repeated(NULL);
}

/* C = S + A B, by the calling thread. `start` is S (M,N), what the sums start from: C itself to
   accumulate, matrix_repeated(bias), or matrix_zeros().

   C and S are row-major, B is row-major or in panels. C does not overlap A or B. Each element of C
   is summed over k in an order that does not depend on M, N and the layout of B, so a product may
   be split into pieces of rows and columns, in panels at multiples of PANEL columns, and gives the
   same bits. */
void matmul(size_t M, size_t N, size_t K, struct matrix a, struct matrix b, struct matrix c,
            struct matrix start);

/* The same by the definition, for the tests: three loops over a B without panels. Sums are rounded
   as in the fast form: SUM_ROWS values of k are summed at a time, and each such partial sum is
   added to C. */
void matmul_reference(size_t M, size_t N, size_t K, struct matrix a, struct matrix b,
                      struct matrix c, struct matrix start);

/* Reads one element per cache line of x (rows,columns), with row stride `row`, so that x is in the
   second-level cache afterwards. Products read their operands in strips or by heads, in an order
   that the processor does not predict; an array that is read from start to end is prefetched and
   arrives several times as fast. An array above half a MiB would fill a good part of that cache and
   is left alone. */
static inline void cache_fetch_rows(size_t rows, size_t columns, const real *x, size_t row) {
    enum { LINE = 64 / sizeof(real), COUNT_MAX = (1 << 19) / sizeof(real) };
    if (rows * columns > COUNT_MAX) return;
    for (size_t n = 0; n < rows; n++)
        for (size_t i = 0; i < columns; i += LINE) (void)*(const volatile real *)(x + n * row + i);
}

/* As cache_fetch_rows(), for an array without gaps. */
static inline void cache_fetch(size_t count, const real *x) {
    cache_fetch_rows(1, count, x, count);
}

/* to (columns,rows) = the transpose of from (rows,columns), with the row strides `to_row` and
   `from_row`. */
void matmul_transpose(size_t rows, size_t columns, real *to, size_t to_row, const real *from,
                      size_t from_row);

/* Copies `rows` rows of a row-major matrix with `columns` columns into panels of K rows that are
   `width` columns wide, PANEL or PANEL_A. `to` is the place of the first of these rows in the first
   panel. */
void matmul_pack(size_t rows, size_t columns, real *to, size_t K, size_t width, struct matrix from);
