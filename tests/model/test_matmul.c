/* The fast matrix product equals its definition to the bit: at every awkward size, with NaN where
   it must not read and in what it must overwrite, and with guard zones around its output. */
#include "model/math/matmul.h"
#include "model/math/simd.h"
#include "tests/support.h"

enum { GUARD = 70 };

/* What a product starts from: zeros, what C holds, or a bias for each row. */
enum start { ZERO, ADD, BIAS };

static struct matrix start_of(enum start start, struct matrix c, const real *bias) {
    return start == ZERO ? matrix_zeros() : start == ADD ? c : matrix_repeated(bias);
}

/* C (M,N) inside a larger array, rows N + 3 apart, NaN all around. */
static real *guarded(size_t M, size_t N, const real *inner) {
    size_t size = M * (N + 3) + 2 * GUARD;
    real *c = hold(size * sizeof(real));
    for (size_t i = 0; i < size; i++) c[i] = NAN;
    for (size_t i = 0; i < M; i++)
        for (size_t j = 0; inner && j < N; j++) c[GUARD + i * (N + 3) + j] = inner[i * N + j];
    return c;
}

/* The largest difference of the inside from `want` (M,N); fails if anything was written around
   it. */
static double guarded_difference(size_t M, size_t N, const real *c, const real *want) {
    double worst = 0;
    for (size_t i = 0; i < M * (N + 3) + 2 * GUARD; i++) {
        bool inside = i >= GUARD && i - GUARD < M * (N + 3) && (i - GUARD) % (N + 3) < N;
        if (!inside) {
            cr_assert(isnan(c[i]), "(%zu,%zu): wrote outside", M, N);
            continue;
        }
        size_t offset = (i - GUARD) / (N + 3) * N + (i - GUARD) % (N + 3);
        worst = worse(worst, fabs((double)c[i] - (double)want[offset]));
    }
    return worst;
}

/* A random matrix to read. Its memory ends with its last element, so that a sanitizer sees reads
   beyond it; its rows are `row` reals apart, with NaN in between. */
static real *spread(size_t rows, size_t columns, size_t row, uint64_t key) {
    size_t size = rows && columns ? (rows - 1) * row + columns : 0;
    real *inner = random_reals(rows * columns, key), *data = hold(size * sizeof(real));
    for (size_t i = 0; i < size; i++)
        data[i] = i % row < columns ? inner[i / row * columns + i % row] : NAN;
    return data;
}

/* A matrix (rows,columns) in panels, with NaN in the columns after the last. */
static real *panels_of(size_t rows, size_t columns, struct matrix from) {
    size_t size = matrix_panels_size(rows, columns, PANEL);
    real *panels = hold((size + 1) * sizeof(real));
    for (size_t i = 0; i <= size; i++) panels[i] = NAN;
    matmul_pack(rows, columns, panels, rows, PANEL, from);
    cr_assert(isnan(panels[size]), "(%zu,%zu): wrote beyond the panels", rows, columns);
    return panels;
}

/* The same product with B in panels has the same bits. */
static void check_b_in_panels(size_t M, size_t N, size_t K, struct matrix a, struct matrix b,
                              const real *want, struct matrix start) {
    real *panels = panels_of(K, N, b), *c = guarded(M, N, NULL);
    matmul(M, N, K, a, matrix_panels(panels, K), matrix_of(c + GUARD, N + 3), start);
    cr_assert(guarded_difference(M, N, c, want) == 0, "(%zu,%zu,%zu) in panels", M, N, K);
}

static void check(size_t M, size_t N, size_t K, bool a_transposed, enum start start) {
    size_t a_row = (a_transposed ? M : K) + 2, b_row = N + 5;
    real *a = a_transposed ? spread(K, M, a_row, 1) : spread(M, K, a_row, 1);
    real *b = spread(K, N, b_row, 2), *bias = spread(1, N, N + 1, 3);
    real *old = random_reals(M * N, 4), *want = random_reals(M * N, 4);
    real *c = guarded(M, N, start == ADD ? old : NULL);
    struct matrix left =
        a_transposed ? matrix_transposed(matrix_of(a, a_row)) : matrix_of(a, a_row);
    struct matrix right = matrix_of(b, b_row);
    struct matrix plain = matrix_of(want, N), fast = matrix_of(c + GUARD, N + 3);
    matmul_reference(M, N, K, left, right, plain, start_of(start, plain, bias));
    matmul(M, N, K, left, right, fast, start_of(start, fast, bias));
    double worst = guarded_difference(M, N, c, want);
    cr_assert(worst == 0, "(%zu,%zu,%zu) %d start %d: off by %g", M, N, K, a_transposed, start,
              worst);
    check_b_in_panels(M, N, K, left, right, want, start_of(start, matrix_of(old, N), bias));
    let_go();
}

