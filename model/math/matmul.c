/* Matrix products: C (M,N) = S + A (M,K) B (K,N).

   The three products of a linear layer y = x W^T + b, with W (OC,IC), differ in their strides only:

     forward          y  (N,OC)  = b + x (N,IC) W^T        W is transposed once per update
     input gradient   dx (N,IC)  = dy (N,OC) W
     weight gradient  dW (OC,IC) += dy^T (OC,N) x (N,IC)   A is transposed; the sum is over tokens

   The fast form uses register tiles after Goto and van de Geijn 2008:

     block   BLOCK_M rows of A and C, BLOCK_K values of k
     strip   a block's columns, at most TILE_V vectors of them at a time: the strip of B, BLOCK_K
             rows high, stays in the cache while the rows of A pass by
     tile    TILE_M rows of a strip. Its part of C is held in registers. Each step of k is a rank-1
             update: load TILE_V vectors of B, then TILE_V multiply-adds for each element of A

   A strip of B is as wide as a panel of matmul.h. If B is in panels, the strip is contiguous, and
   the next panel's is prefetched where B has more than FETCH_K rows. If B is not in panels,
   it is read in place, which costs nothing while B is small (scripts/guides/performance.md). Columns that do
   not fill a vector are read and written under a mask. */
#include "model/math/matmul.h"
#include <stdbool.h>

enum {
    TALL_M = 2 * TILE_M,   // rows of a tile that is one vector wide
    BLOCK_M = 24 * TILE_M, // rows of A and C in a block
    BLOCK_K = SUM_ROWS,    // values of k in a block
    C_STEPS = 4,           // values of k per row of C that a tile prefetches
    FETCH_K = 200,         // values of k above which the next strip of B is prefetched
};

void matmul_reference(size_t M, size_t N, size_t K, struct matrix a, struct matrix b,
                      struct matrix c, struct matrix start) {
    for (size_t i = 0; i < M; i++)
        for (size_t j = 0; j < N; j++) {
            real *out = &c.data[i * c.row_stride + j * c.column_stride], sum = 0;
            *out = start.data ? start.data[i * start.row_stride + j * start.column_stride] : 0;
            for (size_t k = 0; k < K; k++) {
                sum = mul_add(a.data[i * a.row_stride + k * a.column_stride],
                              b.data[k * b.row_stride + j * b.column_stride], sum);
                if ((k + 1) % BLOCK_K && k + 1 < K) continue;
                *out += sum;
                sum = 0;
            }
        }
}

/* A strip of a block: c = start + a b, with K <= BLOCK_K values of k. */
struct strip {
    size_t K, last; // `last`: columns in the strip's last vector
    struct matrix a, b;
    const real *start; // NULL: zeros
    size_t start_row;  // row stride; 0: the same row for every row of c
    real *c;
    size_t c_row;     // row stride
    const real *next; // the next strip of B, which the tiles prefetch; NULL: none
    size_t next_step; // the values of it that a step of k prefetches
};

/* Loads vector j of the v vectors at p. If `cut`, the last vector has only `last` elements. */
SIMD_INLINE vec load(const real *p, size_t j, const size_t v, const bool cut, size_t last) {
    return cut && j == v - 1 ? vec_load_first(p + j * LANES, last) : vec_load(p + j * LANES);
}

SIMD_INLINE void store(real *p, vec x, size_t j, const size_t v, const bool cut, size_t last) {
    if (cut && j == v - 1)
        vec_store_first(p + j * LANES, x, last);
    else
        vec_store(p + j * LANES, x);
}

/* The tile of m rows by v vectors that starts at row i of the strip. m, v and cut are constants in
   every call, so that all inner loops unroll and `sum` stays in registers.

   Rows of A are addressed by their distance from the tile's first or middle row: a pointer per row
   would need more registers than there are. For the same reason SIMD_HIDE() makes the compiler
   forget the strip's address between the phases. Otherwise it computes the addresses of all rows
   once and keeps them in memory across phases and tiles, which costs a quarter of a small tile's
   time. */
