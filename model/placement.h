/* Placements: where in a sub-layer the norms stand. */
#ifndef PLACEMENT_H
#define PLACEMENT_H

#include <stdbool.h>

/* A sub-layer is y = POST(a x + OUT(F(PRE(x)))), F attention or MLP: a row says which of the three
   are norms (the others are the identity), the factor a, and whether a norm stands before the head.
 */
struct placement {
    const char *name;    // as in --placement=NAME
    const char *formula; // in a line
    bool pre, out, post, final;
    double a;
};

extern const struct placement placements[]; // ended by a row without a name

#endif
