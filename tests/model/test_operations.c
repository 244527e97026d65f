/* Operations that are padded or divided among threads, against their definitions: at every size
   that does not fit, with guard zones around what they may write, and with the same bits for any
   number of threads. */
#include "data/random.h"
#include "model/layer/activation.h"
#include "model/layer/linear.h"
#include "model/math/matmul.h"
#include "model/math/simd.h"
#include "model/model.h"
#include "tests/support.h"
#include <string.h>

enum { THREADS = 16 };

static double tolerance(size_t terms) {
    return (in_double() ? 1e-15 : 5e-7) * (sqrt((double)terms) + 1) * 4;
}

/* `count` reals, each NaN. */
static real *nothing(size_t count) {
    real *x = hold((count + 1) * sizeof(real));
    for (size_t i = 0; i < count; i++) x[i] = NAN;
    return x;
}

/* A layer alone, for N tokens. */
struct lone_linear {
    struct linear linear;
    struct linear_operands kept;
    struct tensor tensors[2];
    struct tensor_lists lists;
    struct arena arena;
};

static void lone_linear_init(struct lone_linear *lone, size_t in, size_t out, size_t N) {
    const size_t capacity = (in + 1) * out + 64;
    *lone = (struct lone_linear){.arena = held_arena(1 << 25)};
    lone->lists.param = (struct tensor_list){.tensor = lone->tensors,
                                             .value = arena_reals(&lone->arena, capacity),
                                             .grad = arena_reals(&lone->arena, capacity)};
    linear_attach(&lone->linear, "layer", in, out, true, 0.3,
                  &(struct layout){1, N, &lone->lists, &lone->arena, 1});
    linear_operands_attach(&lone->kept, in, out, N, &lone->arena);
    tensor_initialize(&lone->lists.param, 1);
    for (size_t i = 0; i < out; i++) lone->linear.bias.value[i] = (real)(0.1 * (double)(i % 5));
}

/* y (N,out), dx (N,in) and both gradients on `threads` threads, as the model computes them.
   Gradients are added to 1. */
static void lone_linear_run(struct lone_linear *lone, int threads, size_t N, real *y, const real *x,
                            real *dx, const real *dy) {
    const struct linear *linear = &lone->linear;
    size_t in = linear->in, out = linear->out;
    const struct parts parts = parts_one(N);
    for (size_t i = 0; i < lone->lists.param.size; i++) lone->lists.param.grad[i] = 1;
#pragma omp parallel num_threads(threads)
    {
        struct range rows = team_part(N, ROWS);
        linear_prepare(linear);
        team_barrier();
        for (size_t n = rows.begin; n < rows.end; n += ROWS) {
            size_t M = team_row_block(n, rows).end - n;
            linear_forward(linear, M, y + n * out, x + n * in);
            linear_backward(linear, n / ROWS, M, dx + n * in, dy + n * out);
            linear_keep(linear, &lone->kept, n, M, dy + n * out, x + n * in);
        }
        team_barrier();
        const bool kept = lone->kept.dy.data;
        linear_weight_gradient(linear, &parts, (struct range){0, N},
                               kept ? lone->kept.dy : matrix_of(dy, out),
                               kept ? lone->kept.x : matrix_of(x, in));
        parts_add_sums(&parts, &linear->bias);
    }
}

/* Panels hold the matrix `want` (rows,columns), and zeros after its last column. */
static void check_panels(const real *panels, size_t rows, size_t columns, struct matrix want) {
    for (size_t k = 0; k < rows; k++)
        for (size_t j = 0; j < matrix_panels_size(1, columns, PANEL); j++) {
            real w = j < columns ? want.data[k * want.row_stride + j * want.column_stride] : 0;
            cr_assert_eq(panels[j / PANEL * PANEL * rows + k * PANEL + j % PANEL], w);
        }
}

