/* The fast matrix product against its definition: every awkward size, NaN where it must not read or
   leave anything, and guard zones around what it may write. */
#include "../data/random.h"
#include "../model/matmul.h"
#include "../model/simd.h"
#include "support.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>

enum { GUARD = 70 };

/* C (M,N) inside a larger array, rows N + 3 apart, NaN all around. */
static real *guarded(size_t M, size_t N, const real *inner) {
    size_t size = M * (N + 3) + 2 * GUARD;
    real *c = malloc(size * sizeof(real));
    for (size_t i = 0; i < size; i++) c[i] = NAN;
    for (size_t i = 0; i < M; i++)
        for (size_t j = 0; inner && j < N; j++) c[GUARD + i * (N + 3) + j] = inner[i * N + j];
    return c;
}

static void check(size_t M, size_t N, size_t K, int a_transposed, int b_transposed,
                  enum matmul_start start, int packed) {
    real *a = random_reals(M * K, 1), *b = random_reals(K * N, 2), *bias = random_reals(N, 3);
    real *old = random_reals(M * N, 4), *want = random_reals(M * N, 4);
    real *c = guarded(M, N, start == MATMUL_ADD ? old : NULL);
    size_t space = packed ? matmul_packed_size(K, N) : matmul_workspace(K, N);
    real *workspace = malloc((space + 1) * sizeof(real));
    for (size_t i = 0; i <= space; i++) workspace[i] = NAN;
    struct matrix left = a_transposed ? transposed(rows(a, M)) : rows(a, K);
    struct matrix right = b_transposed ? transposed(rows(b, K)) : rows(b, N);
    matmul_reference(M, N, K, left, right, rows(want, N), start, bias);
    if (packed) {
        matmul_pack(K, N, right, workspace);
        matmul_packed(M, N, K, left, workspace, K, rows(c + GUARD, N + 3), start);
    } else {
        matmul(M, N, K, left, right, rows(c + GUARD, N + 3), start, bias, workspace);
    }
    double worst = 0, tolerance = (in_double() ? 1e-15 : 5e-7) * (sqrt((double)K) + 1) * 4;
    for (size_t i = 0; i < M * (N + 3) + 2 * GUARD; i++) {
        bool inside = i >= GUARD && i - GUARD < M * (N + 3) && (i - GUARD) % (N + 3) < N;
        if (!inside) {
            cr_assert(isnan(c[i]), "(%zu,%zu,%zu): wrote outside of C", M, N, K);
            continue;
        }
        size_t at = (i - GUARD) / (N + 3) * N + (i - GUARD) % (N + 3);
        double apart = fabs((double)c[i] - (double)want[at]);
        if (!(apart <= worst)) worst = apart;
    }
    cr_assert(worst <= tolerance, "(%zu,%zu,%zu) %d%d start %d: off by %g", M, N, K, a_transposed,
              b_transposed, start, worst);
    cr_assert(isnan(workspace[space]), "(%zu,%zu,%zu): wrote behind the workspace", M, N, K);
    free(a);
    free(b);
    free(bias);
    free(old);
    free(want);
    free(c);
    free(workspace);
}

static const size_t sizes[] = {1,         2,     3,         5,         7,  8, 13,
                               LANES - 1, LANES, LANES + 1, 3 * LANES, 53, 67};

Test(matmul, equals_its_definition_at_odd_sizes) {
    enum { COUNT = sizeof sizes / sizeof *sizes };
    for (size_t i = 0; i < COUNT; i++)
        for (size_t j = 0; j < COUNT; j++)
            for (size_t k = 0; k < COUNT; k += 2)
                for (int way = 0; way < 4; way++)
                    for (int start = MATMUL_ZERO; start <= MATMUL_BIAS; start++)
                        if (sizes[i] && sizes[j] && sizes[k])
                            check(sizes[i], sizes[j], sizes[k], way & 1, way >> 1, start, 0);
}

Test(matmul, equals_its_definition_over_several_blocks) {
    for (int way = 0; way < 4; way++)
        for (int start = MATMUL_ZERO; start <= MATMUL_BIAS; start++)
            check(131, 101, 613, way & 1, way >> 1, start, 0);
}

Test(matmul, packed_equals_its_definition) {
    enum { COUNT = sizeof sizes / sizeof *sizes };
    for (size_t i = 0; i < COUNT; i++)
        for (size_t j = 0; j < COUNT; j++)
            for (int way = 0; way < 4; way++)
                for (int start = MATMUL_ZERO; start <= MATMUL_ADD; start++)
                    check(sizes[i], sizes[j], sizes[COUNT - 1 - j], way & 1, way >> 1, start, 1);
}

Test(matmul, packed_uses_the_first_rows_and_columns) {
    enum { K = 9, N = 61, M = 5, FEW_K = 4, FEW_N = 50 };
    real *a = random_reals(M * K, 1), *b = random_reals(K * N, 2);
    real *packed = malloc(matmul_packed_size(K, N) * sizeof(real));
    real got[M * FEW_N], want[M * FEW_N];
    matmul_pack(K, N, rows(b, N), packed);
    matmul_packed(M, FEW_N, FEW_K, rows(a, K), packed, K, rows(got, FEW_N), MATMUL_ZERO);
    matmul_reference(M, FEW_N, FEW_K, rows(a, K), rows(b, N), rows(want, FEW_N), MATMUL_ZERO, NULL);
    expect_close("few of many", M * FEW_N, got, want, in_double() ? 1e-14 : 1e-6);
    free(a);
    free(b);
    free(packed);
}

Test(matmul, nan_is_not_swallowed) {
    enum { M = 9, N = 50, K = 20 };
    real *a = random_reals(M * K, 1), *b = random_reals(K * N, 2), c[M * N];
    real *workspace = malloc(matmul_workspace(K, N) * sizeof(real));
    a[4 * K + 7] = NAN;
    matmul(M, N, K, rows(a, K), rows(b, N), rows(c, N), MATMUL_ZERO, NULL, workspace);
    for (size_t i = 0; i < M; i++)
        for (size_t j = 0; j < N; j++) cr_assert_eq(isnan(c[i * N + j]) != 0, i == 4);
    free(a);
    free(b);
    free(workspace);
}

Test(matmul, same_bits_for_any_number_of_threads) {
    enum { M = 200, N = 131, K = 601 };
    real *a = random_reals(M * K, 1), *b = random_reals(K * N, 2), *bias = random_reals(N, 3);
    real *one = random_reals(M * N, 4), *many = random_reals(M * N, 5);
    real *workspace = malloc(matmul_workspace(K, N) * sizeof(real));
    omp_set_num_threads(1);
    matmul(M, N, K, rows(a, K), rows(b, N), rows(one, N), MATMUL_BIAS, bias, workspace);
    for (int threads = 2; threads <= 8; threads++) {
        omp_set_num_threads(threads);
        matmul(M, N, K, rows(a, K), rows(b, N), rows(many, N), MATMUL_BIAS, bias, workspace);
        cr_assert(difference(M * N, one, many) == 0, "%d threads", threads);
    }
    free(a);
    free(b);
    free(bias);
    free(one);
    free(many);
    free(workspace);
}
