#include "model/placement.h"
#include <math.h>
#include <string.h>

static double deepnorm_a(size_t L) {
    return pow(2 * (double)L, 0.25);
}

static double deepnorm_gain(size_t L) {
    return pow(8 * (double)L, -0.25);
}

static double sublayers(size_t L) {
    return 2 * (double)L;
}

static double inverse_root(size_t layer) {
    return 1 / sqrt((double)layer + 1);
}

/* In nGPT's code the parameters of alpha start at 1 / sqrt(C). */
static double ngpt_alpha(size_t layer, size_t L) {
    return 0.05;
}

static double ngpt_scale(size_t C) {
    return 0.05 * sqrt((double)C);
}

/* The first layers post, the others pre. */
static const struct placement *mixed(size_t layer, size_t L, double mix_fraction) {
    return placement_find((double)layer < floor(mix_fraction * (double)L) ? "post" : "pre");
}

const struct placement placements[] = {
    {"pre", "x + F(N(x)), N before the head",
     "Xiong et al. 2020, table 1 (arXiv:2002.04745); Radford et al. 2019", .pre = true,
     .final = true, .full_name = "preln"},
    {"post", "N(x + F(x))", "Vaswani et al. 2017, section 3.1 (arXiv:1706.03762)", .post = true,
     .full_name = "postln"},
    {"sandwich", "x + N(F(N(x))), N before the head",
     "Ding et al. 2021, section 2.4, CogView (arXiv:2105.13290)", .pre = true, .out = true,
     .final = true},
    {"peri", "x + N(F(N(x))), N after the embedding and before the head",
     "Kim et al. 2025 (arXiv:2502.02732)", .pre = true, .out = true, .final = true,
     .embedding = true},
    {"reordered", "x + N(F(x)), N before the head", "OLMo 2, 2024, section 3 (arXiv:2501.00656)",
     .out = true, .final = true},
    {"deepnorm", "N(a x + F(x)), a = (2L)^(1/4); v, MLP and proj start (8L)^(-1/4) times smaller",
     "Wang et al. 2022, figure 2 (arXiv:2203.00555)", .post = true, .a = deepnorm_a,
     .gain = deepnorm_gain},
    {"mix", "the first --mix-fraction of the layers post, the others pre",
     "Li, Yin and Liu 2024, Mix-LN (arXiv:2412.13795)", .final = true, .of_layer = mixed,
     .options = "mix-fraction"},
    {"residual", "N(x + F(x)) and r + F(x), r a second stream from x on; x + N(r) before the head",
     "Xie et al. 2023, ResiDual (arXiv:2304.14802)", .post = true, .final = true, .dual = true},
    {"keel", "N(a x + F(N(x))), a = 2L, the number of sub-layers",
     "Chen and Wei 2026, equation 8, KEEL (arXiv:2601.19895)", .pre = true, .post = true,
     .a = sublayers},
    {"lns", "x + F(N(x) / sqrt(l)), l = 1, 2, ... L, N before the head",
     "Sun et al. 2025, LayerNorm scaling (arXiv:2502.05795)", .pre = true, .final = true,
     .s = inverse_root},
    {"ngpt",
     "N(x + a (N(F(x)) - x)), N without gamma; q, k = g N(q), g N(k); a, g learned; unit weights",
     "Loshchilov et al. 2024, nGPT (arXiv:2410.01131); the paper's: --norm=scale --bias=off",
     .out = true, .post = true, .embedding = true, .plain = true, .qk = true, .gains = true,
     .unit = true,
     .lambda = {LAMBDA_MIX, true, {"attn_alpha", "mlp_alpha"}, ngpt_alpha, ngpt_scale}},
    {.name = NULL},
};

const struct placement *placement_find(const char *name) {
    for (const struct placement *p = placements; p->name; p++)
        if (!strcmp(p->name, name)) return p;
    return NULL;
}