static void check_linear(size_t in, size_t out, size_t N) {
    struct lone_linear lone;
    lone_linear_init(&lone, in, out, N);
    const struct linear *linear = &lone.linear;
    real *x = random_reals(N * in, 1), *dy = random_reals(N * out, 2);
    real *y = nothing(N * out), *dx = nothing(N * in), *ones = nothing(N);
    for (size_t n = 0; n < N; n++) ones[n] = 1;
    real *want_y = nothing(N * out), *want_dx = nothing(N * in),
         *grad = nothing(lone.lists.param.size);
    struct matrix W = matrix_of(linear->weight.value, in), dY = matrix_of(dy, out);
    for (size_t i = 0; i < lone.lists.param.size; i++) grad[i] = 1;
    matmul_reference(N, out, in, matrix_of(x, in), matrix_transposed(W), matrix_of(want_y, out),
                     matrix_repeated(linear->bias.value));
    matmul_reference(N, in, out, dY, W, matrix_of(want_dx, in), matrix_zeros());
    real *dW = grad + (linear->weight.grad - lone.lists.param.grad);
    real *db = grad + (linear->bias.grad - lone.lists.param.grad);
    struct matrix want_dW = matrix_of(dW, in), want_db = matrix_of(db, out);
    matmul_reference(out, in, N, matrix_transposed(dY), matrix_of(x, in), want_dW, want_dW);
    matmul_reference(1, out, N, matrix_of(ones, N), dY, want_db, want_db);
    for (int threads = 1; threads <= THREADS; threads++) {
        lone_linear_run(&lone, threads, N, y, x, dx, dy);
        if (threads == 1) {
            cr_expect(difference(N * out, y, want_y) <= tolerance(in), "y of %zu,%zu", in, out);
            cr_expect(difference(N * in, dx, want_dx) <= tolerance(out), "dx of %zu,%zu", in, out);
            cr_expect(difference(lone.lists.param.size, lone.lists.param.grad, grad) <=
                          tolerance(N),
                      "dW, db of %zu,%zu and what lies around them", in, out);
            memcpy(want_y, y, N * out * sizeof(real));
            memcpy(want_dx, dx, N * in * sizeof(real));
            memcpy(grad, lone.lists.param.grad, lone.lists.param.size * sizeof(real));
        }
        cr_expect(difference(N * out, y, want_y) == 0, "y by %d threads", threads);
        cr_expect(difference(N * in, dx, want_dx) == 0, "dx by %d threads", threads);
        cr_expect(difference(lone.lists.param.size, lone.lists.param.grad, grad) == 0,
                  "%zu,%zu by %d threads", in, out, threads);
        check_panels(linear->panels_forward, in, out, matrix_transposed(W));
        if (linear->panels_backward) check_panels(linear->panels_backward, out, in, W);
    }
    cr_assert(lone.arena.used <= lone.arena.bytes);
}

Test(linear, equals_its_definition_with_the_same_bits_by_any_number_of_threads) {
    check_linear(1, 1, 1);
    check_linear(7, 3, 33);    // a tile of dW for eight threads
    check_linear(130, 5, 100); // whose columns keep them busy
    check_linear(70, 29, 70);
    check_linear(67, 131, 300);
    check_linear(200, 17, 64);
    check_linear(323, 290, 300);
    check_linear(810, 830, 300); // with copies in panels
}

/* The loss of V logits z in double; dz gets the gradient, with that of z_loss (log Z)^2 and without
   the factor `scale`. */
static double cross_entropy(size_t V, const real *z, int32_t target, double z_loss, double *dz) {
    double largest = (double)z[0], sum = 0;
    for (size_t v = 1; v < V; v++) // fmax() here crashes GCC 12 for ARM
        if ((double)z[v] > largest) largest = (double)z[v];
    for (size_t v = 0; v < V; v++) sum += exp((double)z[v] - largest);
    const double log_z = log(sum) + largest;
    for (size_t v = 0; v < V; v++)
        dz[v] = exp((double)z[v] - log_z) * (1 + 2 * z_loss * log_z) - (v == (size_t)target);
    return log_z - (double)z[target];
}

