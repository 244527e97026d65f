/* The Transformer: embeddings, L layers of attention and MLP, final norm, head (by default tied to
   the token embedding), cross-entropy. Parameter names and shapes are nanoGPT's. A model is its
   tensors and its memory; model_pass.h and head.h compute. */
#pragma once

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
    real *dstream[3];     // (B,T,C) of the residual stream: a sub-layer's input and output, and
                          // one that other threads may still be reading
    real *dlogits;        // (HEAD_ROWS,vec_padded(V)) of the tokens that the head is processing
    op_observer *observe; // sees every operation of the following passes; or NULL
    void *observer;       // its context
    enum statistics_source source; // of the following passes (kind.h)
    bool probing;                  // all of the next batch is wanted in each process (probe.h)
    struct chain_memory memory[2]; // of attention, of MLPs
    struct arena arena;            // owns all of this memory
};

/* Makes a model for batches of up to B x config->block_size tokens and a vocabulary of V, with
   initial weights by seed. Dies with status 2 for impossible sizes, 1 for too little memory. */
void model_init(struct model *model, const struct model_config *config, size_t V, size_t B,
                uint64_t seed);
void model_free(struct model *model);

/* The number of learned parameters. */
size_t model_parameters(const struct model *model);

/* The input (B,T,C) of the norm before the head: the stream, or the end's mixture of several. */
static inline const real *model_final_in(const struct model *model) {
    return model->end.kind ? connection_u(&model->end) : model->stream_out;
}

/* ---- the threads of a pass ---- */

/* The number of threads of a pass: over N tokens, or over the largest batch. */
int model_team_size(const struct model *model, size_t N);
int model_team(const struct model *model);
