/* One sub-layer of a Transformer, attention or the MLP, with a residual connection around it
   (connection.h). sublayer.c declares its tensors and takes its memory, sublayer_stages.c says what
   it computes, and sublayer_pass.c which thread computes it when. Its first linear layer maps C
   channels to E, the second one H to C:

     attention   E = C + 2 KV HS + G, H = C      G gates, see attention.h
     MLP         E = H, or 2H with a gate */
#ifndef SUBLAYER_H
#define SUBLAYER_H

#include "model/connection/connection.h"
#include "model/layer/activation.h"
#include "model/layer/attention.h"
#include "model/layer/gain.h"
#include "model/layer/linear.h"
#include "model/model_config.h"
#include "model/norm/qkv_norm.h"

struct sublayer {
    size_t C;
    size_t E, H;                // widths of what `in` writes and of what `proj` reads
    size_t sweep;               // tokens that go through the stages together: full row blocks
    size_t heads;               // of attention; 0: this is the MLP
    struct attention attention; // its sizes, where q, k and v and their softmax are, its gate
    struct rope rope;           // of q and k
    const struct activation *activation; // of the MLP
    double s_factor;
    double initial;   // factor of the initial weights of matrices
    double initial_v; // of v, beyond that of q and k
    struct connection connection;
    struct norm pre, out, post;
    struct qkv_norm qkv_norm; // of attention
    struct norm ffn_norm;     // of the MLP
    struct linear in, proj;   // C -> E, H -> C
    struct gain in_gain;      // of q and k, or of expanded
    double dropout;
    uint64_t seed, site; // of dropout's streams; 2 layer, or of the MLP 2 layer + 1
    // What forward keeps for backward; NULL where it is the same as the value before. s PRE(u) and
    // the MLP's act(expanded) are computed again. The connection has x, u and sum.
    real *expanded;   // (B,T,E) in(s PRE(u)), q, k and v in it normalized; then the gate's z
    real *inner;      // (B,T,H) attention's output, gated; act(expanded) if FFN pools over tokens
    real *projected;  // (B,T,C) proj's output, kept for OUT, or as f by the connection
    real *y;          // (B,T,C) POST(sum), or sum
    real *dy_squares; // (row_blocks) of a probed batch: sum of dy^2
};

/* Where the rows of a value are, one for each token: all of them, or a ring of slabs;
   with size 0 only those of a sweep, in the thread's scratch. */
struct place {
    real *first; // NULL: it is not stored
    size_t size; // of a row
    bool ring;
};

/* Memory of backward, one for all attention sub-layers and one for all MLPs. A buffer is NULL where
   no sub-layer needs it: a gradient is the same as the one that comes before it. */
struct sublayer_scratch {
    struct place dsum;       // (C) POST'(dy)
    struct place df;         // (C) drop(WRITE'(dsum))
    struct place dprojected; // (C) OUT'(df)
    struct place dproj_in;  // (H) gradient of what proj reads: of attention, and of FFN if it pools
    struct place proj_in;   // (H) what the MLP's proj reads, computed again
    struct place dexpanded; // (E)
    struct place dqkv;      // (C + 2 KV HS) gradients of q^, k^ and v^, if one of their norms pools
    struct place dnormed;   // (C) gradient of PRE(u), if sublayer_keeps_dnormed()
    struct place du;        // (C) PRE'(dnormed), if READ's norm pools over tokens
    struct place normed;    // (C) s PRE(u), computed again
    struct linear_operands in, proj; // of their weights' gradients, (ring) tokens
    real *threads;                   // (threads,thread_size) scratch of each thread, in forward too
    size_t thread_size;
    size_t C, E, H; // of the sub-layers
};

/* One forward or backward pass: the tokens, those of them that are computed (all, unless a text
   grows: see model_extend()), and the step that keys dropout. If the tokens are a micro-batch, row
   0 is row `first` of the batch. */
struct pass {
    struct tokens tokens;
    struct range rows;
    uint64_t step;
    size_t first;
    bool initial; // of the first batch, from which connections get initial values
};

/* Declares a sub-layer and takes its memory. The caller has set site, seed and rope, and of the
   connection x, previous and embedded; all else is 0. */
void sublayer_attach(struct sublayer *s, const struct model_config *config,
                     const struct layout *layout);

/* First, sublayer_scratch_need() is called for each sub-layer. Then sublayer_scratch_attach() takes
   the memory for N tokens and the given number of threads. */
void sublayer_scratch_need(struct sublayer_scratch *scratch, const struct sublayer *s, size_t T);
void sublayer_scratch_attach(struct sublayer_scratch *scratch, size_t N, size_t threads,
                             struct arena *arena);

/* Multiplies v's initial weights by s->initial_v, after tensor_initialize(). Other matrices are
   declared with their factor; v's rows share a matrix with those of q and k, without it. */
void sublayer_initialize(const struct sublayer *s);

/* The following are called by every thread of the team. */

/* Prepares the linear layers after a change of the weights. A barrier must follow. */
void sublayer_prepare(const struct sublayer *s);

/* Backward goes slab by slab (sublayer_pass.c). This is the most that a slab has: enough rows for
   the threads that share it. */
static inline size_t slab_rows(size_t threads) {
    return SUM_ROWS * ((threads * ROWS + SUM_ROWS - 1) / SUM_ROWS);
}

static inline size_t sublayer_widest(const struct sublayer *s) {
    return s->H > s->C ? s->H : s->C;
}

/* Whether s PRE(u) differs from u. */
static inline bool sublayer_has_normed(const struct sublayer *s) {
    return norm_present(&s->pre) || s->s_factor != 1;
}

/* Whether dnormed is kept for all tokens: the norm that reads it pools over tokens. That is PRE, or
   READ's norm if there is no PRE. */
static inline bool sublayer_keeps_dnormed(const struct sublayer *s) {
    return norm_pools(norm_present(&s->pre) ? &s->pre : &s->connection.norm);
}

/* Computes s->y (B,T,C) from the streams. A thread reads and writes its own rows of the streams. */
void sublayer_forward(struct sublayer *s, const struct pass *pass,
                      const struct sublayer_scratch *scratch);

/* Computes dx (B,T,C) from dy (B,T,C), and adds the gradients of the weight matrices. dy is read
   until the next barrier. */
void sublayer_backward(struct sublayer *s, const struct pass *pass, real *dx, const real *dy,
                       const struct sublayer_scratch *scratch);

/* The sum of x^2 over each row block of these rows, in squares (row_blocks), for probes. x (rows,C)
   points to the first of the rows. */
void sublayer_squares(struct range rows, size_t C, real *squares, const real *x);

#endif
