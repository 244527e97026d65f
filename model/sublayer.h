/* One sub-layer of a Transformer: y = POST(a x + OUT(F(PRE(x)))), where
   F(x) = proj(inner(in(x))), inner being attention (in: C -> 3C) or the MLP's activation (C -> 4C).
 */
#ifndef SUBLAYER_H
#define SUBLAYER_H

#include "activation.h"
#include "attention.h"
#include "linear.h"
#include "norm.h"
#include "placement.h"

struct sublayer {
    size_t C, hidden, mixed;             // widths before and after `inner`: 3C, C or 4C, 4C
    size_t heads;                        // of attention; 0: this is the MLP
    const struct activation *activation; // of the MLP
    double a;
    struct norm pre, out, post;
    struct linear in, proj;
    double dropout;
    uint64_t seed, site; // of dropout's streams
    // What forward keeps for backward; a buffer of an identity stays NULL.
    real *x;         // (B,T,C) the input, not owned
    real *normed;    // (B,T,C) PRE(x)
    real *before;    // (B,T,hidden) in(normed)
    real *after;     // (B,T,mixed) inner(before)
    real *logsum;    // (B,NH,T) of attention
    real *projected; // (B,T,C) proj(after), kept only for OUT
    real *sum;       // (B,T,C) a x + drop(OUT(projected))
    real *y;         // (B,T,C) POST(sum)
};

/* Memory that all sub-layers share: gradients on their way, and scratch. */
struct sublayer_scratch {
    real *stream[3]; // (B,T,C)
    real *wide[2];   // (B,T,4C)
    real *scratch;   // of linear, attention and norm
};

/* One forward and backward pass: which tokens, and the step that keys dropout. */
struct pass {
    struct tokens tokens;
    uint64_t step;
};

struct sublayer_options {
    const struct placement *placement;
    const struct norm_kind *norm;
    struct norm_options norm_options;
    const struct activation *activation;
    size_t C, heads, layer;
    double proj_deviation; // of proj's initial weights
    double dropout;
    bool bias;
    uint64_t seed;
};

/* Declares layer `layer`'s sub-layer (attention if `heads` > 0, else MLP) and takes its memory for
   up to B sequences of T tokens. */
void sublayer_attach(struct sublayer *s, const struct sublayer_options *options, size_t B, size_t T,
                     struct tensor_lists *lists, struct arena *arena);

/* Reals of scratch that a sub-layer uses on `threads` threads. */
size_t sublayer_scratch_size(const struct sublayer *s, size_t B, size_t T, size_t threads);

/* y (B,T,C) of x (B,T,C); the result lies in the sub-layer, or is x where nothing was done. */
real *sublayer_forward(struct sublayer *s, const struct pass *pass, real *x,
                       const struct sublayer_scratch *scratch);

/* dx (B,T,C) from dy (B,T,C), two buffers; parameter gradients are added. */
void sublayer_backward(struct sublayer *s, const struct pass *pass, real *dx, real *dy,
                       const struct sublayer_scratch *scratch);

#endif
