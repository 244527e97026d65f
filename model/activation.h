/* The MLP's nonlinearity, elementwise. */
#ifndef ACTIVATION_H
#define ACTIVATION_H

#include "real.h"
#include <stddef.h>

struct activation {
    const char *name;                                                        // as in --act=NAME
    void (*forward)(size_t count, real *y, const real *x);                   // y = f(x)
    void (*backward)(size_t count, real *dx, const real *dy, const real *x); // dx = dy f'(x)
};

extern const struct activation activations[]; // ended by a row without a name

#endif
