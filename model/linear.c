/* y = x W^T + b. With dy: dx = dy W, dW = dy^T x, db = sum over tokens of dy. */
#include "linear.h"
#include "matmul.h"
#include <stdio.h>

void linear_attach(struct linear *linear, const char *name, size_t in, size_t out, bool bias,
                   double deviation, struct tensor_list *params) {
    char full[sizeof params->tensor->name];
    *linear = (struct linear){.in = in, .out = out};
    snprintf(full, sizeof full, "%s.weight", name);
    linear->weight = tensor_take(params, full, out, in, 0, deviation);
    snprintf(full, sizeof full, "%s.bias", name);
    if (bias) linear->bias = tensor_take(params, full, out, 0, 0, 0);
}

size_t linear_scratch(size_t in, size_t out) {
    size_t forward = matmul_workspace(in, out), gradient = matmul_workspace(out, in);
    size_t weight = matmul_workspace(SIZE_MAX, in);
    size_t most = forward > gradient ? forward : gradient;
    return most > weight ? most : weight;
}

void linear_forward(const struct linear *linear, size_t N, real *y, const real *x, real *scratch) {
    size_t in = linear->in, out = linear->out;
    matmul(N, out, in, rows(x, in), transposed(rows(linear->weight.value, in)), rows(y, out),
           linear->bias.value ? MATMUL_BIAS : MATMUL_ZERO, linear->bias.value, scratch);
}

void linear_backward(const struct linear *linear, size_t N, real *dx, const real *dy, const real *x,
                     real *scratch) {
    size_t in = linear->in, out = linear->out;
    matmul(N, in, out, rows(dy, out), rows(linear->weight.value, in), rows(dx, in), MATMUL_ZERO,
           NULL, scratch);
    matmul(out, in, N, transposed(rows(dy, out)), rows(x, in), rows(linear->weight.grad, in),
           MATMUL_ADD, NULL, scratch);
    if (!linear->bias.grad) return;
    enum { COLUMNS = 32 }; // summed by one thread, over the tokens in order
#pragma omp parallel for
    for (size_t begin = 0; begin < out; begin += COLUMNS) {
        size_t end = begin + COLUMNS < out ? begin + COLUMNS : out;
        for (size_t n = 0; n < N; n++)
#pragma omp simd
            for (size_t c = begin; c < end; c++) linear->bias.grad[c] += dy[n * out + c];
    }
}
