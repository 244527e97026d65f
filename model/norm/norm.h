/* Norms behind one interface. A kind of norm is one file and one line in list.h. Everything else,
   from --norm to the tests and the model file, follows from the kind's row (kind.h). */
#pragma once

#include "model/norm/kind.h"

/* Declares the tensors of a norm of `kind` at the site `name` ("transformer.h.0.ln_1") and takes
   its memory. `name` is "" for an identity where the placement or an option has no norm. */
void norm_attach(struct norm *norm, const struct norm_kind *kind,
                 const struct norm_options *options, const char *name, size_t C,
                 const struct layout *layout);

/* Whether the norm is not the identity. */
static inline bool norm_present(const struct norm *norm) {
    return norm->kind->forward != NULL;
}

/* Whether the norm has statistics over several tokens. */
static inline bool norm_pools(const struct norm *norm) {
    return norm->kind->statistics != NULL;
}

/* Every thread of the team calls these before forward or backward of the first block. They wait
   until x or dy (B,T,C) is complete, and do nothing unless norm_pools(). */
void norm_statistics(const struct norm *norm, const struct tokens *tokens, const real *x);
void norm_gradient_statistics(const struct norm *norm, const struct tokens *tokens, const real *dy,
                              const real *x);

/* norm_forward() computes y = norm(x) for some rows and returns y. x and y point to the first of
   them, and may not overlap. The identity writes nothing and returns x. norm_backward() computes dx
   from dy in the same way; its rows are full row blocks. */
const real *norm_forward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                         real *y, const real *x);
const real *norm_backward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                          real *dx, const real *dy, const real *x);
