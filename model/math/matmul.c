/* Matrix products: C (M,N) = start + A (M,K) B (K,N).

   The three products of a linear layer y = x W^T + b, W (OC,IC), are this one with other strides:
     forward          y  (N,OC)  = b + x (N,IC) W^T        W transposed once for each update
     input gradient   dx (N,IC)  = dy (N,OC) W
     weight gradient  dW (OC,IC) += dy^T (OC,N) x (N,IC)   A transposed, the sum is over tokens

   The fast form (register tiles after Goto and van de Geijn 2008): the innermost tile keeps TILE_M
   x TILE_V vectors of C in registers and makes one rank-1 update a step: TILE_V vectors of B, one
   element of A at a time for TILE_V multiply-adds. BLOCK_K steps at a time, a strip of B as wide as
   the tile stays in the cache while BLOCK_M rows of A pass by. Nothing is packed: with B row-major,
   both A and B are read where they lie about as fast as from packed copies, measured on the shapes
   of training (PERFORMANCE.md); columns that do not fill a vector are read and written under a
   mask.
 */
#include "model/math/matmul.h"
#include "model/math/simd.h"
#include <stdbool.h>

#if SIMD_REGISTERS >= 32
enum { TILE_M = 8, TILE_V = 3 };
#else
enum { TILE_M = 6, TILE_V = 2 };
#endif

enum {
    TALL_M = 2 * TILE_M,   // rows of a tile that is one vector wide
    BLOCK_M = 24 * TILE_M, // rows of A and C,
    BLOCK_K = 256,         // rows of B that meet before the next
};

void matmul_reference(size_t M, size_t N, size_t K, struct matrix a, struct matrix b,
                      struct matrix c, enum matmul_start start, const real *bias) {
    for (size_t i = 0; i < M; i++)
        for (size_t j = 0; j < N; j++) {
            real *out = &c.data[i * c.row + j * c.column], sum = 0;
            if (start != MATMUL_ADD) *out = start == MATMUL_BIAS ? bias[j] : 0;
            for (size_t k = 0; k < K; k++) {
                sum = mul_add(a.data[i * a.row + k * a.column], b.data[k * b.row + j * b.column],
                              sum);
                if ((k + 1) % BLOCK_K && k + 1 < K) continue;
                *out += sum;
                sum = 0;
            }
        }
}

/* A part of a product that works on K rows of B: its left-hand side, its right-hand side, what its
   sums are added to (NULL: zeros; rows `first_row` apart, 0: the same for every row) and where they
   go. `last` is how many columns its last vector has. */
struct part {
    size_t K, last;
    struct matrix a, b;
    const real *first;
    size_t first_row;
    real *c;
    size_t c_row;
};

/* Vector j of v at p: whole, but the last one if `cut` is set. */
SIMD_INLINE vec load(const real *p, size_t j, const size_t v, const bool cut, size_t last) {
    return cut && j == v - 1 ? vec_load_first(p + j * LANES, last) : vec_load(p + j * LANES);
}

SIMD_INLINE void store(real *p, vec x, size_t j, const size_t v, const bool cut, size_t last) {
    if (cut && j == v - 1)
        vec_store_first(p + j * LANES, x, last);
    else
        vec_store(p + j * LANES, x);
}

/* m rows of a part, v vectors wide, from row i on; m, v and cut constants at each call.

   Rows are some steps from the first, or from the one in the middle: an address for each row would
   take more registers than there are. For the same reason the part is hidden from the compiler now
   and then, or it keeps addresses of all rows from before a loop to behind it, and from tile to
   tile, in memory, which takes a quarter of a small tile's time. */
SIMD_INLINE void tile(const size_t m, const size_t v, const bool cut, size_t i,
                      const struct part *p) {
    // C's lines are asked for now, so that nothing need wait for them at the end
    SIMD_HIDE(p);
    real *c = p->c + i * p->c_row;
    size_t c_row = p->c_row;
#pragma GCC unroll 16
    for (size_t r = 0; r < m; r++)
#pragma GCC unroll 4
        for (size_t j = 0; j < v; j++) __builtin_prefetch(c + r * c_row + j * LANES, 1);

    SIMD_HIDE(p);
    vec sum[TALL_M][TILE_V] = {0};
    const real *b = p->b.data;
    size_t row = p->a.row, column = p->a.column, b_row = p->b.row, last = p->last;
    const real *upper = p->a.data + i * row;
    const real *half[2] = {upper, m > TILE_M ? upper + TILE_M * row : upper};
    for (size_t k = p->K; k > 0; k--, half[0] += column, half[1] += column, b += b_row) {
        vec bk[TILE_V];
#pragma GCC unroll 4
        for (size_t j = 0; j < v; j++) bk[j] = load(b, j, v, cut, last);
#pragma GCC unroll 16
        for (size_t r = 0; r < m; r++) {
            vec ar = vec_splat(half[r / TILE_M][r % TILE_M * row]);
#pragma GCC unroll 4
            for (size_t j = 0; j < v; j++) sum[r][j] = vec_mul_add(ar, bk[j], sum[r][j]);
        }
    }

    SIMD_HIDE(p);
    if (p->first) {
        const real *first = p->first + i * p->first_row;
        size_t first_row = p->first_row;
#pragma GCC unroll 16
        for (size_t r = 0; r < m; r++)
#pragma GCC unroll 4
            for (size_t j = 0; j < v; j++)
                sum[r][j] += load(first + r * first_row, j, v, cut, last);
    }

    SIMD_HIDE(p);
    c = p->c + i * p->c_row;
    c_row = p->c_row;
#pragma GCC unroll 16
    for (size_t r = 0; r < m; r++)
#pragma GCC unroll 4
        for (size_t j = 0; j < v; j++) store(c + r * c_row, sum[r][j], j, v, cut, last);
}

