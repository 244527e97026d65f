/* ScaleNorm: each token is scaled to one length, the same for all.

     y = g x / max(||x||, eps)       ||x|| = sqrt(sum_c x^2), g one learned number

   Backward. With u = x / ||x||, the part of dy along u changes no y:
     dx = g / ||x|| (dy - u sum_c(dy u)),  dg += sum over tokens of sum_c(dy u)
   and where ||x|| < eps the length is a constant: dx = g / eps dy, u = x / eps.

   Nguyen and Salazar 2019, equation 5 (arXiv:1910.05895). As in the authors' code g starts at
   sqrt(C), and epsilon is the least length, not a summand inside the root; but for that, and for
   gamma being one number, it is RMSNorm with g = gamma sqrt(C). */
#include "model/math/reduce.h"
#include "model/math/vecmath.h"
#include "model/norm/norm.h"

static double root(const struct norm_options *options, size_t C) {
    (void)options;
    return sqrt((double)C);
}

static size_t saved(const struct norm *norm, size_t B, size_t T) {
    (void)norm;
    return B * T; // 1 / length of each
}

static void forward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                    real *y, const real *x) {
    (void)tokens;
    size_t C = norm->C;
    real g = norm->param[0].value[0], eps = (real)norm->options.eps;
    for (size_t n = rows.begin; n < rows.end; n++, x += C, y += C) {
        real length = sqrt_real(row_dot(C, x, x));
        norm->saved[n] = 1 / (length < eps ? eps : length);
        real factor = g * norm->saved[n];
#pragma omp simd
        for (size_t c = 0; c < C; c++) y[c] = x[c] * factor;
    }
}

static void backward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                     real *dx, const real *dy, const real *x, real *const *sum) {
    (void)tokens;
    size_t C = norm->C;
    real g = norm->param[0].value[0], eps = (real)norm->options.eps;
    for (size_t n = rows.begin; n < rows.end; n++, x += C, dy += C, dx += C) {
        real inverse = norm->saved[n], along = row_dot(C, dy, x) * inverse;
        real moved = inverse < 1 / eps ? along * inverse : 0;
        sum[0][0] += along;
#pragma omp simd
        for (size_t c = 0; c < C; c++) dx[c] = g * inverse * (dy[c] - x[c] * moved);
    }
}

const struct norm_kind norm_scale = {
    .name = "scale",
    .full_name = "scalenorm",
    .formula = "y = g x / max(||x||, eps), g one learned number, sqrt(C) at first",
    .source = "Nguyen and Salazar 2019, ScaleNorm (arXiv:1910.05895)",
    .options = "norm-eps",
    .param = {{"scale", .scalar = true, .start_of = root}},
    .saved = saved,
    .forward = forward,
    .backward = backward,
};
