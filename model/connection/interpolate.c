/* nGPT's step from x towards f, by lambda.c:

     sum = (1 - lambda) a x + lambda b f,  lambda = scale |p| of C numbers

   Loshchilov et al. 2024, nGPT (arXiv:2410.01131). */
#include "model/connection/lambda.h"
#include <math.h>

/* In nGPT's code the parameters of alpha, here lambda, start at 1 / sqrt(C). */
static double start(size_t layer, size_t L) {
    return 0.05;
}

static double scale(size_t C) {
    return 0.05 * sqrt((double)C);
}

const struct connection_kind connection_interpolate = {
    .name = "interpolate",
    .formula = "a x + lambda (b f - a x), C learned numbers lambda, initially 0.05",
    .source = "Loshchilov et al. 2024, nGPT (arXiv:2410.01131)",
    .options = "lambda-start",
    .functions = &lambda_functions,
    .own = &(const struct lambda_form){.x0 = 1,
                                       .x1 = -1,
                                       .f1 = 1,
                                       .vector = true,
                                       .name = {"attn_alpha", "mlp_alpha"},
                                       .start = start,
                                       .scale = scale},
};
