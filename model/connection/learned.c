/* Residual connections with a learned factor of the branch or of the stream, by lambda.c:

     a x + lambda b f          ReZero, SkipInit, LayerScale
     lambda a x + b f          Admin

   Admin's omega, here lambda, gets its initial value from the first batch. Of the sub-layers
   i = 1, 2, ...

     sum_i = omega_i x + F_i,  omega_1 = 1,  omega_{i+1}^2 = Var[omega_i x] + Var[F_i]

   in the order of one forward pass. After a norm x has a variance of 1, so omega_i^2 is the
   variance of the first input plus those of all F before: each F then has the part in the stream
   that it would have without norms. The variances are over all elements of the valid tokens.

   Bachlechner et al. 2020, ReZero (arXiv:2003.04887); De and Smith 2020, SkipInit
   (arXiv:2002.10444); Touvron et al. 2021, CaiT (arXiv:2103.17239); Liu et al. 2020, Admin
   (arXiv:2004.08249), as in the authors' code. */
#include "model/connection/lambda.h"
#include <math.h>

static double zero(size_t layer, size_t L) {
    return 0;
}

static double one(size_t layer, size_t L) {
    return 1;
}

/* The deeper, the smaller (Touvron et al. 2021). */
static double layerscale_start(size_t layer, size_t L) {
    return L <= 18 ? 0.1 : L <= 24 ? 1e-5 : 1e-6;
}

const struct connection_kind connection_rezero = {
    .name = "rezero",
    .formula = "a x + lambda b f, one learned lambda per layer, initially 0",
    .source = "Bachlechner et al. 2020, ReZero (arXiv:2003.04887)",
    .options = "lambda-start",
    .functions = &lambda_functions,
    .own = &(const struct lambda_form){.x0 = 1, .f1 = 1, .name = {"resweight"}, .start = zero},
};

const struct connection_kind connection_skipinit = {
    .name = "skipinit",
    .formula = "a x + lambda b f, one learned lambda per sub-layer, initially 0",
    .source = "De and Smith 2020, SkipInit (arXiv:2002.10444)",
    .options = "lambda-start",
    .functions = &lambda_functions,
    .own =
        &(const struct lambda_form){
            .x0 = 1, .f1 = 1, .name = {"skip_gain_1", "skip_gain_2"}, .start = zero},
};

const struct connection_kind connection_layerscale = {
    .name = "layerscale",
    .formula = "a x + lambda b f, C learned numbers lambda, initially 0.1 (1e-5 above 18 layers, "
               "1e-6 above 24)",
    .source = "Touvron et al. 2021, CaiT (arXiv:2103.17239)",
    .options = "lambda-start",
    .functions = &lambda_functions,
    .own = &(const struct lambda_form){.x0 = 1,
                                       .f1 = 1,
                                       .vector = true,
                                       .name = {"gamma_1", "gamma_2"},
                                       .start = layerscale_start},
};

/* The variance of what `sum` keeps of x, or of what was added to it. */
static double variance_of(const struct connection *c, const struct tokens *tokens, bool added) {
    size_t C = c->C, N = tokens->B * tokens->T, count = 0;
    double sum = 0, squares = 0;
    for (size_t n = 0; n < N; n++) {
        if (!token_counts(tokens, n)) continue;
        count += C;
        for (size_t i = n * C; i < (n + 1) * C; i++) {
            double of_x = connection_kept(c, i);
            double value = added ? (double)c->sum[i] - of_x : of_x;
            sum += value;
            squares += value * value;
        }
    }
    if (!count) return 0;
    double mean = sum / (double)count;
    return squares / (double)count - mean * mean;
}

static void admin_set(struct connection *c, double variance) {
    for (size_t i = 0; i < c->size[0]; i++) c->param[0].value[i] = (real)sqrt(variance);
}

static double admin_next(const struct connection *c, const struct tokens *tokens) {
    return variance_of(c, tokens, false) + variance_of(c, tokens, true);
}

const struct connection_kind connection_admin = {
    .name = "admin",
    .formula = "omega a x + b f, C learned numbers omega; initially omega^2 is 1 in the first "
               "sub-layer, and in later ones the variance of the embedding plus the variances of "
               "all earlier f, in the first batch",
    .source = "Liu et al. 2020, Admin (arXiv:2004.08249)",
    .functions = &lambda_functions,
    .own = &(const struct lambda_form){.x1 = 1,
                                       .f0 = 1,
                                       .vector = true,
                                       .name = {"attention_ratio_change", "fc_ratio_change"},
                                       .start = one},
    .set_initial = admin_set,
    .next_initial = admin_next,
};
