/* The Transformer: embeddings, L layers of attention and MLP, final norm, head (by default tied to
   the token embedding), cross-entropy. Parameter names and shapes are nanoGPT's. model.c declares
   its tensors and takes its memory; model_pass.c and head.c compute. */
#ifndef MODEL_H
#define MODEL_H

#include "data/text/batch.h"
#include "model/sublayer.h"

enum { HEAD_ROWS = 1024 }; // tokens whose dlogits are stored at a time
enum { PAD_STATS_MASK, PAD_STATS_INCLUDE };
enum { FINAL_NORM_AUTO, FINAL_NORM_ON, FINAL_NORM_OFF };
enum { SITE_ATTENTION, SITE_FFN, SITE_FINAL, NORM_SITES }; // each may have its own kind of norm
enum { INNER_QK, INNER_V, INNER_FFN, INNER_NORMS };        // norms inside attention and the MLP
enum { INNER_NORM_OFF, INNER_NORM_ON, INNER_NORM_KINDS };  // ON: the site's kind; then norm_kinds
enum { EXTENT_HEAD, EXTENT_WIDTH };                        // of the norms of q, k and v
enum { QK_SCALE_FIXED, QK_SCALE_LEARNED };
enum { EMBD_SCALE_NONE, EMBD_SCALE_LEARNED };
enum { ATTN_GATE_NONE, ATTN_GATE_HEAD, ATTN_GATE_ELEMENT };
enum { POSITION_LEARNED, POSITION_ROPE, POSITION_SINUSOIDAL, POSITION_NONE };
enum { HEAD_TIED, HEAD_UNTIED };

/* What a model is; filled by the command line, a test, or a stored model. */
struct model_config {
    int64_t norm, placement, activation; // rows of norm_kinds, placements, activations
    int64_t connection;                  // 0: the placement's, else 1 + a row of connection_kinds
    int64_t site_norm[NORM_SITES];       // 0: as `norm`, else 1 + a row of norm_kinds
    int64_t site_placement[SITE_FINAL];  // 0: as `placement`, else 1 + a row of placements
    int64_t qk_norm, v_norm, ffn_norm;   // INNER_NORM_...
    int64_t qk_norm_over;                // EXTENT_..., also for the norm of v
    int64_t qk_scale;                    // QK_SCALE_...
    double qk_scale_start;               // initial value of a learned scale, not 0
    int64_t n_layer, n_head, n_embd, block_size;
    int64_t n_kv_head;                  // heads of keys and values; not positive: n_head
    int64_t ffn_width;                  // hidden units of the MLP; not positive: model_ffn_width()
    int64_t position, head;             // POSITION_..., HEAD_...
    int64_t attn_gate;                  // ATTN_GATE_...
    double rope_theta;                  // of POSITION_ROPE
    double logit_softcap, attn_softcap; // 0: none
    double z_loss;                      // its weight
    int64_t init;                       // a row of initial_rules
    double init_std, init_embd_std;     // standard deviations, see initial.h
    int64_t embd_scale;                 // EMBD_SCALE_...
    double embd_scale_start;            // of a learned one
    int64_t bias;                       // biases of linear layers, and beta of norms
    int64_t final_norm;                 // FINAL_NORM_...
    int64_t pad_stats;                  // whether norms include pads
    int64_t local_stats;                // whether norms pool only over the tokens of this rank
    double dropout, mix_fraction;
    double lambda_start;        // initial value of lambda; negative: the connection's own
    int64_t micro_batch_tokens; // maximum number of tokens of a micro-batch; 0: that of the batch
    int64_t batch_parts;        // maximum number of parts of a batch (parts.h), at most PARTS_MAX
    int64_t any_length;         // batches may have fewer positions than block_size
    struct norm_options norms;
};

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

/* Whether some norm has parameters of this role that --affine=on would learn. */
bool model_learns(const struct model_config *config, enum norm_role role);

struct layer {
    struct sublayer attention, mlp;
    struct range tensors; // in the list of parameters
};

struct model {
    struct model_config config;
    size_t B, T, C, V, L; // B and T of the largest batch
    size_t rows;          // tokens of the largest micro-batch, for which there is memory
    size_t slots;         // of gradients, see parts.h
    bool zero;            // all gradients are 0
    uint64_t seed;
    size_t threads;     // of a pass; 0: chosen by the amount of work
    size_t threads_max; // for which there is memory: omp_get_max_threads() in model_init()
    struct tensor_lists lists;
    struct param wte, wpe; // (V,C), (T,C) as embedding.h has it
    // wte; with a gradient of its own if the head is tied to it and a batch has several parts
    struct param wte_embedding;
    struct gain embd_scale; // one factor of all embeddings, if any
    struct rope rope;       // shared by all attention sub-layers
    struct layer *layer;    // (L)
    struct norm embedding_norm, final;
    struct connection end; // joins several streams before the head; its kind is NULL with one
    struct linear head;
    struct gain logit_gain; // of the logits, if any
    uint64_t prepared;      // the version of the weights for which the linear layers are ready
    // activations
    real *embedded;         // (B,T,C)
    real *stream_in;        // (B,T,C) the first layer's input: embedded, or its norm
    real *stream_out;       // (B,T,C) the last layer's output (not owned)
    real *final_out;        // (B,T,C) of the final norm; NULL without it
    const real *head_in;    // (B,T,C) what the head reads (not owned)
    real *logits;           // (threads,1 or 2,ROWS,vec_padded(V)): z, and logits if they differ
    real *losses;           // (B,T) of the full batch, as the next two
    unsigned char *correct; // (B,T), of model_loss()
    // gradients
    real *dstream[3];         // (B,T,C) of the residual stream: a sub-layer's input and output, and
                              // one that other threads may still be reading
    real *dlogits;            // (HEAD_ROWS,vec_padded(V)) of the tokens that the head is processing
    real *dstream_in_squares; // (row_blocks) of a probed batch: sum of dstream_in^2
    bool probing;             // the next batch in training is probed (probe.h)
    struct sublayer_scratch scratch[2]; // of attention, of MLPs
    struct arena arena;                 // owns all of this memory
};

