/* The MLP's nonlinearity, elementwise. */
#ifndef ACTIVATION_H
#define ACTIVATION_H

#include "model/math/real.h"
#include <stddef.h>

struct activation {
    const char *name; // as in --act=NAME
    // y (count) = f(x)
    void (*forward)(size_t count, real *y, const real *x);
    // dx (count) = dy f'(x), and y = f(x) once more: forward's is not kept
    void (*backward)(size_t count, real *dx, real *y, const real *dy, const real *x);
};

extern const struct activation activations[]; // ended by a row without a name

#endif
