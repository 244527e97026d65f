/* What a model is: the choices, and what follows from them. */
#pragma once

#include "model/connection/connection.h"
#include "model/placement.h"

enum { PAD_STATS_MASK, PAD_STATS_INCLUDE };
enum { FINAL_NORM_AUTO, FINAL_NORM_ON, FINAL_NORM_OFF };
enum { SITE_ATTENTION, SITE_FFN, SITE_FINAL, NORM_SITES }; // each may have its own kind of norm
enum { INNER_QK, INNER_V, INNER_ATTN, INNER_FFN, INNER_NORMS }; // norms inside a sub-layer
enum { INNER_NORM_OFF, INNER_NORM_ON, INNER_NORM_KINDS }; // ON: the site's kind; then norm_kinds
enum { NORM_BIAS_AUTO, NORM_BIAS_ON, NORM_BIAS_OFF };
enum { EXTENT_HEAD, EXTENT_WIDTH }; // of the norms of q, k and v
enum { QK_SCALE_FIXED, QK_SCALE_LEARNED };
enum { EMBD_SCALE_NONE, EMBD_SCALE_LEARNED };
enum { ATTN_GATE_NONE, ATTN_GATE_HEAD, ATTN_GATE_ELEMENT };
enum { POSITION_LEARNED, POSITION_ROPE, POSITION_SINUSOIDAL, POSITION_NONE };
enum { HEAD_TIED, HEAD_UNTIED };
enum { INIT_GPT2, INIT_XAVIER, INIT_WIDTH }; // rows of initial_rules

/* What a model is; filled by the command line, a test, or a stored model. */
struct model_config {
    int64_t norm, placement, activation; // rows of norm_kinds, placements, activations
    int64_t connection;                  // 0: the placement's, else 1 + a row of connection_kinds
    int64_t site_norm[NORM_SITES];       // 0: as `norm`, else 1 + a row of norm_kinds
    int64_t site_placement[SITE_FINAL];  // 0: as `placement`, else 1 + a row of placements
    int64_t qk_norm, v_norm, attn_norm, ffn_norm; // INNER_NORM_...
    int64_t qk_norm_over;                         // EXTENT_..., also for the norm of v
    int64_t qk_scale;                             // QK_SCALE_...
    double qk_scale_start;                        // initial value of a learned scale, not 0
    int64_t n_layer, n_head, n_embd, block_size;
    int64_t n_kv_head;                  // heads of keys and values; not positive: n_head
    int64_t ffn_width;                  // hidden units of the MLP; not positive: model_ffn_width()
    int64_t position, head;             // POSITION_..., HEAD_...
    int64_t attn_gate;                  // ATTN_GATE_...
    double rope_theta;                  // of POSITION_ROPE
    double logit_softcap, attn_softcap; // 0: none
    double z_loss;                      // its weight
    int64_t init;                       // a row of initial_rules
    double init_std, init_embd_std;     // embd_std: not positive means not given
    double init_branch_scale;           // factor of the initial weights that write to the stream
    double outlier_channel, outlier_position; // factors in the initial position embedding
    int64_t embd_scale;                       // EMBD_SCALE_...
    double embd_scale_start;                  // of a learned one
    int64_t bias;                             // biases of linear layers, and beta of norms
    int64_t norm_bias;                        // NORM_BIAS_AUTO: beta is learned where biases are
    int64_t final_norm;                       // FINAL_NORM_...
    int64_t pad_stats;                        // whether norms include pads
    int64_t local_stats; // whether norms pool only over the tokens of this rank
    double dropout, mix_fraction;
    struct connection_options connections;
    int64_t micro_batch_tokens; // maximum number of tokens of a micro-batch; 0: that of the batch
    int64_t batch_parts;        // maximum number of parts of a batch (parts.h), at most PARTS_MAX
    int64_t any_length;         // batches may have fewer positions than block_size
    int64_t whole_batch;        // values of the full batch are read after its pass (probe.h)
    struct norm_options norms;
};

/* ---- what follows from the choices ---- */

/* The kind of norm at a site, and the kind of one of the INNER_NORMS. */
const struct norm_kind *model_norm(const struct model_config *config, int site);
const struct norm_kind *model_inner_norm(const struct model_config *config, int inner);

/* The row of placements chosen for attention or for the MLP. */
const struct placement *model_placement(const struct model_config *config, int site);

/* The row of the attention, or of the MLP, of layer l. */
const struct placement *model_row(const struct model_config *config, int site, size_t l);

/* The connection of the sub-layers with this row of placements. Whether some sub-layer's connection
   has this kind. */
const struct connection_kind *model_connection(const struct model_config *config,
                                               const struct placement *row);
bool model_has_connection(const struct model_config *config, const struct connection_kind *kind);

/* The number of key/value heads: the configured one, or n_head. The number of hidden units of the
   MLP: the configured one, or 4 n_embd. With a gate it is 8/3 n_embd, rounded up to a multiple of
   32, which gives about as many weights. */
size_t model_kv_heads(const struct model_config *config);
size_t model_ffn_width(const struct model_config *config);

/* Where the learned scale of attention's scores (--qk-scale=learned) starts unless
   --qk-scale-start is given. */
double model_qk_scale_start(const struct model_config *config);

/* Whether there is a norm before the head, whether the model has a norm of this site (SITE_FINAL:
   before the head or after the embedding), and whether it has a norm of this kind. */
bool model_has_final(const struct model_config *config);
bool model_has_site(const struct model_config *config, int site);
bool model_has_norm(const struct model_config *config, const struct norm_kind *kind);

/* The options of the norms at a site. */
struct norm_options model_norm_options(const struct model_config *config, int site);

/* Whether some norm has parameters of this role that --affine=on would learn. */
bool model_learns(const struct model_config *config, enum norm_role role);

/* Whether initial values depend on the run's first batch (connection.h). */
bool model_needs_first_batch(const struct model_config *config);

/* Whether a batch must go through the model at once: a norm pools over tokens and is not
   causal (also `in`, whose running statistics are means over the sequences of a batch), its values
   are read afterwards, or initial values come from the first batch. */
bool model_needs_batch(const struct model_config *config);

/* The standard deviation of a matrix with `in` inputs and `out` outputs. Each rule has a row of
   such functions. */
typedef double initial_std(const struct model_config *config, size_t in, size_t out);

struct initial_rule {
    const char *name; // as in --init=NAME
    initial_std *matrix, *head;
    initial_std *token, *position; // embeddings, as matrices that read the stream: in = C
    bool by_depth;                 // matrices into the stream are divided by sqrt(2L)
};

extern const struct initial_rule initial_rules[]; // ended by a row without a name
