/* What follows from a model's options: the norm, placement and connection of each site, the sizes
   that depend on others, what a model needs, and the standard deviations of its initial weights. */
#include "model/model_config.h"
#include "model/layer/activation.h"
#include <math.h>

const struct norm_kind *model_norm(const struct model_config *config, int site) {
    int64_t chosen = config->site_norm[site];
    return norm_kinds[chosen ? chosen - 1 : config->norm];
}

const struct placement *model_placement(const struct model_config *config, int site) {
    int64_t chosen = config->site_placement[site];
    return &placements[chosen ? chosen - 1 : config->placement];
}

const struct norm_kind *model_inner_norm(const struct model_config *config, int inner) {
    const int64_t choices[] = {[INNER_QK] = config->qk_norm,
                               [INNER_V] = config->v_norm,
                               [INNER_ATTN] = config->attn_norm,
                               [INNER_FFN] = config->ffn_norm};
    int64_t choice = choices[inner];
    const struct placement *row = model_placement(config, SITE_ATTENTION);
    bool placed = (inner == INNER_QK && (row->qkv || row->qk)) || (inner == INNER_V && row->qkv);
    if (choice == INNER_NORM_OFF && placed) choice = INNER_NORM_ON;
    if (choice == INNER_NORM_OFF) return norm_find("none");
    return choice == INNER_NORM_ON
               ? model_norm(config, inner == INNER_FFN ? SITE_FFN : SITE_ATTENTION)
               : norm_kinds[choice - INNER_NORM_KINDS];
}

/* For queries and keys of length 1, whose dot products are cosines: log2(T^2 - T), as Henry et al.
   2020 have it, with the block size for their sequences' length, of which they take the 97.5th
   percentile. At this scale a query can give nearly all of its weight to one key among T. At
   1 / sqrt(HS) all weights would be nearly equal. For others: attention's usual 1 / sqrt(HS), so
   that a model starts as it would with that scale. A single token has nothing to choose from. */
double model_qk_scale_start(const struct model_config *config) {
    const double T = fmax(2, (double)config->block_size);
    const bool unit = model_inner_norm(config, INNER_QK)->unit;
    return unit ? log2(T * T - T) : sqrt((double)config->n_head / (double)config->n_embd);
}

size_t model_kv_heads(const struct model_config *config) {
    return (size_t)(config->n_kv_head > 0 ? config->n_kv_head : config->n_head);
}

size_t model_ffn_width(const struct model_config *config) {
    const size_t C = (size_t)config->n_embd;
    if (config->ffn_width > 0) return (size_t)config->ffn_width;
    return activations[config->activation].gated ? (8 * C / 3 + 31) / 32 * 32 : 4 * C;
}

bool model_has_final(const struct model_config *config) {
    if (config->final_norm != FINAL_NORM_AUTO) return config->final_norm == FINAL_NORM_ON;
    return placements[config->placement].final;
}

bool model_has_site(const struct model_config *config, int site) {
    const struct placement *row = &placements[config->placement];
    const bool reads = model_connection(config, row)->norm;
    if (site == SITE_FINAL) return model_has_final(config) || row->embedding || reads;
    bool attention = site == SITE_ATTENTION;
    bool inner = attention ? config->qk_norm == INNER_NORM_ON || config->v_norm == INNER_NORM_ON ||
                                 config->attn_norm == INNER_NORM_ON
                           : config->ffn_norm == INNER_NORM_ON;
    row = model_placement(config, site);
    return inner || (attention && row->qkv) || reads || placement_has_norms(row, attention);
}

bool model_learns(const struct model_config *config, enum norm_role role) {
    if (placements[config->placement].plain) return false;
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++)
        for (int i = 0; (*kind)->param[i].name; i++)
            if ((*kind)->param[i].role == role && model_has_norm(config, *kind)) return true;
    return false;
}

bool model_has_norm(const struct model_config *config, const struct norm_kind *kind) {
    for (int site = SITE_ATTENTION; site <= SITE_FINAL; site++)
        if (model_has_site(config, site) && model_norm(config, site) == kind) return true;
    for (int inner = 0; inner < INNER_NORMS; inner++)
        if (model_inner_norm(config, inner) == kind) return true;
    return false;
}