static const size_t sizes[] = {1,         2,     3,         5,         7,  8, 13,
                               LANES - 1, LANES, LANES + 1, 3 * LANES, 53, 67};
enum { COUNT = sizeof sizes / sizeof *sizes };

static void check_ways(size_t M, size_t N, size_t K) {
    for (int way = 0; way < 2; way++)
        for (int start = ZERO; start <= BIAS; start++) check(M, N, K, way, start);
}

Test(matmul, equals_its_definition_at_every_size) {
    for (size_t i = 0; i < COUNT; i++)
        for (size_t j = 0; j < COUNT; j++)
            for (size_t k = 0; k < COUNT; k++)
                if (sizes[i] && sizes[j] && sizes[k]) check_ways(sizes[i], sizes[j], sizes[k]);
    for (size_t width = 4; width <= 36; width += 8) // one row
        for (size_t rest = 0; rest <= 3 * LANES + 1; rest += LANES / 2) {
            check_ways(1, width * LANES + rest, 5);
            check_ways(1, width * LANES + rest, 613);
        }
    check_ways(411, 101, 613); // several blocks
    check_ways(13, 53, 0);     // empty products are their start
    check_ways(1, 13 * LANES, 0);
    check_ways(13, 0, 7);
    check_ways(0, 53, 7);
}

Test(matmul, nan_is_not_swallowed) {
    enum { M = 9, N = 50, K = 20 };
    real *a = random_reals(M * K, 1), *b = random_reals(K * N, 2), c[M * N];
    a[4 * K + 7] = NAN;
    matmul(M, N, K, matrix_of(a, K), matrix_of(b, N), matrix_of(c, N), matrix_zeros());
    for (size_t i = 0; i < M; i++)
        for (size_t j = 0; j < N; j++) cr_assert_eq(isnan(c[i * N + j]) != 0, i == 4);
}

Test(matmul, transpose_at_odd_sizes) {
    for (size_t i = 0; i < COUNT; i++)
        for (size_t j = 0; j < COUNT; j++) {
            size_t rows = sizes[i], columns = sizes[j];
            if (!rows || !columns) continue;
            real *from = spread(rows, columns, columns + 2, 1);
            real *want = hold(rows * columns * sizeof(real));
            real *to = guarded(columns, rows, NULL);
            for (size_t y = 0; y < columns; y++)
                for (size_t x = 0; x < rows; x++) want[y * rows + x] = from[x * (columns + 2) + y];
            matmul_transpose(rows, columns, to + GUARD, rows + 3, from, columns + 2);
            cr_assert(guarded_difference(columns, rows, to, want) == 0, "(%zu,%zu)", rows, columns);
        }
}

Test(matmul, same_bits_from_some_panels_and_some_rows_of_them) {
    enum { M = 21, N = 3 * PANEL + 5, K = 290, FIRST = 7 };
    real *a = random_reals(M * K, 1), *b = random_reals(K * N, 2), *once = random_reals(M * N, 3);
    real *pieces = random_reals(M * N, 4), *panels = panels_of(K, N, matrix_of(b, N));
    matmul(M, N, K - FIRST, matrix_of(a, K), matrix_of(b + FIRST * N, N), matrix_of(once, N),
           matrix_zeros());
    for (size_t j = 0; j < N; j += 2 * PANEL)
        matmul(M, N - j < 2 * PANEL ? N - j : 2 * PANEL, K - FIRST, matrix_of(a, K),
               matrix_panels(panels + j * K + FIRST * PANEL, K), matrix_of(pieces + j, N),
               matrix_zeros());
    cr_assert(difference(M * N, once, pieces) == 0);
}
