/* The Transformer: embeddings, L layers of attention and MLP, final norm, head (by default tied to
   the token embedding), cross-entropy. Parameter names and shapes are nanoGPT's. model.c declares
   its tensors and takes its memory; model_pass.c and head.c compute. */
#ifndef MODEL_H
#define MODEL_H

#include "data/text/batch.h"
#include "model/block/sublayer.h"

enum { HEAD_ROWS = 1024 }; // tokens whose dlogits are stored at a time

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
    real *embedded;      // (B,T,C)
    real *stream_in;     // (B,T,C) the first layer's input: embedded, or its norm
    real *stream_out;    // (B,T,C) the last layer's output (not owned)
    real *final_out;     // (B,T,C) of the final norm; NULL without it
    const real *head_in; // (B,T,C) what the head reads (not owned)
    real *logits;        // (threads,1 or 2,ROWS,vec_padded(V)): z, and logits if they differ
    real *losses;        // (B,T) of the full batch, as the next
    real *correct;       // (B,T) 1/k where the target is one of the k likeliest, else 0
    // gradients
    real *dstream[3];         // (B,T,C) of the residual stream: a sub-layer's input and output, and
                              // one that other threads may still be reading
    real *dlogits;            // (HEAD_ROWS,vec_padded(V)) of the tokens that the head is processing
    real *dstream_in_squares; // (row_blocks) of a probed batch: sum of dstream_in^2
    bool probing;             // the next batch in training is probed (probe.h)
    struct chain_memory memory[2]; // of attention, of MLPs
    struct arena arena;            // owns all of this memory
};

/* Makes a model for batches of up to B x config->block_size tokens and a vocabulary of V, with
   initial weights by seed. Dies with status 2 for impossible sizes, 1 for too little memory. */
void model_init(struct model *model, const struct model_config *config, size_t V, size_t B,
                uint64_t seed);
void model_free(struct model *model);

/* Sets the initial values that depend on the run's first batch before the first update, by a
   forward pass in training. A second call sets the same ones. */
void model_set_initial(struct model *model, const struct batch *batch);

/* The number of learned parameters. */
size_t model_parameters(const struct model *model);

/* ---- training ---- */

/* Forward and backward of the batch, micro-batch by micro-batch. Adds `scale` times the
   gradient of the batch's mean loss over its valid targets to every parameter's gradient; returns
   that mean loss. `step` keys dropout. */
double model_gradient(struct model *model, const struct batch *batch, uint64_t step, double scale);

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

/* After forward: the sum of the losses of valid targets (nats) in *sum; returns their number. Writes
   the batch's part of `losses` and `correct`. */
size_t model_loss(struct model *model, const struct batch *batch, double *sum);

/* After forward: the logits (V) of token n of the batch's B T, until the next call. */
const real *model_logits(struct model *model, size_t n);

/* Extends one sequence in evaluation mode by the tokens first .. end - 1 of `ids` (end <= T);
   earlier calls computed those before `first`. Attention reads their keys and values from where
   forward keeps them for backward, so one more character costs one token's work. The result has the
   same bits as a forward pass of the full sequence. It runs on the calling thread alone. */
void model_extend(struct model *model, const int32_t *ids, size_t first, size_t end);

/* The input (B,T,C) of the norm before the head: the stream, or the end's mixture of several. */
static inline const real *model_final_in(const struct model *model) {
    return model->end.kind ? connection_u(&model->end) : model->stream_out;
}

/* ---- the threads of a pass ---- */

/* The number of threads of a pass: over N tokens, or over the largest batch. */
int model_team_size(const struct model *model, size_t N);
int model_team(const struct model *model);

/* ---- losses: head.c ---- */

/* The gradient is that of `scale` times each token's loss; with a z_loss w > 0 that of `scale`
   times the loss + w (ln Z)^2, Z = sum_v exp(logit_v). */
struct loss {
    size_t V; // characters; logits and their gradients have the row stride vec_padded(V)
    real scale, z_loss;
};

/* For N <= ROWS tokens, losses (N) = -ln softmax(logits[n])[targets[n]], or 0 where targets[n] is
   negative (no target). If dlogits (N,V) is not NULL, it becomes the gradient, or 0 where there is
   no target, and 0 in the columns from V on. Without dlogits the logits (N,V) are overwritten; with
   it only their columns from V on are, unless dlogits is the same array, as it may be. By the
   calling thread. */
void loss_cross_entropy(const struct loss *loss, size_t N, real *losses, real *dlogits,
                        real *logits, const int32_t *targets);

/* Returns the number of valid targets, and in *sum the sum of their losses. */
size_t loss_sum(size_t N, const real *losses, const int32_t *targets, double *sum);

/* Computes the losses of a batch, dhead_in (N,C), and the gradient of the head's weight; `scale` is
   the weight of a target in the gradient. Every thread of the team calls it. */
void head_backward(struct model *m, const struct batch *batch, const struct parts *parts,
                   real *dhead_in, real scale);

/* ---- how a batch is cut: cut.c ---- */

/* The micro-batch that starts at sequence `first` of `batch`, which has some or all
   sequences of the batch `all`. If there is memory for it, the micro-batch is all of `batch`. */
struct batch model_micro_batch(const struct model *model, const struct batch *batch,
                               const struct batch *all, size_t first);

/* The number of tokens of the largest micro-batch, if batches have up to B sequences. */
size_t model_cut_rows(const struct model_config *config, size_t B, size_t threads);

/* The largest number of parts of a batch of up to this many tokens. */
size_t model_cut_parts(const struct model_config *config, size_t tokens);

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
