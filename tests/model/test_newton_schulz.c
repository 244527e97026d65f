/* Newton-Schulz iterations against their definition in double, at awkward sizes, with NaN in the
   scratch memory and guard zones around it. */
#include "model/optimizer/newton_schulz.h"
#include "tests/support.h"
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64 };

static const size_t shapes[][2] = {{1, 1},   {1, 9},   {9, 1},   {7, 5},    {5, 7},
                                   {31, 33}, {32, 32}, {33, 97}, {100, 49}, {67, 67}};

/* to (rows,columns) = x p(x^T x) by the definition, steps times, from x / |x|. */
static double *definition(size_t rows, size_t columns, const real *x, int steps) {
    const double a = 3.4445, b = -4.7750, c = 2.0315;
    size_t size = rows * columns;
    double *y = malloc(size * sizeof *y), *q = malloc(size * sizeof *q),
           *r = malloc(size * sizeof *r), squares = 0;
    for (size_t i = 0; i < size; i++) squares += (double)x[i] * (double)x[i];
    for (size_t i = 0; i < size; i++) y[i] = (double)x[i] / (sqrt(squares) + 1e-7);
    for (int step = 0; step < steps; step++) {
        for (int power = 0; power < 2; power++) { // q = y y^T y, r = y y^T q
            const double *from = power ? q : y;
            double *to = power ? r : q;
            memset(to, 0, size * sizeof *to);
            for (size_t i = 0; i < rows; i++)
                for (size_t k = 0; k < rows; k++) {
                    double dot = 0;
                    for (size_t j = 0; j < columns; j++)
                        dot += y[i * columns + j] * y[k * columns + j];
                    for (size_t j = 0; j < columns; j++)
                        to[i * columns + j] += dot * from[k * columns + j];
                }
        }
        for (size_t i = 0; i < size; i++) y[i] = a * y[i] + b * q[i] + c * r[i];
    }
    free(q);
    free(r);
    return y;
}

/* Runs it with memory of exactly the size that it asks for. */
static real *orthogonalized(size_t rows, size_t columns, const real *x, int64_t steps) {
    size_t size = rows * columns, scratch = newton_schulz_scratch(rows, columns);
    real *memory = malloc((scratch + 2 * GUARD) * sizeof(real)),
         *copy = malloc(size * sizeof(real));
    for (size_t i = 0; i < scratch + 2 * GUARD; i++) memory[i] = NAN;
    memcpy(copy, x, size * sizeof(real));
    const real *result = newton_schulz(rows, columns, copy, steps, memory + GUARD);
    for (size_t i = 0; i < GUARD; i++)
        cr_assert(isnan(memory[i]) && isnan(memory[GUARD + scratch + i]), "wrote outside");
    real *kept = malloc(size * sizeof(real));
    memcpy(kept, result, size * sizeof(real));
    free(memory);
    free(copy);
    return kept;
}

Test(newton_schulz, agrees_with_its_definition) {
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int steps = 1; steps <= 6; steps++) {
            size_t rows = shapes[s][0], columns = shapes[s][1], size = rows * columns;
            real *x = random_reals(size, s + 1), *got = orthogonalized(rows, columns, x, steps);
            double *want = definition(rows, columns, x, steps), error = 0;
            for (size_t i = 0; i < size; i++) error = worse(error, fabs((double)got[i] - want[i]));
            cr_expect(error <= (in_double() ? 1e-12 : 2e-5), "(%zu,%zu), %d steps: %g", rows,
                      columns, steps, error);
            free(x);
            free(got);
            free(want);
        }
}

/* Rows of the result are nearly orthogonal and of length near 1: for a wide random matrix, whose
   singular values are alike. */
Test(newton_schulz, orthogonalizes) {
    enum { HEIGHT = 24, COLUMNS = 400 };
    real *x = random_reals(HEIGHT * COLUMNS, 1), *y = orthogonalized(HEIGHT, COLUMNS, x, 5);
    for (size_t i = 0; i < HEIGHT; i++)
        for (size_t k = 0; k <= i; k++) {
            double product = dot(COLUMNS, y + i * COLUMNS, y + k * COLUMNS);
            cr_expect(i == k ? product > 0.4 && product < 1.5 : fabs(product) < 0.3,
                      "rows %zu and %zu: %g", i, k, product);
        }
    free(x);
    free(y);
}

Test(newton_schulz, ignores_scale_and_keeps_zeros) {
    enum { SIZE = 12 * 20 };
    real *x = random_reals(SIZE, 1), *small = random_reals(SIZE, 1),
         *zeros = calloc(SIZE, sizeof(real));
    for (size_t i = 0; i < SIZE; i++) small[i] *= (real)0.0625;
    real *of_x = orthogonalized(12, 20, x, 5), *of_small = orthogonalized(12, 20, small, 5),
         *of_zeros = orthogonalized(12, 20, zeros, 5);
    cr_expect(difference(SIZE, of_x, of_small) < 2e-6);
    cr_expect(difference(SIZE, of_zeros, zeros) == 0);
    real *all[] = {x, small, zeros, of_x, of_small, of_zeros};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}
