/* The Transformer: embeddings, L layers of attention and MLP, final norm, head tied to the token
   embedding, cross-entropy. Parameter names and shapes are nanoGPT's. */
#ifndef MODEL_H
#define MODEL_H

#include "data/text/batch.h"
#include "model/sublayer.h"

enum { HEAD_ROWS = 1024 }; // tokens whose logits' gradients are in hand at a time
enum { PAD_STATS_MASK, PAD_STATS_INCLUDE };
enum { INIT_GPT2, INIT_XAVIER };
enum { FINAL_NORM_AUTO, FINAL_NORM_ON, FINAL_NORM_OFF };
enum { SITE_ATTENTION, SITE_FFN, SITE_FINAL, NORM_SITES }; // which may have norms of their own
enum { INNER_NORM_OFF, INNER_NORM_ON, INNER_NORM_KINDS };  // as the site's, or a row of norm_kinds

/* What a model is; filled by the command line, a test, or a stored model. */
struct model_config {
    int64_t norm, placement, activation; // rows of norm_kinds, placements, activations
    int64_t site_norm[NORM_SITES];       // 0: as `norm`, else 1 + a row of norm_kinds
    int64_t qk_norm, ffn_norm;           // INNER_NORM_...
    int64_t n_layer, n_head, n_embd, block_size;
    int64_t init;             // of the weights: INIT_...
    int64_t bias, final_norm; // biases of linear layers
    int64_t pad_stats;        // whether pads are tokens to norms
    double dropout, mix_fraction;
    struct norm_options norms;
};

/* The kind of norm at a site, and that of the norm inside its attention or MLP. */
const struct norm_kind *model_norm(const struct model_config *config, int site);
const struct norm_kind *model_inner_norm(const struct model_config *config, int site);

/* Whether there is a norm before the head, and whether one of this kind is at any site. */
bool model_has_final(const struct model_config *config);
bool model_has_norm(const struct model_config *config, const struct norm_kind *kind);

struct layer {
    struct sublayer attention, mlp;
};

struct model {
    struct model_config config;
    size_t B, T, C, V, L; // B and T are the largest that fit
    uint64_t seed;
    size_t threads;      // of a pass; 0: as many as its work is worth
    size_t most_threads; // that fit: omp_get_max_threads() of model_init()
    struct tensor_lists lists;
    struct param wte, wpe; // (V,C), (T,C)
    struct layer *layer;   // (L)
    struct norm embedding_norm, final;
    struct linear head;
    uint64_t prepared; // version of the weights that the linear layers are ready for
    // activations and their gradients
    real *embedded; // (B,T,C)
    real *entrance; // (B,T,C) the first layer's input: embedded, or its norm
    real *last;     // (B,T,C) the last layer's output (not owned)
    real *stream;   // (B,T,C) the second stream, NULL if there is none
    real *dstream;  // (B,T,C) its gradient
    real *
        final_out; // (B,T,C) the final norm's, and the sum of two streams; NULL if there is neither
    real *top;     // (B,T,C) what the head reads (not owned)
    real *dlogits; // (HEAD_ROWS,vec_padded(V)) of the tokens that the head has in hand
    real *logits;  // (threads,ROWS,vec_padded(V))
    real *losses;  // (B,T)
    unsigned char *correct; // (B,T), of model_loss()
    real *flow[3];          // (B,T,C) gradients of the residual stream, in turn
    bool probing;           // the next batch in training is probed (probe.h)
    real *entrance_squares; // (row_blocks) of a probed batch: sum of the entrance's gradient^2
    struct sublayer_scratch scratch[2]; // of attention, of MLPs
    struct arena arena;                 // all of the memory above
};

/* Makes a model for batches of up to B x config->block_size tokens of a vocabulary of V, with
   initial weights by seed. Impossible sizes die with status 2, too little memory with status 1. */
void model_init(struct model *model, const struct model_config *config, size_t V, size_t B,
                uint64_t seed);
void model_free(struct model *model);

/* The batch through all layers, up to what the head reads. Pads stand behind a sequence's tokens,
   so causal attention hides them from these, and without targets they have no loss; what is left is
   the norms', which get to know of pads unless config.pad_stats includes them. In training bn-like
   norms use and move their batch statistics and dropout is on, keyed by `step`; in evaluation
   neither. Whoever changed weights has counted it in lists.param.version. */
void model_forward(struct model *model, const struct batch *batch, bool training, uint64_t step);

/* One sequence in evaluation, piece by piece: tokens first .. end of `ids` (end <= T), those before
   them being as the calls before left them. Attention finds their keys and values among the
   activations that the model keeps anyway, so that a text grows by a character at the cost of one.
   The same numbers as a forward of the whole. */
void model_extend(struct model *model, const int32_t *ids, size_t first, size_t end);

/* After forward: the logits (V) of token n of the batch's B T, until the next call. */
const real *model_logits(struct model *model, size_t n);

/* After forward: the sum of the losses of valid targets (nats) in *sum; returns how many there are.
 */
size_t model_loss(struct model *model, const struct batch *batch, double *sum);

/* After model_loss(): how many valid targets the model thought likeliest. */
size_t model_correct(const struct model *model, const struct batch *batch);

/* After a forward in training: adds `scale` times the gradient of the batch's mean loss over its
   valid targets to every parameter's gradient; returns that mean loss. `step` is forward's. */
double model_backward(struct model *model, const struct batch *batch, uint64_t step, double scale);

void model_zero_grad(struct model *model);

/* How many threads a pass over the largest batch is shared out over. */
int model_team(const struct model *model);

/* Learned numbers, each counted once. */
size_t model_parameters(const struct model *model);

#endif
