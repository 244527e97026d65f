/* The MLP's nonlinearity: see activation.c. */
#pragma once

#include "model/math/real.h"
#include <stdbool.h>
#include <stddef.h>

enum activation_curve { CURVE_GELU, CURVE_GELU_TANH, CURVE_RELU, CURVE_RELU2, CURVE_SILU };

struct activation {
    const char *name;            // as in --act=NAME
    enum activation_curve curve; // f
    bool gated;                  // the MLP has a second half of hidden units u, and y = f(x) u
};

extern const struct activation activations[]; // the last row has no name

/* The columns that the activation reads for H columns that it writes: H, or 2H with a gate. */
size_t activation_inputs(const struct activation *activation, size_t H);

/* y (M,H) from x (M,activation_inputs()): f(x); with a gate f(x's first half) times its second. */
void activation_forward(const struct activation *activation, size_t M, size_t H, real *y,
                        const real *x);

/* dx like x, from dy (M,H); and y again. None of them overlap. */
void activation_backward(const struct activation *activation, size_t M, size_t H, real *dx, real *y,
                         const real *dy, const real *x);
