/* Normalizations behind one interface. A kind of norm is one file (norm_*.c) and one row of the
   table in norm.c; everything else, from --norm to the tests and the model file, follows from the
   row.

   A norm maps x (B,T,C) to y (B,T,C). What it learns (gamma, beta), what it tracks (running
   statistics) and what forward keeps for backward are declared by the row and handed out by
   norm_attach(). */
#ifndef NORM_H
#define NORM_H

#include "arena.h"
#include "tensor.h"
#include <stdbool.h>

enum { NORM_TENSORS = 4 }; // at most so many parameters, and so many states, of a norm

/* Settings from the command line, the same at every site. */
struct norm_options {
    double eps;         // inside the square root
    double bn_momentum; // share of the batch in the running statistics
    bool affine;        // gamma and beta are learned
    bool bias;          // beta is learned
};

/* Which tokens there are. A norm that pools over tokens leaves invalid ones (pads) out of its
   statistics, and in evaluation (`training` false) uses running statistics. */
struct tokens {
    size_t B, T;
    const unsigned char *valid; // (B,T), 0 marks a pad; NULL: all are valid
    bool training;
};

/* A tensor of a norm, named as in PyTorch: C reals or one, all `start` at first. */
struct norm_tensor {
    const char *name; // "weight", "bias", "running_mean", ...; NULL ends the list
    bool scalar;      // one number, not one for each channel
    double start;
};

struct norm; // one norm at one site of the model

struct norm_kind {
    const char *name;    // as in --norm=NAME
    const char *formula; // in a line
    struct norm_tensor param[NORM_TENSORS + 1];
    struct norm_tensor state[NORM_TENSORS + 1];
    /* Reals that forward keeps for backward, and reals of scratch that either may use. */
    size_t (*saved)(size_t tokens, size_t C);
    size_t (*scratch)(size_t tokens, size_t C);
    /* y = norm(x). NULL in the identity, which norm_forward() passes by. */
    void (*forward)(const struct norm *norm, const struct tokens *tokens, real *y, const real *x,
                    real *scratch);
    /* dx = gradient of the input (written), param[].grad += gradients of the parameters; after
       forward of the same x. */
    void (*backward)(const struct norm *norm, const struct tokens *tokens, real *dx, const real *dy,
                     const real *x, real *scratch);
};

struct norm {
    const struct norm_kind *kind;
    struct norm_options options;
    size_t C;
    struct param param[NORM_TENSORS]; // in the order of the row
    real *state[NORM_TENSORS];
    real *saved;
};

/* The table, ended by NULL. */
extern const struct norm_kind *const norm_kinds[];

const struct norm_kind *norm_find(const char *name); // NULL if there is none

/* Declares the tensors of a norm of `kind` at the site `name` ("transformer.h.0.ln_1") and takes
   its saved values, for up to `tokens` tokens, from the arena. */
void norm_attach(struct norm *norm, const struct norm_kind *kind,
                 const struct norm_options *options, const char *name, size_t tokens, size_t C,
                 struct tensor_lists *lists, struct arena *arena);

/* norm(x) in y, or x itself where the norm is the identity; likewise dx or dy. x and y may not
   overlap. */
real *norm_forward(const struct norm *norm, const struct tokens *tokens, real *y, real *x,
                   real *scratch);
real *norm_backward(const struct norm *norm, const struct tokens *tokens, real *dx, real *dy,
                    const real *x, real *scratch);

/* For kinds that sum over tokens: the tokens in a fixed number of chunks, each summed by one thread
   and the chunks then added in order, so that the sum does not depend on the number of threads. */
enum { TOKEN_CHUNKS = 32 };

static inline size_t chunk_begin(size_t chunk, size_t tokens) {
    return chunk * tokens / TOKEN_CHUNKS;
}

/* sum (C) += the chunks' partial sums, row `chunk` of which begins at partial + chunk * row. */
void norm_add_chunks(real *sum, const real *partial, size_t row, size_t C);

#endif
