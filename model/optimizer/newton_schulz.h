/* Orthogonalization of a matrix by Newton-Schulz iterations. */
#ifndef NEWTON_SCHULZ_H
#define NEWTON_SCHULZ_H

#include "model/math/real.h"
#include <stdint.h>

/* The number of reals of `scratch` for a matrix of this shape. */
size_t newton_schulz_scratch(size_t rows, size_t columns);

/* Returns nearly U V^T of x (rows,columns) = U S V^T: singular values become 0.7 to 1.2 after five
   steps, except for those below 0.002 of the Frobenius norm of x. Zeros stay zeros. The result
   is in x or in `scratch`; x is overwritten. By the calling thread. */
const real *newton_schulz(size_t rows, size_t columns, real *x, int64_t steps, real *scratch);

#endif
