/* Placements: where in a sub-layer the norms are. */
#pragma once

#include "model/connection/connection.h"

/* A factor in layer 0, 1, ... of L layers. */
typedef double placement_function(size_t layer, size_t L);

/* A sub-layer is y = POST(a x + b OUT(F(s PRE(x)))), with F attention or the MLP. A row says which
   of PRE, OUT and POST are norms (the others are the identity), and whether there is a norm after
   the embedding and one before the head. a, s and b are 1 unless the row has a function for them.

   The sum is the plain residual connection. A row may name another one (connection.h), which then
   computes it from x and OUT(F(..)) with the same a and b. --connection combines a row with a
   connection of the user's choice, unless the row's formula is one with its own (`fixed`).

   The two sub-layers of a layer may have different rows, and so may the layers: a row may name
   those of its attention and its MLP, or have a function that chooses a row by layer. A `qkv` row
   has norms of queries, keys and values in all layers, unless options choose others
   (model_inner_norm()). */
struct placement {
    const char *name;    // as in --placement=NAME
    const char *formula; // in a line
    const char *source;  // the paper, in a line
    bool pre, out, post, final, embedding;
    const char *connection; // NULL: plain
    bool fixed;             // no other connection
    bool plain;             // the norms learn neither gamma nor beta
    bool qk;                // queries and keys are normalized even without --qk-norm
    bool qkv;               // queries, keys and values are normalized
    bool gains; // q and k, the MLP's hidden units and the logits have learned factors (gain.h)
    bool unit;  // the weight matrices keep unit length along the stream's channels (tensor.h)
    placement_function *a, *s, *b;
    placement_function *initial;           // factor of the first weights of v, the MLP, proj
    bool initial_qk;                       // q and k too
    placement_function *initial_embedding; // and of the embeddings' initial weights
    const struct placement *(*of_layer)(size_t layer, size_t L, double mix_fraction); // or itself
    const char *attn, *ffn; // rows of its attention and of its MLP, or NULL: this row
    const char *full_name;  // another name that --placement takes, or NULL
};

extern const struct placement placements[]; // ended by a row without a name

const struct placement *placement_find(const char *name); // NULL if there is none

/* The factor of a row; 1 without a function. */
double placement_factor(placement_function *function, size_t layer, size_t L);

/* The row of one sub-layer of a layer: its attention, or its MLP. */
const struct placement *placement_of(const struct placement *row, bool attention, size_t layer,
                                     size_t L, double mix_fraction);

/* The row's connection. */
const struct connection_kind *placement_connection(const struct placement *row);

/* Why the row has no formula with this connection, in a few words; NULL if it has one. */
const char *placement_refuses(const struct placement *row, const struct connection_kind *kind);

/* Whether the row's attention, or its MLP, has a norm PRE, OUT or POST in some layer. */
bool placement_has_norms(const struct placement *row, bool attention);
