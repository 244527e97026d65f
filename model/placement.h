/* Placements: where in a sub-layer the norms stand. */
#ifndef PLACEMENT_H
#define PLACEMENT_H

#include "model/layer/lambda.h"

/* A sub-layer is y = POST(a x + OUT(F(s PRE(x)))), with F attention or the MLP. A row says which of
   PRE, OUT and POST are norms (the others are the identity), and whether there is a norm after the
   embedding and one before the head. a, s and b are 1 unless the row has a function for them.

   A `dual` row has a second stream r beside x. Both start as the embedding, x after the norm there.
   With F the sub-layer's OUT(F(..)),

     x = POST(a x + b F), r = r + F

   If the row `reads` r, PRE reads x + SECOND(r) instead of x, SECOND being one more norm, and the
   head reads FINAL(x + SECOND(r)). If not, only the head reads r: x + FINAL(r).

   A row with a learned `lambda` has sum = A x + B OUT(F) instead of a x + OUT(F), see lambda.h. It
   has no second stream.

   The two sub-layers of a layer may have different rows, and so may the layers: a row may name
   those of its attention and its MLP, or have a function that chooses a row by layer. A `qkv` row
   has norms of queries, keys and values in all layers, unless options choose others
   (model_inner_norm()). */
struct placement {
    const char *name;    // as in --placement=NAME
    const char *formula; // in a line
    const char *source;  // the paper, in a line
    bool pre, out, post, final, embedding, dual, reads;
    bool plain; // its norms learn neither gamma nor beta
    bool qk;    // queries and keys are normalized without --qk-norm too
    bool qkv;   // queries, keys and values are
    bool gains; // q and k, the MLP's hidden units and the logits have learned factors (gain.h)
    bool unit;  // the weight matrices keep unit length along the stream's channels (unit.h)
    double (*a)(size_t L);                     // of L layers
    double (*s)(size_t layer);                 // in layer 0, 1, ...
    double (*b)(size_t layer);                 // of dual rows
    double (*initial)(size_t layer, size_t L); // factor of the first weights of v, the MLP, proj
    bool initial_qk;                           // q and k too
    double (*initial_embedding)(size_t L);     // and of the embeddings' initial weights
    struct {
        enum lambda_form form;
        bool vector;         // C numbers, else one
        const char *name[2]; // after "transformer.h.0.": attention's, the MLP's; NULL: the same one
        double (*start)(size_t layer, size_t L); // the initial value
        double (*scale)(size_t C);               // of its parameter, or NULL: see lambda.h
        bool profiled;                           // model_profile() sets the initial value
    } lambda;
    const struct placement *(*of_layer)(size_t layer, size_t L, double mix_fraction); // or itself
    const char *attn, *ffn; // rows of its attention and of its MLP, or NULL: this row
    const char *full_name;  // another name that --placement takes, or NULL
    const char *options;    // names of options that not every placement uses, or NULL
};

extern const struct placement placements[]; // ended by a row without a name

const struct placement *placement_find(const char *name); // NULL if there is none

/* The row of one sub-layer of a layer: its attention, or its MLP. */
const struct placement *placement_of(const struct placement *row, bool attention, size_t layer,
                                     size_t L, double mix_fraction);

/* Whether the row's attention, or its MLP, has a norm PRE, OUT, POST or SECOND in some layer. */
bool placement_has_norms(const struct placement *row, bool attention);

#endif
