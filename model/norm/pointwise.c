/* Norms without statistics: a curve squashes each number by itself.

     z = alpha x + s,  y = gamma f(z) + beta       alpha and s are learned numbers

   dyt (Dynamic Tanh): f = tanh, without s. derf (Dynamic erf): f = erf, which is steeper.

   Backward. With h = gamma dy f'(z)
     dx = alpha h
     dalpha += sum over tokens and channels of h x,  ds += sum over tokens and channels of h
     dgamma += sum over tokens of dy f(z),  dbeta += sum over tokens of dy
   where tanh' = 1 - tanh^2 and erf' = 2 / sqrt(pi) exp(-z^2). f(z) is computed again, which is
   cheaper than saving it.

   Zhu et al. 2025 (arXiv:2503.10622) and Chen et al. 2025 (arXiv:2512.10938); names and shapes of
   the tensors as in the authors' code, where the shift is one number too. Their recipes for
   language models also multiply the embedding by a learned number that starts at sqrt(C)
   (--embd-scale=learned). In LLaMA, dyt's alpha starts larger in attention's norms than in others,
   0.8 and 0.2 at 4096 channels, 0.2 and 0.05 at 8192; in GPT-2 derf's starts at 1 everywhere. */
#include "model/math/reduce.h"
#include "model/math/simd.h"
#include "model/math/vecmath.h"
#include "model/norm/kind.h"

struct curve {
    real f, slope; // f(z), f'(z)
};

static inline struct curve tanh_curve(real z) {
    real f = tanh_real(z);
    return (struct curve){f, 1 - f * f};
}

static inline struct curve erf_curve(real z) {
    return (struct curve){erf_real(z), (real)1.12837916709551257390 * exp_nonpositive(-z * z)};
}

/* Parameters are alpha, s if it is learned, gamma, beta. */
static bool is_shifted(const struct norm *norm) {
    return norm->kind->param[1].scalar;
}

/* The compiler makes one copy of forward_by() and backward_by() for each f. */

SIMD_INLINE void forward_by(struct curve (*f)(real z), const struct norm *norm, struct range rows,
                            real *y, const real *x) {
    const bool shifted = is_shifted(norm);
    size_t C = norm->C;
    const real *gamma = norm->param[1 + shifted].value; // (C)
    const real *beta = norm->param[2 + shifted].value;  // (C)
    real alpha = *norm->param[0].value, s = shifted ? *norm->param[1].value : 0;
    for (size_t n = rows.begin; n < rows.end; n++, x += C, y += C)
#pragma omp simd
        for (size_t c = 0; c < C; c++) y[c] = gamma[c] * f(alpha * x[c] + s).f + beta[c];
}

SIMD_INLINE void backward_by(struct curve (*f)(real z), const struct norm *norm, struct range rows,
                             real *dx, const real *dy, const real *x, real *const *sum) {
    const bool shifted = is_shifted(norm);
    size_t C = norm->C;
    const real *gamma = norm->param[1 + shifted].value;         // (C)
    real *dgamma = sum[1 + shifted], *dbeta = sum[2 + shifted]; // (C)
    real alpha = *norm->param[0].value, s = shifted ? *norm->param[1].value : 0;
    for (size_t n = rows.begin; n < rows.end; n++, x += C, dy += C, dx += C) {
#pragma omp simd
        for (size_t c = 0; c < C; c++) {
            struct curve point = f(alpha * x[c] + s);
            dgamma[c] += dy[c] * point.f;
            dbeta[c] += dy[c];
            dx[c] = gamma[c] * dy[c] * point.slope; // h
        }
        *sum[0] += row_dot(C, dx, x);
        if (shifted) *sum[1] += row_sum(C, dx);
#pragma omp simd
        for (size_t c = 0; c < C; c++) dx[c] *= alpha;
    }
}

static void squash_forward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                           real *y, const real *x) {
    if (is_shifted(norm))
        forward_by(erf_curve, norm, rows, y, x);
    else
        forward_by(tanh_curve, norm, rows, y, x);
}

static void squash_backward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                            real *dx, const real *dy, const real *x, real *const *sum) {
    if (is_shifted(norm))
        backward_by(erf_curve, norm, rows, dx, dy, x, sum);
    else
        backward_by(tanh_curve, norm, rows, dx, dy, x, sum);
}

static size_t squash_saturated(const struct norm *norm, const real *x) {
    const bool shifted = is_shifted(norm);
    real alpha = *norm->param[0].value, s = shifted ? *norm->param[1].value : 0;
    size_t count = 0;
    for (size_t c = 0; c < norm->C; c++) {
        real z = alpha * x[c] + s, f = shifted ? erf_real(z) : tanh_real(z);
        count += f > NORM_SATURATED || f < -NORM_SATURATED;
    }
    return count;
}

static const struct option dyt_alpha = {
    "dyt-alpha", OPTION_REAL, .start = "0.5", .max = 1000,
    .help =
        "initial value of alpha in dyt and derf; their authors take 1 for derf in GPT-2, and for "
        "dyt in LLaMA 7B 0.2 with --dyt-alpha-attn=0.8, less in larger models"};

static const struct option dyt_alpha_attn = {
    "dyt-alpha-attn", OPTION_REAL, .start = "auto", .max = 1000,
    .help = "initial value of alpha in the norms of the attention sub-layers (auto: --dyt-alpha)"};

static double start_of_alpha(const struct norm *norm) {
    const double attention = norm_option(norm, &dyt_alpha_attn).real; // negative: auto
    return norm->attention && attention >= 0 ? attention : norm_option(norm, &dyt_alpha).real;
}

const struct norm_kind norm_dyt = {
    .name = "dyt",
    .full_name = "dynamictanh",
    .formula = "y = gamma tanh(alpha x) + beta, alpha one learned number",
    .source = "Zhu et al. 2025, Dynamic Tanh (arXiv:2503.10622)",
    .options = {&dyt_alpha, &dyt_alpha_attn},
    .param = {{"alpha", .scalar = true, .dimensions = 1, .role = NORM_OTHER,
               .start_of = start_of_alpha},
              {"weight", .start = 1},
              {"bias", .role = NORM_BETA}},
    .forward = squash_forward,
    .backward = squash_backward,
    .saturated = squash_saturated,
};

const struct norm_kind norm_derf = {
    .name = "derf",
    .full_name = "dynamicerf",
    .formula = "y = gamma erf(alpha x + s) + beta, alpha and s one learned number each",
    .source = "Chen et al. 2025, Dynamic erf (arXiv:2512.10938)",
    .options = {&dyt_alpha, &dyt_alpha_attn},
    .param = {{"alpha", .scalar = true, .dimensions = 1, .role = NORM_OTHER,
               .start_of = start_of_alpha},
              {"shift", .scalar = true, .dimensions = 1, .role = NORM_OTHER},
              {"weight", .start = 1},
              {"bias", .role = NORM_BETA}},
    .forward = squash_forward,
    .backward = squash_backward,
    .saturated = squash_saturated,
};
