/* One sub-layer of a Transformer: y = POST(a x + OUT(F(s PRE(x)))), where F is attention,

     F(x) = proj(attention(QK(in(x))))   in: C -> 3C, QK the norms of queries and keys, if any

   or the MLP,

     F(x) = proj(FFN(act(in(x))))        in: C -> 4C, FFN a norm, if any */
#ifndef SUBLAYER_H
#define SUBLAYER_H

#include "model/layer/activation.h"
#include "model/layer/attention.h"
#include "model/layer/linear.h"
#include "model/norm/norm.h"
#include "model/norm/qk_norm.h"
#include "model/placement.h"

struct sublayer {
    size_t C, hidden, mixed;             // widths behind `in` and before proj: 3C, C or 4C, 4C
    size_t heads;                        // of attention; 0: this is the MLP
    const struct activation *activation; // of the MLP
    double a, s, gain;
    struct norm pre, out, post;
    struct qk_norm qk_norm; // of attention
    struct norm ffn_norm;   // of the MLP
    struct linear in, proj;
    double dropout;
    uint64_t seed, site; // of dropout's streams
    const real *x;       // (B,T,C) the input, not owned
    // the second stream (placement.h), which F(x) is added to, and its gradient; not owned
    bool dual;
    real *stream;        // (B,T,C)
    const real *dstream; // (B,T,C)
    // What forward keeps for backward; a buffer of an identity stays NULL. PRE(x) and the MLP's
    // act(before) are computed again.
    real *before;     // (B,T,hidden) in(PRE(x)), q and k normalized
    real *after;      // (B,T,mixed) attention's output; act(before) if FFN pools over tokens
    real *softmax;    // (B,NH,2,T) of attention, see there
    real *projected;  // (B,T,C) proj's output, kept only for OUT
    real *sum;        // (B,T,C) a x + drop(OUT(projected))
    real *y;          // (B,T,C) POST(sum), or sum
    real *dy_squares; // (row_blocks) of a probed batch: sum of dy^2
};

/* Memory that the sub-layers of a kind, attention or MLP, share in backward. Where an operation is
   the identity its gradient is that of the one before, and the buffer stays NULL. `kept` are the
   tokens in hand. */
struct sublayer_scratch {
    real *dsum;       // (B,T,C) POST'(dy)
    real *dout;       // (B,T,C) drop(dsum + dstream)
    real *dprojected; // (B,T,C) OUT'(dout)
    real *dmixed;     // (B,T,C) of attention's output; (B,T,4C) of FFN's if that pools over tokens
    real *after;      // (kept,4C) what the MLP's proj reads, computed again
    real *dbefore;    // (B,T,3C) of attention, (kept,4C) of the MLP
    real *dqk[2];     // (B,T,C) of q and k normalized
    real *dnormed;    // (B,T,C) where PRE pools over tokens
    real *normed;     // (kept,C) PRE(x), computed again
    real *own;        // (threads,own_size), a piece for each thread, forward's too
    size_t own_size;
    // what the sub-layers need, widths as theirs
    size_t C, hidden, mixed;
    bool of_attention, needs_dsum, needs_dout, needs_dprojected, needs_dmixed, needs_dqk;
    bool needs_dnormed, needs_normed;
};

/* One forward and backward pass: which tokens, which of them are worked on (all, unless a sequence
   grows: see model_extend()), and the step that keys dropout. */
struct pass {
    struct tokens tokens;
    struct range rows;
    uint64_t step;
};

struct sublayer_options {
    const struct placement *placement;
    const struct norm_kind *norm;
    const struct norm_kind *inner_norm; // QK or FFN
    struct norm_options norm_options;
    const struct activation *activation;
    size_t C, heads, layer, depth; // layer `layer` of `depth`
    double gain;                   // of the initial weights of v, the MLP and proj
    bool xavier;                   // of all of them; else GPT-2's
    double dropout;
    bool bias;
    uint64_t seed;
    real *stream; // of the second stream, if the placement has one
    const real *dstream;
};

/* Declares layer `layer`'s sub-layer (attention if `heads` > 0, else MLP) of the input x (B,T,C)
   and takes its memory. */
void sublayer_attach(struct sublayer *s, const struct sublayer_options *options, const real *x,
                     const struct layout *layout);

/* Scratch for all sub-layers of a kind: each says what it needs, then it is taken for N tokens and
   as many threads. */
void sublayer_scratch_need(struct sublayer_scratch *scratch, const struct sublayer *s, size_t T);
void sublayer_scratch_attach(struct sublayer_scratch *scratch, size_t N, size_t threads,
                             struct arena *arena);

/* After the tensors have their initial values: those of v, which lie between others, times the gain
   of the placement. */
void sublayer_initialize(const struct sublayer *s);

/* After a change of the weights; then a barrier. This and what follows is called by every thread of
   the team. */
void sublayer_prepare(const struct sublayer *s);

/* Tokens of a slab, in which backward goes: enough blocks for all threads, and a multiple of the
   products' depth, so that their sums are cut at the same tokens whatever the number of threads. */
static inline size_t slab_rows(size_t threads) {
    return 256 * ((threads * ROWS + 255) / 256);
}

/* Tokens of which what backward computes again is kept: the slab in hand, and the one before, which
   other threads may still be reading. */
static inline size_t kept_rows(size_t threads) {
    return 2 * slab_rows(threads);
}

/* Whether s PRE(x) is another array than x. */
static inline bool sublayer_has_normed(const struct sublayer *s) {
    return norm_is(&s->pre) || s->s != 1;
}

/* s->y (B,T,C) of s->x. A thread needs its own rows of x, and makes its own rows of y. */
void sublayer_forward(struct sublayer *s, const struct pass *pass,
                      const struct sublayer_scratch *scratch);

/* dx (B,T,C) from dy (B,T,C), likewise, and the gradients of the weight matrices. dy may not be
   overwritten before a barrier that comes after it. */
void sublayer_backward(struct sublayer *s, const struct pass *pass, real *dx, const real *dy,
                       const struct sublayer_scratch *scratch);

/* The gradients of biases and norms, of N tokens; after a barrier. */
void sublayer_gradient(const struct sublayer *s, size_t N);

#endif
