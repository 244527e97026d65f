/* Norms that are nothing but their formula (formula.h): a row has the formula, the options that occur
   in it, and the names of its tensors in files, which are those of the authors' code. */
#include "model/norm/formula.h"

/* The identity has no forward and no backward: norm_forward() and norm_backward() return their input. */
const struct norm_kind norm_none = {
    .name = "none", .full_name = "identity", .formula = "x", .source = "the identity"};

/* ---- curves, which squash each number by itself ----

   dyt and derf: their recipes for language models also multiply the embedding by a learned number
   that starts at sqrt(C) (--embd-scale=learned). In LLaMA, dyt's alpha starts larger in attention's
   norms than in others, 0.8 and 0.2 at 4096 channels, 0.2 and 0.05 at 8192; in GPT-2 derf's starts
   at 1 everywhere.

   bhyt is the authors' BHyT*, with lambda learned as in its configurations. The argument of tanh has
   the root mean square lambda / kappa, initially 0.2, so tanh bounds the few large channels and is
   nearly linear elsewhere. Their BHyT is the same before attention; before the MLP it does not
   measure the mean square of x but estimates it from that before attention, to save time. Before the
   head their recipe has RMSNorm (--norm-final=rms): with BHyT before a tied head the logits would
   initially be too small. */

static const struct option dyt_alpha = {
    "dyt-alpha", NUMBER(OPTION_REAL, "0.5", 0, 1000),
    .help =
        "initial value of alpha in dyt and derf; their authors take 1 for derf in GPT-2, and for "
        "dyt in LLaMA 7B 0.2 with --dyt-alpha-attn=0.8, less in larger models"};

static const struct option dyt_alpha_attn = {
    "dyt-alpha-attn", NUMBER(OPTION_REAL, "auto", 0, 1000),
    .help = "initial value of alpha in the norms of the attention sub-layers (auto: --dyt-alpha)"};

static const struct option bhyt_kappa = {"bhyt-kappa", NUMBER(OPTION_REAL, "10", 1e-3, 1e6),
                                         .help = "constant by which bhyt divides lambda",
                                         .scope = OPTION_OF_MODEL};

static const struct option bhyt_lambda = {
    "bhyt-lambda", NUMBER(OPTION_REAL, "2", 0, 1000),
    .help = "initial value of lambda in bhyt, which its authors combine with --norm-final=rms"};

const struct norm_kind norm_dyt = {
    .name = "dyt",
    .full_name = "dynamictanh",
    .formula = "gamma * tanh(alpha * x) + beta; alpha[1] = dyt_alpha",
    .source = "Zhu et al. 2025, Dynamic Tanh (arXiv:2503.10622)",
    .options = {&dyt_alpha, &dyt_alpha_attn},
    .param = {{"alpha", .scalar = true, .dimensions = 1, .role = NORM_OTHER},
              {.name = "weight"},
              {"bias", .role = NORM_BETA}},
    COMPUTED_BY_FORMULA,
    .saturated = formula_saturated,
};

const struct norm_kind norm_derf = {
    .name = "derf",
    .full_name = "dynamicerf",
    .formula = "gamma * erf(alpha * x + shift) + beta; alpha[1] = dyt_alpha; shift[1] = 0",
    .source = "Chen et al. 2025, Dynamic erf (arXiv:2512.10938)",
    .options = {&dyt_alpha, &dyt_alpha_attn},
    .param = {{"alpha", .scalar = true, .dimensions = 1, .role = NORM_OTHER},
              {"shift", .scalar = true, .dimensions = 1, .role = NORM_OTHER},
              {.name = "weight"},
              {"bias", .role = NORM_BETA}},
    COMPUTED_BY_FORMULA,
    .saturated = formula_saturated,
};

const struct norm_kind norm_bhyt = {
    .name = "bhyt",
    .full_name = "boundedtanh",
    .formula = "gamma * tanh(lam / bhyt_kappa * x / rms_c(x)); lam[1] = bhyt_lambda",
    .source = "Byun et al. 2026, BHyT (arXiv:2601.09719)",
    .options = {&norm_eps, &bhyt_lambda, &bhyt_kappa},
    .param = {{.name = "weight"}, {"lam", .scalar = true, .dimensions = 1, .role = NORM_OTHER}},
    COMPUTED_BY_FORMULA,
    .saturated = formula_saturated,
};

/* ---- a token's channels ----

   seednorm: RMSNorm whose gamma changes with the token. tanh is computed from x before it is divided
   by its root mean square, so y still tells how large x was. As b starts at 0, the norm is initially
   RMSNorm. --affine=off leaves alpha and b learned. One head.

   scale: as in the authors' code gamma, one number, starts at sqrt(C), and epsilon is the least
   length, not a summand inside the root. l2 makes the dot product of a query and a key their cosine.

   gn: its authors also pool over an image's pixels. Pooling over the time steps of a text would let a
   token see later tokens, so here each token is an image of one pixel, like the rows of (B T, C) in
   PyTorch's GroupNorm. One group is LayerNorm; groups of one channel leave nothing but beta. */

const struct norm_kind norm_seednorm = {
    .name = "seednorm",
    .full_name = "rescalednorm",
    .formula = "(gamma + alpha * tanh(sum_c(x * b))) * x / rms_c(x); alpha = 1; b = 0",
    .source = "Cai et al. 2025, SeeDNorm (arXiv:2510.22777)",
    .options = {&norm_eps},
    .param = {{.name = "weight"},
              {"alpha", .role = NORM_OTHER},
              {"beta", .symbol = "b", .role = NORM_OTHER}},
    COMPUTED_BY_FORMULA,
};

const struct norm_kind norm_scale = {
    .name = "scale",
    .full_name = "scalenorm",
    .formula = "gamma * x / max(sqrt(sum_c(x^2)), eps); gamma[1] = C^0.5",
    .source = "Nguyen and Salazar 2019, ScaleNorm (arXiv:1910.05895)",
    .options = {&norm_eps},
    .param = {{"scale", .scalar = true}},
    COMPUTED_BY_FORMULA,
};

const struct norm_kind norm_l2 = {
    .name = "l2",
    .full_name = "l2norm",
    .formula = "x / max(sqrt(sum_c(x^2)), eps)",
    .source = "Henry et al. 2020, QKNorm (arXiv:2010.04245), for queries and keys",
    .options = {&norm_eps},
    .unit = true,
    COMPUTED_BY_FORMULA,
};

const struct norm_kind norm_group = {
    .name = "gn",
    .full_name = "groupnorm",
    .formula = "gamma * (x - mean_c(x)) / sqrt(var_c(x) + eps) + beta; groups",
    .source = "Wu and He 2018 (arXiv:1803.08494)",
    .options = {&norm_eps, &norm_groups},
    .param = {{.name = "weight"}, {"bias", .role = NORM_BETA}},
    COMPUTED_BY_FORMULA,
};