SIMD_INLINE void tile(const size_t m, const size_t v, const bool cut, const bool ahead, size_t i,
                      const struct strip *s) {
    // sum = a b; C is prefetched row by row, because many prefetches at once delay loads of B.
    // Strips of one vector are mostly in small models, whose C is in the cache.
    SIMD_HIDE(s);
    vec sum[TALL_M][TILE_V] = {0};
    const real *b = s->b.data;
    size_t row = s->a.row_stride, column = s->a.column_stride;
    size_t b_row = s->b.row_stride, last = s->last, next_step = s->next_step;
    const real *upper = s->a.data + i * row;
    const real *half[2] = {upper, m > TILE_M ? upper + TILE_M * row : upper};
    const real *next = ahead ? s->next + i * s->K * next_step / TILE_M : NULL;
    real *c = s->c + i * s->c_row;
    size_t c_row = s->c_row, rows = v > 1 ? m : 0; // rows to prefetch
    for (size_t k = s->K; k > 0; k--, b += b_row) {
        vec bk[TILE_V];
        if (k % C_STEPS == 0 && rows) {
            SIMD_UNROLL
            for (size_t j = 0; j < v; j++) __builtin_prefetch(c + j * LANES, 1);
            c += c_row;
            rows--;
        }
        if (ahead) __builtin_prefetch(next += next_step, 0, 2);
        SIMD_UNROLL
        for (size_t j = 0; j < v; j++) bk[j] = load(b, j, v, cut, last);
        SIMD_UNROLL
        for (size_t r = 0; r < m; r++) {
            SIMD_LOADS_IN_ORDER();
            vec ar = vec_splat(half[r / TILE_M][r % TILE_M * row]);
            SIMD_UNROLL
            for (size_t j = 0; j < v; j++) sum[r][j] = vec_mul_add(ar, bk[j], sum[r][j]);
        }
        half[0] += column;
        half[1] += column;
    }

    // sum += start
    SIMD_HIDE(s);
    if (s->start) {
        const real *start = s->start + i * s->start_row;
        size_t start_row = s->start_row;
        SIMD_UNROLL
        for (size_t r = 0; r < m; r++) {
            SIMD_UNROLL
            for (size_t j = 0; j < v; j++)
                sum[r][j] += load(start + r * start_row, j, v, cut, last);
        }
    }

    // c = sum
    SIMD_HIDE(s);
    c = s->c + i * s->c_row;
    c_row = s->c_row;
    SIMD_UNROLL
    for (size_t r = 0; r < m; r++) {
        SIMD_UNROLL
        for (size_t j = 0; j < v; j++) store(c + r * c_row, sum[r][j], j, v, cut, last);
    }
}

/* The tile of m rows by LANES / 2 columns, such as those of a head of 8 channels: some processors
   compute a vector of 64 bytes in two halves, and this in half the time. */
#if defined(__AVX512F__) && defined(__FMA__)
enum { HALF_TILES = true };
typedef real half __attribute__((vector_size(SIMD_BYTES / 2)));
typedef real half_unaligned
    __attribute__((vector_size(SIMD_BYTES / 2), aligned(sizeof(real)), may_alias));

SIMD_INLINE half half_mul_add(real a, half b, half c) {
    if (sizeof(real) == sizeof(float))
        return (half)_mm256_fmadd_ps(_mm256_set1_ps((float)a), (__m256)b, (__m256)c);
    return (half)_mm256_fmadd_pd(_mm256_set1_pd((double)a), (__m256d)b, (__m256d)c);
}

SIMD_INLINE void half_tile(const size_t m, size_t i, const struct strip *s) {
    half sum[TALL_M] = {0};
    const real *a = s->a.data + i * s->a.row_stride, *b = s->b.data;
    size_t row = s->a.row_stride, column = s->a.column_stride, b_row = s->b.row_stride;
    for (size_t k = s->K; k > 0; k--, a += column, b += b_row) {
        SIMD_UNROLL
        for (size_t r = 0; r < m; r++)
            sum[r] = half_mul_add(a[r * row], *(const half_unaligned *)b, sum[r]);
    }
    SIMD_UNROLL
    for (size_t r = 0; r < m; r++) {
        if (s->start) sum[r] += *(const half_unaligned *)(s->start + (i + r) * s->start_row);
        *(half_unaligned *)(s->c + (i + r) * s->c_row) = sum[r];
    }
}
#else
enum { HALF_TILES = false };
SIMD_INLINE void half_tile(const size_t m, size_t i, const struct strip *s) {}
#endif

