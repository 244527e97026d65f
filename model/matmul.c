/* Matrix products: C (M,N) = start + A (M,K) B (K,N).

   The three products of a linear layer y = x W^T + b, W (OC,IC), are this one with other strides:
     forward          y  (N,OC)  = b + x (N,IC) W^T        B transposed
     input gradient   dx (N,IC)  = dy (N,OC) W
     weight gradient  dW (OC,IC) += dy^T (OC,N) x (N,IC)   A transposed, the sum is over tokens

   The fast form (after Goto and van de Geijn 2008, and BLIS, Van Zee and van de Geijn 2015): B is
   packed into panels of PANEL columns, each row of a panel contiguous, BLOCK_K rows at a time, so
   that a panel stays in the first-level cache while all of A passes by. The innermost tile keeps
   TILE_M x TILE_V vectors of C in registers and makes one rank-1 update a step: TILE_V vectors of
   B, one element of A at a time for TILE_V multiply-adds. A is read where it lies.

   Work is shared out by tiles of C, so no sum is split between threads. */
#include "matmul.h"
#include "simd.h"
#include <stdbool.h>
#include <string.h>

#if SIMD_REGISTERS >= 32
enum { TILE_M = 8, TILE_V = 3 };
#else
enum { TILE_M = 6, TILE_V = 2 };
#endif

enum {
    BLOCK_M = 8 * TILE_M, // rows of C that are one piece of work
    BLOCK_K = 256,        // rows of B packed at a time
};

#define PANEL ((size_t)(TILE_V * LANES)) // columns of a packed panel

static inline size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static inline size_t panels(size_t N) {
    return (N + PANEL - 1) / PANEL;
}

void matmul_reference(size_t M, size_t N, size_t K, struct matrix a, struct matrix b,
                      struct matrix c, enum matmul_start start, const real *bias) {
    for (size_t i = 0; i < M; i++)
        for (size_t j = 0; j < N; j++) {
            real *out = &c.data[i * c.row + j * c.column];
            real sum = start == MATMUL_ADD ? *out : start == MATMUL_BIAS ? bias[j] : 0;
            for (size_t k = 0; k < K; k++)
                sum += a.data[i * a.row + k * a.column] * b.data[k * b.row + j * b.column];
            *out = sum;
        }
}

/* c (m, v vectors) = first + a (m,K) b (K, v vectors), m and v constants at each call.
   `first` points to the values that the sums start from, `first_row` apart (0: the same for every
   row); b's rows are PANEL apart. */
SIMD_INLINE void tile(const size_t m, const size_t v, size_t K, const real *a, size_t row,
                      size_t column, const real *b, const real *first, size_t first_row, real *c,
                      size_t c_row) {
    vec sum[TILE_M][TILE_V];
#pragma GCC unroll 8
    for (size_t i = 0; i < m; i++)
#pragma GCC unroll 4
        for (size_t j = 0; j < v; j++) sum[i][j] = vec_load(first + i * first_row + j * LANES);

    for (size_t k = 0; k < K; k++, a += column, b += PANEL) {
        vec bk[TILE_V];
#pragma GCC unroll 4
        for (size_t j = 0; j < v; j++) bk[j] = vec_load(b + j * LANES);
#pragma GCC unroll 8
        for (size_t i = 0; i < m; i++) {
            vec ai = vec_splat(a[i * row]);
#pragma GCC unroll 4
            for (size_t j = 0; j < v; j++) sum[i][j] += ai * bk[j];
        }
    }

#pragma GCC unroll 8
    for (size_t i = 0; i < m; i++)
#pragma GCC unroll 4
        for (size_t j = 0; j < v; j++) vec_store(c + i * c_row + j * LANES, sum[i][j]);
}

/* One packed panel's share of a product: c (M, n <= PANEL) = first + a (M,K) b (K,PANEL). */
struct share {
    size_t n, K;
    struct matrix a;
    const real *b;
    const real *first;
    size_t first_row;
    real *c;
    size_t c_row;
};

/* Rows i .. i+m of it, m a constant. A tile writes whole vectors, so columns that do not fill the
   last one go through a buffer. */
