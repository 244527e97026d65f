/* The MLP's nonlinearity, elementwise: see activation.c. */
#ifndef ACTIVATION_H
#define ACTIVATION_H

#include "model/math/real.h"
#include <stddef.h>

struct activation {
    const char *name; // as in --act=NAME
    // y (count) = f(x)
    void (*forward)(size_t count, real *y, const real *x);
    // dx (count) = dy f'(x), and y (count) = f(x) again, since forward's y is not kept
    void (*backward)(size_t count, real *dx, real *y, const real *dy, const real *x);
};

extern const struct activation activations[]; // the last row has no name

#endif
