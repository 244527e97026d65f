/* Muon: momentum, orthogonalized by Newton-Schulz. For each matrix (rows,columns) of a hidden
   layer, with g the clipped gradient:

     m = momentum m + g
     u = g + momentum m                     Nesterov; without it u = m
     o = U V^T of u = U S V^T               nearly, by Newton-Schulz steps
     w = w - lr decay w - lr 0.2 sqrt(max(rows, columns)) o

   The last factor gives an element of the update a root mean square near that of AdamW's updates,
   so that AdamW's learning rate and weight decay carry over. Queries, keys and values are
   orthogonalized as three matrices, a gated MLP's two halves as two. Embeddings, the head, biases,
   norms and other vectors are AdamW's.

   Newton-Schulz: X = u / |u|, and then in each step, with a, b, c = 3.4445, -4.7750, 2.0315:

     A = X^T X
     P = a I + b A + c A^2
     X = X P

   With X = U S V^T this is U p(S) V^T with p(s) = a s + b s^3 + c s^5, whose repetition moves every
   s in (0, 1] close to 1: to between 0.7 and 1.2, which is as good for training as exactly 1 and
   takes fewer steps. X is kept tall: a wide matrix is transposed, so that A is the smaller of both
   squares.

   The next step's A is (X P)^T (X P) = P A P, so X itself is multiplied only once, after several
   steps, by the product of their P:

     A = X^T X                              once
     P = a I + b A + c A^2,  Q = Q P        in each step; Q = I before
     A = (A P) P                            before each further one
     X = X Q                                once

   All of these but X are polynomials of the first A. So they commute, and their products are
   symmetric: one half is computed, the other is copied. In halves of an n x n product, five steps of
   X (m,n) take 3 m / n + 17, and 15 m / n + 5 if each multiplies X: twice as many where m = 4 n.

   Rounding makes the smallest eigenvalues of A, which are squares of singular values, wrong by 1e-7.
   Like the eigenvalue, this error is multiplied by up to a^2 in each step. After JOINT_STEPS steps
   it is 0.03 at most; then A is computed again from X. A square, for which both counts are 20, is
   multiplied in each step, which keeps two more digits.

   |u| is at least the smallest normal float, so that zeros stay zeros. The authors' code adds 1e-7
   to |u| instead, which makes the update smaller wherever a gradient is not much larger: at the start
   of rezero, whose sub-layers have a factor near 0, the queries would stay nearly as they are.

   Jordan et al. 2024 (kellerjordan.github.io/posts/muon, github.com/KellerJordan/Muon); the factor:
   Liu et al. 2025, Moonlight, section 2.2 (arXiv:2502.16982). */
#include "data/die.h"
#include "model/math/matmul.h"
#include "model/optimizer/optimizer.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum {
    BLOCK_ROWS = 16, // of the symmetric products
    JOINT_STEPS = 5, // steps in which X is multiplied once, unless it is square
};

static const double a = 3.4445, b = -4.7750, c = 2.0315;

static const struct option lr = {
    "muon-lr", OPTION_REAL, .start = "auto", .max = 1000,
    .help = "learning rate of hidden matrices with Muon, after warm-up (auto: --learning-rate). "
            "Other parameters use --learning-rate, and both follow the schedule"};
static const struct option momentum = {"muon-momentum", OPTION_REAL, .start = "0.95",
                                       .max = 0.999999, .help = "momentum of Muon"};
static const struct option nesterov = {"muon-nesterov", OPTION_SWITCH, .start = "on",
                                       .help = "use Nesterov momentum in Muon"};
static const struct option steps = {
    "muon-steps", OPTION_INT, .start = "5",
    .min = 1,     .max = 100, .help = "number of Newton-Schulz steps in an update of Muon"};

static void check(const struct optimizer_rule *rule) {
    if (optimizer_option(rule, &lr).real >= 0 && rule->peak == 0)
        die(STATUS_USAGE,
            "--muon-lr=%g: follows the schedule of --learning-rate, which is 0 (give a "
            "--learning-rate above 0)",
            optimizer_option(rule, &lr).real);
}

static bool takes(const struct tensor *tensor) {
    return tensor->matrix_rows[0] > 0;
}

/* For u, its transpose or the result, and what polynomial() needs; its panels. */
static size_t scratch_size(size_t rows, size_t columns) {
    size_t n = size_min(rows, columns);
    return 2 * rows * columns + 4 * n * n + matrix_panels_size(n, n, PANEL);
}

/* to (n,n) = x^T y for x and y (m,n), if it is symmetric: blocks of rows from the diagonal on, and
   their mirror image. */
static void symmetric_product(size_t m, size_t n, real *to, const real *x, const real *y) {
    for (size_t i = 0; i < n; i += BLOCK_ROWS) {
        size_t rows = size_min(BLOCK_ROWS, n - i), right = i + rows;
        matmul(rows, n - i, m, matrix_transposed(matrix_of(x + i, n)), matrix_of(y + i, n),
               matrix_of(to + i * n + i, n), matrix_zeros());
        matmul_transpose(rows, n - right, to + right * n + i, n, to + i * n + right, n);
    }
}

