/* One sub-layer of a Transformer, attention or the MLP, with a residual connection around it
   (connection.h). sublayer.c declares its tensors and lists its operations (op.h), which
   sublayer_operations.c computes. Its first linear layer maps C channels to E, the second one H
   to C:

     attention   E = C + 2 KV HS + G, H = C      KV heads of keys and values with HS channels each,
                                                 G gates (attention.h)
     MLP         E = H, or 2H with a gate */
#pragma once

#include "model/block/chain.h"
#include "model/connection/connection.h"
#include "model/layer/activation.h"
#include "model/layer/attention.h"
#include "model/layer/gain.h"
#include "model/model_config.h"
#include "model/norm/qkv_norm.h"

struct sublayer {
    size_t C;
    size_t E, H;                         // widths of what `in` writes and of what `proj` reads
    size_t heads;                        // of attention; 0: this is the MLP
    struct attention attention;          // its sizes, where the softmax is, its gate
    struct rope rope;                    // of q and k
    const struct activation *activation; // of the MLP
    double s_factor;
    double initial;   // factor of the initial weights of matrices
    double initial_v; // of v, beyond that of q and k
    struct connection connection;
    struct norm pre, out, post;
    struct qkv_norm qkv_norm;        // of attention
    struct norm attn_norm, ffn_norm; // of what attention's and the MLP's proj reads
    struct linear in, proj;          // C -> E, H -> C
    struct gain in_gain;             // of q and k, or of expanded
    double dropout;
    uint64_t seed, site; // of dropout's streams; 2 layer, or of the MLP 2 layer + 1
    struct chain chain;
    real *y; // (B,T,C) its output
};

/* Declares a sub-layer and takes its memory. The caller has set site, seed and rope, and of the
   connection x, previous and embedded; all else is 0. */
void sublayer_attach(struct sublayer *s, const struct model_config *config,
                     const struct layout *layout);

/* Multiplies v's initial weights by s->initial_v, after tensor_initialize(). Other matrices are
   declared with their factor; v's rows share a matrix with those of q and k, without it. */
void sublayer_initialize(const struct sublayer *s);

/* The following are called by every thread of the team. */

/* Prepares the linear layers after a change of the weights. A barrier must follow. */
void sublayer_prepare(const struct sublayer *s);

/* In a pass of the first batch, before the sub-layer's forward: sets what its connection starts with,
   from what the sub-layers before it have computed. */
void sublayer_set_initial(struct sublayer *s, const struct tokens *tokens);

/* The kinds of operations. */
extern const struct op_kind op_read, op_norm, op_identity, op_scale, op_linear, op_qkv_keep,
    op_qkv_norm, op_rope, op_gain, op_attention, op_gate, op_activation, op_write;