/* Makes a model for batches of up to B x config->block_size tokens and a vocabulary of V, with
   initial weights by seed. Dies with status 2 for impossible sizes, 1 for too little memory. */
void model_init(struct model *model, const struct model_config *config, size_t V, size_t B,
                uint64_t seed);
void model_free(struct model *model);

/* Whether initial values depend on the run's first batch (connection.h). */
bool model_needs_first_batch(const struct model_config *config);

/* Sets these initial values before the first update, by a forward pass in training. A second call
   sets the same ones. */
void model_set_initial(struct model *model, const struct batch *batch);

/* The number of learned parameters. */
size_t model_parameters(const struct model *model);

/* ---- training ---- */

/* Forward and backward of the batch, micro-batch by micro-batch. Adds `scale` times the
   gradient of the batch's mean loss over its valid targets to every parameter's gradient; returns
   that mean loss. `step` keys dropout. */
double model_gradient(struct model *model, const struct batch *batch, uint64_t step, double scale);

/* Sets all gradients to 0. */
void model_zero_grad(struct model *model);

/* The second half of model_gradient(), after a forward pass of the full batch in training mode. */
double model_backward(struct model *model, const struct batch *batch, uint64_t step, double scale);

/* ---- a batch for which there is memory, such as a micro-batch ---- */

/* Computes all layers, up to the input of the head. Pads come after a sequence's tokens:
   causal attention hides them from the tokens, and they have no targets, so no loss. Only norms
   that pool over tokens would see them; these leave them out unless config.pad_stats includes them.
   In training such norms use and track the batch's statistics, and dropout is on, keyed by `step`.
   In evaluation they use running statistics, and dropout is off. A caller that changes weights
   increments lists.param.version. */
void model_forward(struct model *model, const struct batch *batch, bool training, uint64_t step);

/* The tokens of the batch, as norms see them in a forward pass. */
struct tokens model_tokens(const struct model *model, const struct batch *batch, bool training);

/* After forward: the sum of the losses of valid targets (nats) in *sum; returns their number. */
size_t model_loss(struct model *model, const struct batch *batch, double *sum);

/* After model_loss(): the number of valid targets to which the model gives the highest
   probability. */
size_t model_correct(const struct model *model, const struct batch *batch);

/* After forward: the logits (V) of token n of the batch's B T, until the next call. */
const real *model_logits(struct model *model, size_t n);

/* Extends one sequence in evaluation mode by the tokens first .. end - 1 of `ids` (end <= T);
   earlier calls computed those before `first`. Attention reads their keys and values from where
   forward keeps them for backward, so one more character costs one token's work. The result has the
   same bits as a forward pass of the full sequence. The leader's helpers take part
   (team_lead()). */
void model_extend(struct model *model, const int32_t *ids, size_t first, size_t end);

/* The input (B,T,C) of the norm before the head: the stream, or the end's mixture of several. */
static inline const real *model_final_in(const struct model *model) {
    return model->end.kind ? connection_u(&model->end) : model->stream_out;
}

/* ---- the threads of a pass ---- */

/* The number of threads of a pass: over N tokens, or over the largest batch. */
int model_team_size(const struct model *model, size_t N);
int model_team(const struct model *model);

/* The number of threads for team_lead() when a sequence is extended token by token. */
int model_extend_threads(const struct model *model);

/* ---- how a batch is cut: cut.c ---- */

/* Whether a batch must go through the model at once: a norm pools over tokens and is not
   causal (also `in`, whose running statistics are means over the sequences of a batch), a norm is
   watched for probes, or initial values come from the first batch. */
bool model_needs_batch(const struct model_config *config);

/* A batch may go through the model in micro-batches: runs of full sequences, so that only one of
   them needs memory for its activations. Sums over tokens are split at the same rows as those of
   the full batch and added in the same order, so the results have the same bits.

   Returns the micro-batch that starts at sequence `first` of `batch`, which has some or all
   sequences of the batch `all`. If there is memory for it, the micro-batch is all of `batch`. */
struct batch model_micro_batch(const struct model *model, const struct batch *batch,
                               const struct batch *all, size_t first);

/* The number of tokens of the largest micro-batch, if batches have up to B sequences. */
size_t model_cut_rows(const struct model_config *config, size_t B, size_t threads);

/* The largest number of parts of a batch of up to B sequences. A batch of items has as many
   positions as its longest item, so its number of parts varies. */
size_t model_cut_parts(const struct model_config *config, size_t B);

/* The number of slots of gradients that this rank needs for its parts, or for all parts, and for
   the stacks of its threads. */
size_t model_cut_slots(const struct model_config *config, size_t B, size_t threads);

/* The parts of the batch `all`, in a pass over its micro-batch `batch`. */
struct parts model_parts(const struct model_config *config, const struct batch *batch,
                         const struct batch *all);

/* Whether ranks share the next batch, each with some of its parts. */
bool model_shared(const struct model *model);

/* The sequences of the batch that this rank computes in model_gradient(). */
struct batch model_own(const struct model *model, const struct batch *all);

#endif
