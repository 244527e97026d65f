/* y_c = g_c x_c,  g = scale p                  x, y (N,C), p (C)

   Backward: dx = g dy
             dp = scale sum over the tokens of dy x

   With several groups x is (N,groups,C), and the sum is over the groups too.

   Loshchilov et al. 2024, nGPT (arXiv:2410.01131), on why p is learned instead of g:
   Adam's steps are as large as the learning rate, whatever the size of a parameter. */
#include "model/layer/gain.h"
#include "model/math/profile.h"
#include <string.h>

void gain_attach(struct gain *gain, const char *name, size_t size, size_t groups, double start,
                 double scale, const struct layout *layout) {
    *gain = (struct gain){.size = size, .groups = groups, .scale = (real)scale};
    gain->param = tensor_take(&layout->lists->param, "", name, size, 0, start / scale, 0);
    tensor_sums(&gain->param, layout);
}

void gain_forward(const struct gain *gain, size_t M, real *y, size_t y_row, const real *x,
                  size_t x_row) {
    size_t C = gain->size;
    const real *p = gain->param.value;
    for (size_t n = 0; n < M; n++, x += x_row, y += y_row)
        for (size_t first = 0; first < gain->groups * C; first += C)
#pragma omp simd
            for (size_t c = 0; c < C; c++) y[first + c] = gain->scale * p[c] * x[first + c];
    profile_lap(PROFILE_ELEMENTWISE);
}

void gain_backward(const struct gain *gain, size_t block, size_t M, real *dy, size_t dy_row,
                   const real *x, size_t x_row) {
    size_t C = gain->size;
    const real *p = gain->param.value;
    for (size_t n = 0; n < M; n++, x += x_row, dy += dy_row) {
        real *sum = param_sums(&gain->param, block * ROWS + n);
        if (n % ROWS == 0) memset(sum, 0, C * sizeof(real));
        for (size_t first = 0; first < gain->groups * C; first += C)
#pragma omp simd
            for (size_t c = 0; c < C; c++) {
                real d = gain->scale * dy[first + c];
                sum[c] = mul_add(d, x[first + c], sum[c]);
                dy[first + c] = d * p[c];
            }
    }
    profile_lap(PROFILE_ELEMENTWISE);
}

void gain_forward_kept(const struct gain *gain, struct range rows, real *y, size_t y_row) {
    const size_t width = gain->groups * gain->size, M = rows.end - rows.begin;
    if (!gain_present(gain)) return;
    real *x = gain->x + rows.begin * width;
    for (size_t m = 0; m < M; m++) memcpy(x + m * width, y + m * y_row, width * sizeof(real));
    gain_forward(gain, M, y, y_row, x, width);
}

void gain_backward_kept(const struct gain *gain, struct range rows, real *dy, size_t dy_row) {
    const size_t width = gain->groups * gain->size, M = rows.end - rows.begin;
    if (!gain_present(gain)) return;
    gain_backward(gain, rows.begin / ROWS, M, dy, dy_row, gain->x + rows.begin * width, width);
}
