/* The table of placements, and what their rows depend on: layer 0, 1, ... of L layers. */
#include "model/placement.h"
#include <math.h>
#include <string.h>

static double deepnorm_a(size_t layer, size_t L) {
    return pow(2 * (double)L, 0.25);
}

static double deepnorm_initial(size_t layer, size_t L) {
    return pow(8 * (double)L, -0.25);
}

static double sublayers(size_t layer, size_t L) {
    return 2 * (double)L;
}

static double inverse_root(size_t layer, size_t L) {
    return 1 / sqrt((double)layer + 1);
}

/* Of the sub-layers up to this layer, not of all. */
static double inverse_root_of_sublayers(size_t layer, size_t L) {
    return 1 / sqrt(2 * (double)layer + 2);
}

/* Huang et al. want each of the n blocks to change the output by as much as 1 / n after a step,
   with x, v and w for the sizes of the stream and of a block's two weights:
     n (v^2 x^2 + w^2 x^2 + v^2 w^2) = 1
   x = v = w gives the (9N)^(-1/4) of their decoders of N layers of three blocks, and (6L)^(-1/4) of
   L layers of attention and MLP. (Their encoders' 0.67 N^(-1/4) is the solution for two blocks a
   layer and an x of (9N)^(-1/4).) */
static double tfixup(size_t layer, size_t L) {
    return pow(6 * (double)L, -0.25);
}

/* The first layers post, the others pre. */
static const struct placement *mixed(size_t layer, size_t L, double mix_fraction) {
    return placement_find((double)layer < floor(mix_fraction * (double)L) ? "post" : "pre");
}

/* HybridNorm*: the first layer is pre. */
static const struct placement *first_pre(size_t layer, size_t L, double mix_fraction) {
    return placement_find(layer ? "hybrid" : "pre");
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
    {"deepnorm",
     "N(a x + F(x)), a = (2L)^(1/4); initial weights of values, MLP and attention's output are "
     "(8L)^(1/4) times smaller",
     "Wang et al. 2022, figure 2 (arXiv:2203.00555)", .post = true, .fixed = true, .a = deepnorm_a,
     .initial = deepnorm_initial},
    {"mix",
     "the first --mix-fraction of the layers as post, the others as pre; N before the "
     "head",
     "Li, Yin and Liu 2024, Mix-LN (arXiv:2412.13795)", .final = true, .of_layer = mixed},
    {"residual",
     "x becomes N(x + F(x)), and a second stream r, initially the embedding, becomes r "
     "+ F(x); the head reads x + N(r)",
     "Xie et al. 2023, ResiDual (arXiv:2304.14802)", .post = true, .final = true,
     .connection = "residual", .fixed = true},
    {"keel", "N(a x + F(N(x))), a = 2L, the number of sub-layers",
     "Chen and Wei 2026, equation 8, KEEL (arXiv:2601.19895)", .pre = true, .post = true,
     .a = sublayers},
    {"lns", "x + F(N(x) / sqrt(l)), N before the head",
     "Sun et al. 2025, LayerNorm scaling (arXiv:2502.05795)", .pre = true, .final = true,
     .s = inverse_root},
    {"siamese",
     "z = F(N(x + N(r))); x becomes N(x + z / sqrt(2l)), and a second stream r, "
     "initially the embedding, becomes r + z; N after the embedding; the head reads N(x "
     "+ N(r))",
     "Li et al. 2026, SiameseNorm (arXiv:2602.08064), the authors' code", .pre = true, .post = true,
     .final = true, .embedding = true, .connection = "siamese", .fixed = true,
     .b = inverse_root_of_sublayers},
    {"hybrid",
     "attention: N(x + F(x)), with norms of queries, keys and values; MLP: x + F(x); N "
     "before the head",
     "Zhuo et al. 2025, HybridNorm (arXiv:2503.04598)", .final = true, .qkv = true, .attn = "post",
     .ffn = "bare"},
    {"hybrid-star",
     "the first layer as pre, the others as hybrid, all with norms of queries, keys and "
     "values; N before the head",
     "Zhuo et al. 2025, HybridNorm* (arXiv:2503.04598)", .final = true, .qkv = true,
     .of_layer = first_pre},
    {"bare", "x + F(x), N before the head only", "for comparison, and for --placement-ffn",
     .final = true},
    {"rezero", "x + lambda F(x), one learned lambda per layer, initially 0",
     "Bachlechner et al. 2020, ReZero (arXiv:2003.04887)", .connection = "rezero"},
    {"skipinit", "x + lambda F(x), one learned lambda per sub-layer, initially 0",
     "De and Smith 2020, SkipInit (arXiv:2002.10444)", .connection = "skipinit"},
    {"layerscale",
     "x + lambda F(N(x)), C learned numbers lambda, initially 0.1 (1e-5 above 18 layers, 1e-6 "
     "above 24), N before the head",
     "Touvron et al. 2021, CaiT (arXiv:2103.17239)", .pre = true, .final = true,
     .connection = "layerscale"},
    {"tfixup",
     "x + F(x); initial embeddings, and weights of values, MLP and attention's output, "
     "are (6L)^(1/4) times smaller",
     "Huang et al. 2020, T-Fixup (ICML 2020), for layers without cross-attention",
     .initial = tfixup, .initial_embedding = tfixup},
    {"dsinit", "N(x + F(x)); initial weights of layer l are sqrt(l) times smaller",
     "Zhang, Titov and Sennrich 2019, DS-Init (arXiv:1908.11365)", .post = true,
     .initial = inverse_root, .initial_qk = true},
    {"admin",
     "N(omega x + F(x)), C learned numbers omega; initially omega^2 is 1 in the first "
     "sub-layer, and in later ones the variance of the embedding plus the variances of "
     "all earlier F(x), in the first batch",
     "Liu et al. 2020, Admin (arXiv:2004.08249)", .post = true, .connection = "admin"},
    {"ngpt",
     "N(x + lambda (N(F(x)) - x)), N without gamma; lambda is learned, initially 0.05; "
     "learned factors multiply N(queries), N(keys), hidden units and logits; weight "
     "vectors have unit length",
     "Loshchilov et al. 2024, nGPT (arXiv:2410.01131), with --norm=scale --bias=off", .out = true,
     .post = true, .embedding = true, .plain = true, .qk = true, .gains = true, .unit = true,
     .connection = "interpolate", .fixed = true},
    {.name = NULL},
};

double placement_factor(placement_function *function, size_t layer, size_t L) {
    return function ? function(layer, L) : 1;
}

const struct placement *placement_find(const char *name) {
    for (const struct placement *p = placements; p->name; p++)
        if (!strcmp(p->name, name)) return p;
    return NULL;
}

const struct placement *placement_of(const struct placement *row, bool attention, size_t layer,
                                     size_t L, double mix_fraction) {
    if (row->of_layer) row = row->of_layer(layer, L, mix_fraction);
    const char *name = attention ? row->attn : row->ffn;
    return name ? placement_find(name) : row;
}

const struct connection_kind *placement_connection(const struct placement *row) {
    return connection_find(row->connection ? row->connection : "plain");
}

const char *placement_refuses(const struct placement *row, const struct connection_kind *kind) {
    if (row->fixed && placement_connection(row) != kind)
        return "its formula has its own connection";
    if (row->post && kind->without_post)
        return "this connection has no single stream that a norm after the sum could normalize";
    return NULL;
}

bool placement_has_norms(const struct placement *row, bool attention) {
    if (row->of_layer) return true; // each such row has layers with norms
    const struct placement *chosen = placement_of(row, attention, 0, 1, 0);
    return chosen->pre || chosen->out || chosen->post;
}
