/* Rounding is what the source says (model/math/real.h): where the source has operators, a product
   is rounded before the sum, and every form of mul_add() rounds alike. The compiler's flags decide
   this, so these tests fail if a flag is lost, on processors that have a fused multiply-add. */
#include "model/math/simd.h"
#include "tests/support.h"
#include <math.h>

enum { COUNT = 5 * LANES + 3 }; // full vectors and a rest

/* x^2 - 1 of x = 1 + 2^-k: rounded twice it is 2^(1-k), fused it has 2^-2k more. */
static real just_above_one(void) {
    volatile real k = in_double() ? (real)0x1p-30 : (real)0x1p-13; // unknown to the compiler
    return 1 + k;
}

static void fill(real *x, real *minus_one) {
    for (int i = 0; i < COUNT; i++) x[i] = just_above_one(), minus_one[i] = -1;
}

Test(rounding, operators_round_a_product_before_the_sum) {
    real x[COUNT], c[COUNT], plain[COUNT];
    fill(x, c);
    volatile real square = x[0] * x[0];
    real twice = square - 1;
    cr_assert(twice != (real)fma((double)x[0], (double)x[0], -1),
              "the sample cannot tell the two apart");
#pragma omp simd
    for (int i = 0; i < COUNT; i++) plain[i] = x[i] * x[i] + c[i];
    for (int i = 0; i < COUNT; i++) cr_expect(plain[i] == twice, "element %d of a loop", i);
    cr_expect(x[1] * x[1] + c[1] == twice, "one by one");
    vec v = vec_load(x), sum = v * v + vec_load(c);
    for (int i = 0; i < LANES; i++) cr_expect(sum[i] == twice, "lane %d", i);
}

Test(rounding, mul_add_is_the_same_in_every_form) {
    real x[COUNT], c[COUNT], loop[COUNT];
    fill(x, c);
    volatile real square = x[0] * x[0];
    // 1 + 2^-k and its square are exact in double,
    // so fma() in double rounds nothing
    real want = REAL_FUSED ? (real)fma((double)x[0], (double)x[0], -1) : square - 1;
#pragma omp simd
    for (int i = 0; i < COUNT; i++) loop[i] = mul_add(x[i], x[i], c[i]);
    for (int i = 0; i < COUNT; i++) cr_expect(loop[i] == want, "element %d of a loop", i);
    cr_expect(mul_add(x[1], x[1], c[1]) == want, "one by one");
    vec v = vec_load(x), sum = vec_mul_add(v, v, vec_load(c));
    for (int i = 0; i < LANES; i++) cr_expect(sum[i] == want, "lane %d", i);
    if (!in_double())
        cr_expect(mul_add_float((float)x[1], (float)x[1], -1) == (float)want, "of floats");
}