SIMD_INLINE void share_rows(const size_t m, size_t i, const struct share *s) {
    const real *a = s->a.data + i * s->a.row, *first = s->first + i * s->first_row;
    real *c = s->c + i * s->c_row;
    size_t first_row = s->first_row, c_row = s->c_row;
    real buffer[TILE_M * TILE_V * LANES] __attribute__((aligned(64)));
    bool whole = s->n % LANES == 0;
    if (!whole) {
        memset(buffer, 0, sizeof buffer);
        for (size_t r = 0; r < m; r++)
            memcpy(buffer + r * PANEL, first + r * first_row, s->n * sizeof(real));
        first = c = buffer;
        first_row = c_row = PANEL;
    }
    size_t row = s->a.row, column = s->a.column;
    switch ((s->n + LANES - 1) / LANES) {
    case 1:
        tile(m, 1, s->K, a, row, column, s->b, first, first_row, c, c_row);
        break;
    case 2:
        tile(m, 2, s->K, a, row, column, s->b, first, first_row, c, c_row);
        break;
    default:
        tile(m, TILE_V, s->K, a, row, column, s->b, first, first_row, c, c_row);
        break;
    }
    if (!whole)
        for (size_t r = 0; r < m; r++)
            memcpy(s->c + (i + r) * s->c_row, buffer + r * PANEL, s->n * sizeof(real));
}

static void share_product(size_t M, struct share s) {
    size_t i = 0;
    for (; i + TILE_M <= M; i += TILE_M) share_rows(TILE_M, i, &s);
    for (; i + 4 <= M; i += 4) share_rows(4, i, &s);
    for (; i + 2 <= M; i += 2) share_rows(2, i, &s);
    for (; i < M; i++) share_rows(1, i, &s);
}

static const real zeros[TILE_V * LANES];

/* Panel p of b (K,N) into packed (K,PANEL), columns beyond N as zeros. */
static void pack_panel(size_t p, size_t K, size_t N, struct matrix b, real *packed) {
    size_t n = least(N - p * PANEL, PANEL);
    const real *from = b.data + p * PANEL * b.column;
    if (b.column == 1)
        for (size_t k = 0; k < K; k++) {
            memcpy(packed + k * PANEL, from + k * b.row, n * sizeof(real));
            memset(packed + k * PANEL + n, 0, (PANEL - n) * sizeof(real));
        }
    else
        for (size_t j = 0; j < PANEL; j++)
            for (size_t k = 0; k < K; k++)
                packed[k * PANEL + j] = j < n ? from[k * b.row + j * b.column] : 0;
}

size_t matmul_packed_size(size_t K, size_t N) {
    return panels(N) * PANEL * K;
}

size_t matmul_workspace(size_t K, size_t N) {
    return matmul_packed_size(least(K, BLOCK_K), N);
}

void matmul(size_t M, size_t N, size_t K, struct matrix a, struct matrix b, struct matrix c,
            enum matmul_start start, const real *bias, real *workspace) {
    size_t blocks = (M + BLOCK_M - 1) / BLOCK_M;
#pragma omp parallel
    for (size_t k = 0; k == 0 || k < K; k += BLOCK_K) {
        size_t depth = least(K - k, BLOCK_K);
        bool add = k > 0 || start == MATMUL_ADD;
#pragma omp for schedule(static)
        for (size_t p = 0; p < panels(N); p++)
            pack_panel(p, depth, N, (struct matrix){b.data + k * b.row, b.row, b.column},
                       workspace + p * PANEL * depth);
#pragma omp for collapse(2) schedule(static)
        for (size_t block = 0; block < blocks; block++)
            for (size_t p = 0; p < panels(N); p++) {
                size_t i = block * BLOCK_M, j = p * PANEL;
                real *out = c.data + i * c.row + j;
                const real *first = add ? out : start == MATMUL_BIAS ? bias + j : zeros;
                struct matrix left = {a.data + i * a.row + k * a.column, a.row, a.column};
                share_product(least(M - i, BLOCK_M),
                              (struct share){least(N - j, PANEL), depth, left,
                                             workspace + p * PANEL * depth, first, add ? c.row : 0,
                                             out, c.row});
            }
    }
}

void matmul_pack(size_t K, size_t N, struct matrix b, real *packed) {
    for (size_t p = 0; p < panels(N); p++) pack_panel(p, K, N, b, packed + p * PANEL * K);
}

void matmul_packed(size_t M, size_t N, size_t K, struct matrix a, const real *packed,
                   size_t packed_K, struct matrix c, enum matmul_start start) {
    bool add = start == MATMUL_ADD;
    for (size_t p = 0; p < panels(N); p++) {
        real *out = c.data + p * PANEL;
        share_product(M, (struct share){least(N - p * PANEL, PANEL), K, a,
                                        packed + p * PANEL * packed_K, add ? out : zeros,
                                        add ? c.row : 0, out, c.row});
    }
}