const struct placement *model_row(const struct model_config *config, int site, size_t l) {
    return placement_of(model_placement(config, site), site == SITE_ATTENTION, l,
                        (size_t)config->n_layer, config->mix_fraction);
}

const struct connection_kind *model_connection(const struct model_config *config,
                                               const struct placement *row) {
    return config->connection ? connection_kinds[config->connection - 1]
                              : placement_connection(row);
}

bool model_has_connection(const struct model_config *config, const struct connection_kind *kind) {
    for (size_t l = 0; l < (size_t)config->n_layer; l++)
        for (int site = SITE_ATTENTION; site <= SITE_FFN; site++)
            if (model_connection(config, model_row(config, site, l)) == kind) return true;
    return false;
}

bool model_needs_first_batch(const struct model_config *config) {
    for (const struct connection_kind *const *kind = connection_kinds; *kind; kind++)
        if ((*kind)->set_initial && model_has_connection(config, *kind)) return true;
    return false;
}

bool model_needs_batch(const struct model_config *config) {
    if (config->whole_batch || model_needs_first_batch(config)) return true;
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++)
        if ((*kind)->statistics && !(*kind)->causal && model_has_norm(config, *kind)) return true;
    return false;
}

struct norm_options model_norm_options(const struct model_config *config, int site) {
    struct norm_options options = config->norms;
    options.bias =
        config->norm_bias == NORM_BIAS_AUTO ? config->bias : config->norm_bias == NORM_BIAS_ON;
    options.heads = config->n_head;
    options.attention = site == SITE_ATTENTION;
    if (placements[config->placement].plain) options.affine = 0;
    return options;
}

/* ---- initial weights ---- */

/* Initial weights: the standard deviations of --init. Each rule is a row of initial_rules:

              a matrix (out,in)     into the stream     untied head   token embedding   position embedding
     gpt2     std                   std / sqrt(2L)      std           embd_std          embd_std
     xavier   sqrt(2 / (in + out))  as other matrices   1 / sqrt(C)   1 / sqrt(C)       1
     width    1 / sqrt(in)          / sqrt(2L) too      1 / sqrt(C)   embd_std          embd_std

   If embd_std is not given, it is the standard deviation of a matrix that reads the stream: std, or
   with `width` 1 / sqrt(C), because the head shares the token embedding. So with `width` and
   `xavier` the logits initially have a variance of about 1. The matrices into the stream are the
   last ones of attention and of the MLP. Placements multiply these numbers by their own factors
   (placement.h). If these depend on depth, they replace 1 / sqrt(2L).

   gpt2: Radford et al. 2019, section 2.3. xavier: Glorot and Bengio 2010, equation 12, as a normal
   distribution; q, k and v count as three matrices (C,C), also with fewer heads of k and v, and a
   gate as a matrix of its own. With learned or sinusoidal positions the stream then starts with
   unit variance, with --position=rope or none with 1 / C. width: LeCun et al. 1998, equation 16. */

static double given(const struct model_config *config, size_t in, size_t out) {
    return config->init_std;
}

static double glorot(const struct model_config *config, size_t in, size_t out) {
    return sqrt(2 / ((double)in + (double)out));
}

static double fan_in(const struct model_config *config, size_t in, size_t out) {
    return 1 / sqrt((double)in);
}

static double unit(const struct model_config *config, size_t in, size_t out) {
    return 1;
}

static double embedding(const struct model_config *config, size_t in, size_t out) {
    if (config->init_embd_std > 0) return config->init_embd_std;
    return initial_rules[config->init].matrix(config, in, out);
}

const struct initial_rule initial_rules[] = {
    [INIT_GPT2] = {"gpt2", given, given, embedding, embedding, .by_depth = true},
    [INIT_XAVIER] = {"xavier", glorot, fan_in, fan_in, unit, .by_depth = false},
    [INIT_WIDTH] = {"width", fan_in, fan_in, embedding, embedding, .by_depth = true},
    {0},
};
