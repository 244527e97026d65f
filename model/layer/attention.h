/* Causal multi-head self-attention, between its two linear layers (c_attn and c_proj). */
#pragma once

#include "model/layer/dropout.h"
#include "model/math/arena.h"
#include "model/math/team.h"

/* One attention over a batch. Forward and backward of a batch take the same. HS = C / NH.

   A token has NH queries, and KV keys and values, KV a divisor of NH: each run of NH / KV heads, a
   group, shares a key and a value. qkv is (B,T,E) with E = C + 2 KV HS + gates: q, k, v; head h
   has the columns h HS .. (h+1) HS of q, group g the columns g HS .. (g+1) HS of k and of v. */
struct attention {
    size_t T, C, NH, KV;
    size_t gates;    // columns of qkv after q, k and v, for the gate below; 0: none
    const real *qkv; // (B,T,E)
    real *softmax;   // (B,NH,2,T): forward keeps here what backward needs; see attention.c
    real softcap;    // c, if scores z become c tanh(z / c); 0: they stay
    struct dropout dropout;
    size_t first;       // forward skips the queries before this token of each sequence
    size_t scratch_row; // reals of `scratch` (threads,scratch_row) below, as attention_scratch()
                        // says, or more
};

/* The size, in reals, of the scratch that each thread needs. */
size_t attention_scratch(const struct attention *attention);

/* The width E of a token's row in qkv. */
static inline size_t attention_row(const struct attention *a) {
    return a->C + 2 * (a->C / a->NH) * a->KV + a->gates;
}

/* The calling thread computes out (B,T,C) for the given heads only: head h of sequence b has number
   b NH + h. */
void attention_forward(const struct attention *a, struct range heads, real *out, real *scratch);

/* Computes dqkv (B,T,E) from dout (B,T,C), for a range of heads that consists of whole groups. */
void attention_backward(const struct attention *a, struct range heads, real *dqkv, const real *dout,
                        real *scratch);

/* ---- a sigmoid gate of attention's output ---- */

/* A token has G = gates numbers z, one for each run of C / G channels of the output. z and its
   gradient are the last columns of qkv and dqkv (M,E). x (M,C) = x * sigmoid(z), in place, by the
   calling thread: attention's output, or in backward the gradient of the gated one. Then dz is
   written to dqkv, from `out` (M,C), which forward left; else dqkv and out are NULL. Without gates
   nothing happens. */
void gate_apply(const struct attention *a, size_t M, real *x, const real *qkv, real *dqkv,
                const real *out);

/* ---- rotary positions of queries and keys ---- */

struct rope {
    size_t HS;                 // even; 0: there are no rotary positions
    const real *cosine, *sine; // (T,HS/2)
};

/* Makes the tables for positions up to T, with the base `theta` of the wavelengths. */
void rope_attach(struct rope *rope, size_t T, size_t HS, double theta, struct arena *arena);

/* Rotates `heads` heads of each of the tokens `rows`, whose sequences have T tokens, by `direction`
   times the angle: 1 in forward, -1 for gradients. x points to the first of these tokens; from
   token to token it is x_row numbers. By the calling thread. */
void rope_rotate(const struct rope *rope, size_t T, struct range rows, size_t heads, real direction,
                 real *x, size_t x_row);
