/* Loads and stores of the first n lanes of a vector, for every n: what they must not touch is NaN
   or stays as it was. */
#include "model/math/simd.h"
#include <criterion/criterion.h>
#include <math.h>

Test(simd, load_first_reads_n_elements_and_zeros_the_rest) {
    for (size_t n = 0; n <= (size_t)LANES; n++) {
        real from[2 * LANES];
        for (size_t i = 0; i < 2 * (size_t)LANES; i++) from[i] = i < n ? (real)i + 1 : NAN;
        vec v = vec_load_first(from, n);
        for (size_t i = 0; i < (size_t)LANES; i++)
            cr_expect_eq(v[i], i < n ? (real)i + 1 : 0, "n %zu, lane %zu: %g", n, i, (double)v[i]);
    }
}

Test(simd, store_first_writes_n_elements_and_leaves_the_rest) {
    for (size_t n = 0; n <= (size_t)LANES; n++) {
        real to[2 * LANES];
        for (size_t i = 0; i < 2 * (size_t)LANES; i++) to[i] = -1;
        vec v;
        for (int i = 0; i < LANES; i++) v[i] = (real)i + 1;
        vec_store_first(to, v, n);
        for (size_t i = 0; i < 2 * (size_t)LANES; i++)
            cr_expect_eq(to[i], i < n ? (real)i + 1 : -1, "n %zu, element %zu: %g", n, i,
                         (double)to[i]);
    }
}
