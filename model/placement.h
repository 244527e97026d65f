/* Placements: where in a sub-layer the norms stand. */
#ifndef PLACEMENT_H
#define PLACEMENT_H

#include "model/layer/lambda.h"

/* A sub-layer is y = POST(a x + OUT(F(s PRE(x)))), with F attention or the MLP. A row says which of
   PRE, OUT and POST are norms (the others are the identity), and whether there is a norm after the
   embedding and one before the head. a and s are 1 unless the row has a function for them.

   A row with a learned `lambda` has sum = A x + B OUT(F) instead of a x + OUT(F), see lambda.h.

   A `dual` row has a second stream r beside x. It starts as the first layer's input. Each
   sub-layer's OUT(F) is added to it too, but only the head reads it: x + N(r), N being the norm
   before the head. Such a row has no lambda. */
struct placement {
    const char *name;    // as in --placement=NAME
    const char *formula; // in a line
    const char *source;  // the paper, in a line
    bool pre, out, post, final, embedding, dual;
    bool plain; // its norms learn neither gamma nor beta
    bool qk;    // queries and keys are normalized without --qk-norm too
    bool gains; // q and k, the MLP's hidden units and the logits have learned factors (gain.h)
    bool unit;  // the weight matrices keep unit length along the stream's channels (unit.h)
    double (*a)(size_t L);     // of L layers
    double (*s)(size_t layer); // in layer 0, 1, ...
    double (*gain)(size_t L);  // factor of the initial weights of v, the MLP and both proj
    struct {
        enum lambda_form form;
        bool vector;         // C numbers, else one
        const char *name[2]; // after "transformer.h.0.": attention's, the MLP's; NULL: the same one
        double (*start)(size_t layer, size_t L); // the initial value
        double (*scale)(size_t C);               // of its parameter, or NULL: see lambda.h
    } lambda;
    const struct placement *(*of_layer)(size_t layer, size_t L, double mix_fraction); // or itself
    const char *full_name; // another name that --placement takes, or NULL
    const char *options;   // names of options that not every placement uses, or NULL
};

extern const struct placement placements[]; // ended by a row without a name

const struct placement *placement_find(const char *name); // NULL if there is none

#endif
