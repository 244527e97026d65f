/* Placements: where in a sub-layer the norms stand. */
#ifndef PLACEMENT_H
#define PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>

/* A sub-layer is y = POST(a x + OUT(F(s PRE(x)))), F attention or MLP: a row says which of the
   three are norms (the others are the identity), and whether a norm stands before the head and
   behind the embedding. a and s are 1 unless a function of the depth is named.

   A row that is `dual` has a second stream r beside x, which starts as the first layer's input;
   each sub-layer's OUT(F) is added to it, none reads it, and the head reads x + N(r), N the norm
   before the head. */
struct placement {
    const char *name;    // as in --placement=NAME
    const char *formula; // in a line
    const char *source;  // the paper, in a line
    bool pre, out, post, final, embedding, dual;
    double (*a)(size_t L);     // of L layers
    double (*s)(size_t layer); // in layer 0, 1, ...
    double (*gain)(size_t L);  // of the initial weights of v, the MLP and both proj
    const struct placement *(*of_layer)(size_t layer, size_t L, double mix_fraction); // another row
    const char *full_name; // another name that --placement takes, or NULL
    const char *options;   // names of the options that it uses and some placements do not, or NULL
};

extern const struct placement placements[]; // ended by a row without a name

const struct placement *placement_find(const char *name); // NULL if there is none

#endif