static void swap(real **x, real **y) {
    real *last = *x;
    *x = *y;
    *y = last;
}

/* Returns Q (n,n) of `count` steps from x (m,n), in scratch for 4 n n reals. */
static const real *polynomial(size_t m, size_t n, const real *x, int64_t count, real *scratch) {
    real *A = scratch, *P = A + n * n, *Q = P + n * n, *next = Q + n * n;
    symmetric_product(m, n, A, x, x);
    for (int64_t step = 1;; step++) {
        symmetric_product(n, n, P, A, A);
        for (size_t i = 0; i < n * n; i++) P[i] = mul_add((real)c, P[i], (real)b * A[i]);
        for (size_t i = 0; i < n; i++) P[i * n + i] += (real)a;
        if (step == 1) memcpy(Q, P, n * n * sizeof *Q);
        if (step > 1) {
            symmetric_product(n, n, next, Q, P);
            swap(&next, &Q);
        }
        if (step == count) return Q;
        symmetric_product(n, n, next, A, P);
        symmetric_product(n, n, A, next, P);
    }
}

/* Returns nearly U V^T of x (rows,columns) = U S V^T: singular values become 0.7 to 1.2 after five
   steps, except for those below 0.002 of the Frobenius norm of x. Zeros stay zeros. The result is
   in x or in `scratch`; x is overwritten. */
static const real *newton_schulz(size_t rows, size_t columns, real *x, int64_t count,
                                 real *scratch) {
    const bool wide = rows < columns;
    size_t m = wide ? columns : rows, n = wide ? rows : columns;
    real *from = x, *to = scratch, *panels = to + m * n,
         *rest = panels + matrix_panels_size(n, n, PANEL);
    double squares = 0;
#pragma omp simd reduction(+ : squares)
    for (size_t i = 0; i < rows * columns; i++) squares += (double)x[i] * (double)x[i];
    const real scale = (real)(1 / fmax(sqrt(squares), FLT_MIN));
    for (size_t i = 0; i < rows * columns; i++) x[i] *= scale;
    if (wide) {
        matmul_transpose(rows, columns, to, n, from, m);
        swap(&from, &to);
    }
    const int64_t most = m > n ? JOINT_STEPS : 1;
    for (int64_t done = 0, joint; done < count; done += joint) {
        joint = count - done < most ? count - done : most;
        matmul_pack(n, n, panels, n, PANEL, matrix_of(polynomial(m, n, from, joint, rest), n));
        matmul(m, n, n, matrix_of(from, n), matrix_panels(panels, n), matrix_of(to, n),
               matrix_zeros());
        swap(&from, &to);
    }
    if (!wide) return from;
    matmul_transpose(m, n, to, m, from, n);
    return to;
}

static void matrix(const struct optimizer_rule *rule, const struct optimizer_span *span,
                   real *scratch) {
    const size_t rows = span->rows, columns = span->columns;
    const double chosen = optimizer_option(rule, &lr).real;
    const double rate = chosen < 0 ? rule->rate : rule->rate * (chosen / rule->peak);
    const real mu = (real)optimizer_option(rule, &momentum).real, clip = rule->clip;
    const bool ahead = optimizer_option(rule, &nesterov).integer;
    real *w = span->w, *m = span->state[0], *u = scratch;
    const real *grad = span->grad;
#pragma omp simd
    for (size_t i = 0; i < span->size; i++) {
        const real g = grad[i] * clip;
        m[i] = mul_add(mu, m[i], g);
        u[i] = ahead ? mul_add(mu, m[i], g) : m[i];
    }

    const real *o = newton_schulz(rows, columns, u, optimizer_option(rule, &steps).integer,
                                  scratch + span->size);

    const real keep = optimizer_keep(rule, span->tensor, rate);
    const real scale = (real)(rate * 0.2 * sqrt(fmax((double)rows, (double)columns)));
#pragma omp simd
    for (size_t i = 0; i < span->size; i++) w[i] = keep * w[i] - scale * o[i];
}

const struct optimizer_kind optimizer_muon = {
    .name = "muon",
    .formula = "m = mu m + g; U S V^T = g + mu m (with --muon-nesterov=off, m), a singular value "
               "decomposition; w -= lr (0.2 sqrt(max(rows, columns)) U V^T + decay w), where "
               "Newton-Schulz steps compute U V^T. Only for hidden matrices: adamw updates all "
               "others",
    .source = "Jordan et al. 2024 (kellerjordan.github.io/posts/muon); Liu et al. 2025 "
              "(arXiv:2502.16982)",
    .options = {&lr, &momentum, &nesterov, &steps},
    .state = {"momentum_buffer"},
    .check = check,
    .takes = takes,
    .matrix = matrix,
    .scratch_size = scratch_size};