static void check_loss(size_t V, real size, double z_loss) {
    enum { N = 6, V_MAX = 128 };
    size_t row = vec_padded(V);
    real *z = random_reals(N * V, V), *logits = nothing(N * row), *dlogits = nothing(N * row + 1);
    real losses[N + 1], alone[N];
    int32_t targets[N];
    double error = in_double() ? 1e-14 : 1e-6, dz[V_MAX];
    for (size_t i = 0; i < N * V; i++) z[i] *= size;
    for (size_t n = 0; n < N; n++) {
        targets[n] = n % 3 == 1 ? -1 : (int32_t)((5 * n + 3) % V);
        memcpy(logits + n * row, z + n * V, V * sizeof(real));
    }
    losses[N] = NAN;
    loss_cross_entropy(&(struct loss){V, (real)0.5, (real)z_loss}, N, losses, dlogits, logits,
                       targets);
    for (size_t n = 0; n < N; n++) {
        const real *got = dlogits + n * row;
        double loss = targets[n] < 0 ? 0 : cross_entropy(V, z + n * V, targets[n], z_loss, dz);
        cr_expect(fabs((double)losses[n] - loss) <= error * fmax(1, (double)size), "V %zu: %g, %g",
                  V, (double)losses[n], loss);
        for (size_t v = 0; v < row; v++) {
            if (targets[n] < 0 || v >= V)
                cr_expect(got[v] == 0, "V %zu: %g at %zu", V, (double)got[v], v);
            else
                cr_expect(fabs((double)got[v] - 0.5 * dz[v]) <=
                              error * fmax(1, (double)size) * (1 + 2 * z_loss * (double)size),
                          "V %zu: %g, %g", V, (double)got[v], 0.5 * dz[v]);
        }
        memcpy(logits + n * row, z + n * V, V * sizeof(real));
    }
    loss_cross_entropy(&(struct loss){.V = V, .scale = 0}, N, alone, NULL, logits, targets);
    cr_expect(difference(N, losses, alone) == 0, "the gradient changes the loss");
    cr_expect(isnan(losses[N]) && isnan(dlogits[N * row]));
}

Test(loss, equals_its_definition_and_pads_are_nothing) {
    const size_t V[] = {1, 2, 7, LANES - 1, LANES, LANES + 1, 2 * LANES + 3, 65, 127};
    for (size_t i = 0; i < sizeof V / sizeof *V; i++)
        for (real size = 1; V[i] && size < 1000; size *= 30)
            check_loss(V[i], size, 0), check_loss(V[i], size, 0.25);
}

/* Unless the token is a pad. */
Test(loss, nan_is_not_swallowed) {
    enum { V = 21, N = 3 };
    size_t row = vec_padded(V);
    const int32_t targets[N] = {3, 4, -1};
    for (size_t column = 0; column < V; column++) {
        real *logits = random_reals(N * row, 1), *dlogits = nothing(N * row), losses[N];
        logits[row + column] = logits[2 * row + column] = NAN;
        loss_cross_entropy(&(struct loss){.V = V, .scale = 1}, N, losses, dlogits, logits, targets);
        cr_expect(isnan(losses[1]) && isfinite(losses[0]) && losses[2] == 0, "at %zu", column);
        for (size_t i = 2 * row; i < 3 * row; i++) cr_expect(dlogits[i] == 0, "of a pad");
    }
}

Test(activation, backward_makes_forward_s_y_again) {
    for (const struct activation *a = activations; a->name; a++)
        for (size_t count = 1; count <= 70; count++) {
            const size_t inputs = 2 * activation_inputs(a, count), outputs = 2 * count; // two rows
            real *x = random_reals(inputs, count), *dy = random_reals(outputs, 2);
            real *y = nothing(outputs + 1), *again = nothing(outputs + 1);
            real *dx = nothing(inputs + 1);
            for (size_t i = 0; i < inputs; i++) x[i] *= 3;
            activation_forward(a, 2, count, y, x);
            activation_backward(a, 2, count, dx, again, dy, x);
            cr_expect(difference(outputs, y, again) == 0, "%s of %zu", a->name, count);
            cr_expect(isnan(y[outputs]) && isnan(again[outputs]) && isnan(dx[inputs]));
            for (size_t i = 0; i < inputs; i++) cr_expect(isfinite(dx[i]));
            x[0] = (real)NAN; // nothing hides that a run has diverged
            activation_forward(a, 2, count, y, x);
            cr_expect(isnan(y[0]), "%s", a->name);
        }
}

Test(support, a_nan_is_the_worst_error) {
    const real zeros[3] = {0}, some[3] = {1, (real)NAN, 2};
    cr_expect(worse(1, 2) == 2 && worse(2, 1) == 2);
    cr_expect(isnan(worse(1, NAN)) && isnan(worse(NAN, 1)));
    cr_expect(isnan(difference(3, some, zeros)));
}
