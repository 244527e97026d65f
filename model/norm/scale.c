/* ScaleNorm and L2 norm: every token is scaled to the same length.

     y = g x / max(||x||, eps)       ||x|| = sqrt(sum_c x^2)

   In ScaleNorm g is one learned number, in the L2 norm it is 1.

   Backward. With u = x / ||x||, y does not depend on the component of x along u:
     dx = g / ||x|| (dy - u sum_c(dy u)),  dg += sum over tokens of sum_c(dy u)
   and where ||x|| < eps the length is a constant: dx = g / eps dy, u = x / eps.

   Nguyen and Salazar 2019, equation 5 (arXiv:1910.05895). As in the authors' code g starts at
   sqrt(C), and epsilon is the minimum length, not a summand inside the root. Except for epsilon,
   and for gamma being one number, this is RMSNorm with g = gamma sqrt(C). The L2 norm makes the dot
   product of a query and a key their cosine: Henry et al. 2020 (arXiv:2010.04245). */
#include "model/math/reduce.h"
#include "model/math/vecmath.h"
#include "model/norm/kind.h"

static double root_of_C(const struct norm *norm) {
    return sqrt((double)norm->C);
}

static real length_of(const struct norm *norm) {
    return norm->kind->param[0].name ? norm->param[0].value[0] : 1;
}

static void scalenorm_forward(const struct norm *norm, const struct tokens *tokens,
                              struct range rows, real *y, const real *x) {
    size_t C = norm->C;
    real g = length_of(norm), eps = (real)norm_option(norm, &norm_eps).real;
    for (size_t n = rows.begin; n < rows.end; n++, x += C, y += C) {
        real length = sqrt_real(row_dot(C, x, x));
        norm->saved[n] = 1 / (length < eps ? eps : length);
        real factor = g * norm->saved[n];
#pragma omp simd
        for (size_t c = 0; c < C; c++) y[c] = x[c] * factor;
    }
}

static void scalenorm_backward(const struct norm *norm, const struct tokens *tokens,
                               struct range rows, real *dx, const real *dy, const real *x,
                               real *const *sum) {
    size_t C = norm->C;
    real g = length_of(norm), eps = (real)norm_option(norm, &norm_eps).real;
    for (size_t n = rows.begin; n < rows.end; n++, x += C, dy += C, dx += C) {
        real inverse = norm->saved[n], along = row_dot(C, dy, x) * inverse;
        real radial = inverse < 1 / eps ? along * inverse : 0; // 0: the length is constant
        if (sum[0]) sum[0][0] += along;
#pragma omp simd
        for (size_t c = 0; c < C; c++) dx[c] = g * inverse * (dy[c] - x[c] * radial);
    }
}

const struct norm_kind norm_scale = {
    .name = "scale",
    .full_name = "scalenorm",
    .formula = "y = g x / max(||x||, eps), g one learned number, initially sqrt(C)",
    .source = "Nguyen and Salazar 2019, ScaleNorm (arXiv:1910.05895)",
    .options = {&norm_eps},
    .param = {{"scale", .scalar = true, .start_of = root_of_C}},
    .saved = 1, // 1 / length
    .forward = scalenorm_forward,
    .backward = scalenorm_backward,
};

const struct norm_kind norm_l2 = {
    .name = "l2",
    .full_name = "l2norm",
    .formula = "y = x / max(||x||, eps)",
    .source = "Henry et al. 2020, QKNorm (arXiv:2010.04245), for queries and keys",
    .options = {&norm_eps},
    .unit = true,
    .saved = 1, // 1 / length
    .forward = scalenorm_forward,
    .backward = scalenorm_backward,
};
