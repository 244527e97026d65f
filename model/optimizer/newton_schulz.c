/* X = X / |X|, and then in each step, with a, b, c = 3.4445, -4.7750, 2.0315:

     A = X^T X
     X = X (a I + b A + c A^2)

   With X = U S V^T this is U p(S) V^T with p(s) = a s + b s^3 + c s^5, whose repetition moves every
   s in (0, 1] close to 1: to between 0.7 and 1.2, which is as good for training as exactly 1 and
   takes fewer steps. X is kept tall: a wide matrix is transposed, so that A is the smaller of both
   squares. The products A and A^2 are symmetric: one half is computed, the other is copied.

   Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"
   (kellerjordan.github.io/posts/muon). */
#include "model/optimizer/newton_schulz.h"
#include "model/math/matmul.h"
#include "model/math/reduce.h"
#include <math.h>
#include <stdbool.h>

enum { GRAM_ROWS = 32 }; // rows of a block of the symmetric products

static const double a = 3.4445, b = -4.7750, c = 2.0315;

size_t newton_schulz_scratch(size_t rows, size_t columns) {
    size_t n = size_min(rows, columns);
    return rows * columns + 2 * n * n + matrix_panels_size(n, n, PANEL);
}

/* to (n,n) = x^T x for x (m,n): blocks of rows from the diagonal on, and their mirror image. */
static void gram(size_t m, size_t n, real *to, const real *x) {
    for (size_t i = 0; i < n; i += GRAM_ROWS) {
        size_t rows = size_min(GRAM_ROWS, n - i), right = i + rows;
        struct matrix columns = matrix_of(x + i, n);
        matmul(rows, n - i, m, matrix_transposed(columns), columns, matrix_of(to + i * n + i, n),
               matrix_zeros());
        matmul_transpose(rows, n - right, to + right * n + i, n, to + i * n + right, n);
    }
}

/* to (m,n) = one step from x (m,n), with scratch for the matrices A, A^2 and the polynomial's
   panels. */
static void step(size_t m, size_t n, real *to, const real *x, real *scratch) {
    real *A = scratch, *AA = A + n * n, *panels = AA + n * n;
    gram(m, n, A, x);
    gram(n, n, AA, A);
    for (size_t i = 0; i < n * n; i++) AA[i] = mul_add((real)c, AA[i], (real)b * A[i]);
    for (size_t i = 0; i < n; i++) AA[i * n + i] += (real)a;
    matmul_pack(n, n, panels, n, PANEL, matrix_of(AA, n));
    matmul(m, n, n, matrix_of(x, n), matrix_panels(panels, n), matrix_of(to, n), matrix_zeros());
}

const real *newton_schulz(size_t rows, size_t columns, real *x, int64_t steps, real *scratch) {
    const bool wide = rows < columns;
    size_t m = wide ? columns : rows, n = wide ? rows : columns;
    real *from = x, *to = scratch, *rest = scratch + m * n;
    double squares = 0;
    for (size_t i = 0; i < rows; i++)
        squares += (double)row_dot(columns, x + i * columns, x + i * columns);
    const real scale = (real)(1 / (sqrt(squares) + 1e-7)); // as in the authors' code
    for (size_t i = 0; i < rows * columns; i++) x[i] *= scale;
    if (wide) {
        matmul_transpose(rows, columns, to, n, from, m);
        from = scratch, to = x;
    }
    for (int64_t i = 0; i < steps; i++) {
        step(m, n, to, from, rest);
        real *last = from;
        from = to, to = last;
    }
    if (!wide) return from;
    matmul_transpose(m, n, to, m, from, n);
    return to;
}
