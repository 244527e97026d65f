/* Rotary positions of queries and keys; see rope.c. */
#ifndef ROPE_H
#define ROPE_H

#include "model/math/arena.h"
#include "model/math/team.h"

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

#endif