/* Tiles of m rows from row i to row M, while m rows are left. Returns the first row not done. */
SIMD_INLINE size_t tiles(const size_t m, const size_t v, const bool cut, const bool ahead, size_t i,
                         size_t M, const struct strip *s) {
    for (; i + m <= M; i += m)
        if (v == 0)
            half_tile(m, i, s);
        else
            tile(m, v, cut, ahead, i, s);
    return i;
}

/* All M rows of a strip that is v vectors wide. Instead of a low last tile, which has too few sums
   to keep the multipliers busy, several tiles are one row lower than TILE_M, if M allows it:
   32 = 2 x 6 + 4 x 5, not 5 x 6 + 2. One vector wide, 8 rows are just enough sums, so tiles of 8
   come before lower ones: 32 = 2 x 12 + 8, not 2 x 12 + 6 + 2. */
SIMD_INLINE void strip(const size_t v, const bool cut, const bool ahead, size_t M,
                       const struct strip *s) {
    size_t i = v <= 1 ? tiles(TALL_M, v, cut, ahead, 0, M, s) : 0;
    if (v == 1 && TILE_M < 8) i = tiles(8, v, cut, ahead, i, M, s);
    size_t count = (M - i + TILE_M - 1) / TILE_M, lower = count * TILE_M - (M - i);
    i = tiles(TILE_M, v, cut, ahead, i, lower <= count ? M - lower * (TILE_M - 1) : M, s);
    i = tiles(TILE_M - 1, v, cut, ahead, i, M, s);
    i = tiles(4, v, cut, ahead, i, M, s);
    i = tiles(2, v, cut, ahead, i, M, s);
    tiles(1, v, cut, ahead, i, M, s);
}

/* One function for each width, with a whole or a cut last vector. If all widths were inlined into
   one function, the compiler would prepare for all of them in each call, which costs about as much
   as a small product. */
#define STRIP(name, v, cut, ahead)                                                                 \
    static __attribute__((noinline)) void name(size_t M, const struct strip *s) {                  \
        strip(v, cut, ahead, M, s);                                                                \
    }
STRIP(strip_half, 0, false, false)
STRIP(strip_1, 1, false, false)
STRIP(strip_1_cut, 1, true, false)
STRIP(strip_2, 2, false, false)
STRIP(strip_2_cut, 2, true, false)
STRIP(strip_widest, TILE_V, false, false)
STRIP(strip_widest_cut, TILE_V, true, false)
STRIP(strip_ahead, TILE_V, false, true)

typedef void strip_function(size_t M, const struct strip *s);
static strip_function *const strips[][2] = {
    {strip_1, strip_1_cut}, {strip_2, strip_2_cut}, {strip_widest, strip_widest_cut}};

void matmul(size_t M, size_t N, size_t K, struct matrix a, struct matrix b, struct matrix c,
            struct matrix start) {
    for (size_t i = 0; i < M; i += BLOCK_M)
        for (size_t k = 0; k == 0 || k < K; k += BLOCK_K) { // once if K = 0: C = S
            size_t m = size_min(M - i, BLOCK_M);
            struct matrix from = k == 0 ? start : c;
            for (size_t j = 0, v; j < N; j += v * LANES) {
                size_t vectors = (N - j + LANES - 1) / LANES;
                v = size_min(vectors, TILE_V);
                struct strip s = {
                    .K = size_min(K - k, BLOCK_K),
                    .last = N - j - (v - 1) * LANES,
                    .a = {a.data + i * a.row_stride + k * a.column_stride, a.row_stride,
                          a.column_stride},
                    .b = matrix_of(b.data + j * b.column_stride + k * b.row_stride, b.row_stride),
                    .start = from.data ? from.data + i * from.row_stride + j : NULL,
                    .start_row = from.row_stride,
                    .c = c.data + i * c.row_stride + j,
                    .c_row = c.row_stride,
                };
                if (K <= FETCH_K || b.row_stride != PANEL || N - j < 2 * PANEL) {
                    if (HALF_TILES && v == 1 && s.last == LANES / 2) {
                        strip_half(m, &s);
                        continue;
                    }
                    strips[v - 1][s.last < (size_t)LANES](m, &s);
                    continue;
                }
                s.next = s.b.data + PANEL * b.column_stride;
                s.next_step = (PANEL * TILE_M + m - 1) / m; // m / TILE_M tiles
                strip_ahead(m, &s);
            }
        }
}