/* Rows i .. M of a part as long as m of them are left; returns the first that remains. */
SIMD_INLINE size_t tiles(const size_t m, const size_t v, const bool cut, size_t i, size_t M,
                         const struct part *p) {
    for (; i + m <= M; i += m) tile(m, v, cut, i, p);
    return i;
}

/* All M rows of a part that is v vectors wide. */
SIMD_INLINE void strip(const size_t v, const bool cut, size_t M, const struct part *p) {
    size_t i = v == 1 ? tiles(TALL_M, v, cut, 0, M, p) : 0;
    i = tiles(TILE_M, v, cut, i, M, p);
    i = tiles(4, v, cut, i, M, p);
    i = tiles(2, v, cut, i, M, p);
    tiles(1, v, cut, i, M, p);
}

/* A function for each width, whole or cut: in one function the compiler makes ready for all of them
   at every product. */
#define STRIP(name, v, cut)                                                                        \
    static __attribute__((noinline)) void name(size_t M, const struct part *p) {                   \
        strip(v, cut, M, p);                                                                       \
    }
STRIP(strip_1, 1, false)
STRIP(strip_1_cut, 1, true)
STRIP(strip_2, 2, false)
STRIP(strip_2_cut, 2, true)
STRIP(strip_widest, TILE_V, false)
STRIP(strip_widest_cut, TILE_V, true)

typedef void strip_function(size_t M, const struct part *p);
static strip_function *const strips[][2] = {
    {strip_1, strip_1_cut}, {strip_2, strip_2_cut}, {strip_widest, strip_widest_cut}};

void matmul(size_t M, size_t N, size_t K, struct matrix a, struct matrix b, struct matrix c,
            enum matmul_start start, const real *bias) {
    for (size_t i = 0; i < M; i += BLOCK_M)
        for (size_t k = 0; k == 0 || k < K; k += BLOCK_K) {
            size_t m = size_min(M - i, BLOCK_M);
            bool add = k > 0 || start == MATMUL_ADD;
            for (size_t j = 0, v; j < N; j += v * LANES) {
                size_t vectors = (N - j + LANES - 1) / LANES; // four are better two and two
                v = vectors == 4 ? 2 : size_min(vectors, TILE_V);
                real *out = c.data + i * c.row + j;
                struct part part = {.K = size_min(K - k, BLOCK_K),
                                    .last = N - j - (v - 1) * LANES,
                                    .a = {a.data + i * a.row + k * a.column, a.row, a.column},
                                    .b = matrix_of(b.data + k * b.row + j, b.row),
                                    .first = add                    ? out
                                             : start == MATMUL_BIAS ? bias + j
                                                                    : NULL,
                                    .first_row = add ? c.row : 0,
                                    .c = out,
                                    .c_row = c.row};
                strips[v - 1][part.last < (size_t)LANES](m, &part);
            }
        }
}

#ifdef SIMD_SHUFFLES
/* LANES x LANES elements: each pass of interleaving the first half of the vectors with the second
   moves one bit of an element's place from column to row. */
static void transpose_square(real *to, size_t to_row, const real *from, size_t from_row) {
    vec a[LANES], b[LANES];
#    pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) a[i] = vec_load(from + (size_t)i * from_row);
#    pragma GCC unroll 4
    for (int pass = 1; pass < LANES; pass *= 2) {
#    pragma GCC unroll 16
        for (int i = 0; i < LANES / 2; i++) {
            b[2 * i] = vec_interleave(a[i], a[i + LANES / 2], 0);
            b[2 * i + 1] = vec_interleave(a[i], a[i + LANES / 2], 1);
        }
#    pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) a[i] = b[i];
    }
#    pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) vec_store(to + (size_t)i * to_row, a[i]);
}
#else
static void transpose_square(real *to, size_t to_row, const real *from, size_t from_row) {
    for (int y = 0; y < LANES; y++)
        for (int x = 0; x < LANES; x++)
            to[(size_t)y * to_row + (size_t)x] = from[(size_t)x * from_row + (size_t)y];
}
#endif

void matmul_transpose(size_t rows, size_t columns, real *to, size_t to_row, const real *from,
                      size_t from_row) {
    for (size_t i = 0; i < rows; i += LANES)
        for (size_t j = 0; j < columns; j += LANES) {
            if (i + LANES <= rows && j + LANES <= columns) {
                transpose_square(to + j * to_row + i, to_row, from + i * from_row + j, from_row);
                continue;
            }
            for (size_t y = j; y < size_min(columns, j + LANES); y++)
                for (size_t x = i; x < size_min(rows, i + LANES); x++)
                    to[y * to_row + x] = from[x * from_row + y];
        }
}
