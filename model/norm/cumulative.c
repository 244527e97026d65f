/* Cumulative LayerNorm: LayerNorm (layer.c) over a token and all earlier ones of its sequence.

     mean_t, var_t of the n C numbers of the n valid tokens s <= t
     y = gamma (x - mean_t) / sqrt(var_t + eps) + beta

   past.h has the rest, with one group. A sequence's first token is normalized as by LayerNorm,
   later ones by statistics that change less and less.

   Luo and Mesgarani 2019, Conv-TasNet, cLN (arXiv:1809.07454); the authors' code has the
   eps 1e-8. */
#include "model/norm/past.h"

const struct norm_kind norm_cumulative = {
    .name = "cln",
    .full_name = "cumulativelayernorm",
    .formula = "y = gamma (x - mean) / sqrt(var + eps) + beta, mean and var over all channels of a "
               "token and of the earlier tokens of its sequence",
    .source = "Luo and Mesgarani 2019, Conv-TasNet (arXiv:1809.07454)",
    .options = {[PAST_EPS] = &norm_eps},
    .causal = true,
    .param = {[PAST_GAMMA] = {"weight", .start = 1}, [PAST_BETA] = {"bias", .role = NORM_BETA}},
    .saved_size = past_saved_size,
    .forward = past_forward,
    .backward = past_backward,
    .statistics = past_statistics,
    .gradient_statistics = past_gradient_statistics,
};