#ifdef SIMD_SHUFFLES
/* to (columns,LANES) = the transpose of from (LANES,columns), for a constant number of columns, in
   registers. An element's place is given by the bits of its row and column. Each pass interleaves
   the first half of the vectors with the second, which moves one bit from the column to the row;
   log2(LANES) passes exchange them all. The compiler leaves out what only absent columns need. */
SIMD_INLINE void transpose_block(const size_t columns, real *to, size_t to_row, const real *from,
                                 size_t from_row) {
    vec a[LANES], b[LANES];
    SIMD_UNROLL
    for (size_t i = 0; i < LANES; i++)
        a[i] = columns == LANES ? vec_load(from + i * from_row)
                                : vec_load_first(from + i * from_row, columns);
    SIMD_UNROLL
    for (int pass = 1; pass < LANES; pass *= 2) {
        SIMD_UNROLL
        for (int i = 0; i < LANES / 2; i++) {
            b[2 * i] = vec_interleave(a[i], a[i + LANES / 2], 0);
            b[2 * i + 1] = vec_interleave(a[i], a[i + LANES / 2], 1);
        }
        SIMD_UNROLL
        for (int i = 0; i < LANES; i++) a[i] = b[i];
    }
    SIMD_UNROLL
    for (size_t i = 0; i < columns; i++) vec_store(to + i * to_row, a[i]);
}

/* Transposes the first columns of LANES rows. Returns their number. */
static size_t transpose_some(size_t columns, real *to, size_t to_row, const real *from,
                             size_t from_row) {
    if (columns >= LANES) {
        transpose_block(LANES, to, to_row, from, from_row);
        return LANES;
    }
    if (columns < LANES / 2) return 0;
    transpose_block(LANES / 2, to, to_row, from, from_row);
    return LANES / 2;
}
#else
static size_t transpose_some(size_t columns, real *to, size_t to_row, const real *from,
                             size_t from_row) {
    return 0;
}
#endif

void matmul_transpose(size_t rows, size_t columns, real *to, size_t to_row, const real *from,
                      size_t from_row) {
    for (size_t i = 0, count; i < rows; i += count) {
        size_t j = 0, some = 1;
        count = size_min(rows - i, LANES);
        for (; count == LANES && some; j += some)
            some = transpose_some(columns - j, to + j * to_row + i, to_row, from + i * from_row + j,
                                  from_row);
        for (; j < columns; j++)
            for (size_t y = i; y < i + count; y++) to[j * to_row + y] = from[y * from_row + j];
    }
}

/* The part of one panel, with n of its `width` columns. Both are constants where n = width. */
SIMD_INLINE void pack_panel(size_t rows, const size_t n, real *to, const size_t width,
                            struct matrix from) {
    const size_t full = n / LANES * LANES;
    for (size_t k = 0; k < rows; k++, to += width, from.data += from.row_stride) {
        for (size_t j = 0; j < full; j += LANES) vec_store(to + j, vec_load(from.data + j));
        if (full < n)
            vec_store_first(to + full, vec_load_first(from.data + full, n - full), n - full);
    }
}

void matmul_pack(size_t rows, size_t columns, real *to, size_t K, size_t width,
                 struct matrix from) {
    for (size_t j = 0; j < columns; j += width, to += width * K, from.data += width) {
        if (columns - j < width)
            pack_panel(rows, columns - j, to, width, from);
        else if (width == PANEL)
            pack_panel(rows, PANEL, to, PANEL, from);
        else
            pack_panel(rows, PANEL_A, to, PANEL_A, from);
    }
}
