/* Arithmetic of vectors. Loads and stores of the first n lanes: what they must not touch is NaN or
   stays as it was. Rounding is what the source says (model/math/real.h): where the source has
   operators, a product is rounded before the sum, and every form of mul_add() rounds alike. The
   compiler's flags decide this, so these tests fail if a flag is lost, on processors that have a
   fused multiply-add. The stated errors of exp, erf, tanh and the normal distribution, against libm
   in double. */
#include "model/math/simd.h"
#include "model/math/vecmath.h"
#include "tests/support.h"

Test(simd, the_first_lanes_are_loaded_and_stored_alone) {
    for (size_t n = 0; n <= (size_t)LANES; n++) {
        real from[2 * LANES], to[2 * LANES];
        for (size_t i = 0; i < 2 * (size_t)LANES; i++)
            from[i] = i < n ? (real)i + 1 : NAN, to[i] = -1;
        vec v = vec_load_first(from, n);
        for (size_t i = 0; i < (size_t)LANES; i++)
            cr_expect_eq(v[i], i < n ? (real)i + 1 : 0, "n %zu, lane %zu: %g", n, i, (double)v[i]);
        vec_store_first(to, v, n);
        for (size_t i = 0; i < 2 * (size_t)LANES; i++)
            cr_expect_eq(to[i], i < n ? (real)i + 1 : -1, "n %zu, element %zu: %g", n, i,
                         (double)to[i]);
    }
}

enum { COUNT = 5 * LANES + 3 }; // full vectors and a rest

/* x^2 - 1 of x = 1 + 2^-k: rounded twice it is 2^(1-k), fused it has 2^-2k more. */
Test(rounding, operators_round_twice_and_every_form_of_mul_add_alike) {
    volatile real k = in_double() ? (real)0x1p-30 : (real)0x1p-13; // unknown to the compiler
    real x[COUNT], c[COUNT], plain[COUNT], added[COUNT];
    for (int i = 0; i < COUNT; i++) x[i] = 1 + k, c[i] = -1;
    volatile real square = x[0] * x[0];
    // x and its square are exact in double, so fma() in double rounds nothing
    const real twice = square - 1, once = (real)fma((double)x[0], (double)x[0], -1);
    const real want = REAL_FUSED ? once : twice;
    cr_assert(twice != once, "the sample cannot tell the two apart");
#pragma omp simd
    for (int i = 0; i < COUNT; i++) plain[i] = x[i] * x[i] + c[i];
#pragma omp simd
    for (int i = 0; i < COUNT; i++) added[i] = mul_add(x[i], x[i], c[i]);
    for (int i = 0; i < COUNT; i++)
        cr_expect(plain[i] == twice && added[i] == want, "element %d of a loop", i);
    cr_expect(x[1] * x[1] + c[1] == twice && mul_add(x[1], x[1], c[1]) == want, "one by one");
    vec v = vec_load(x), sum = v * v + vec_load(c), fused = vec_mul_add(v, v, vec_load(c));
    for (int i = 0; i < LANES; i++) cr_expect(sum[i] == twice && fused[i] == want, "lane %d", i);
    if (!in_double())
        cr_expect(mul_add_float((float)x[1], (float)x[1], -1) == (float)want, "of floats");
}

static double ulps(float got, double want) {
    float size = fabsf((float)want);
    return fabs((double)got - want) / ((double)nextafterf(size, INFINITY) - (double)size);
}

/* The functions, the range in which they are compared with libm, their stated errors, and their
   values at the ends of their domain. */
Test(vecmath, functions_are_within_their_stated_errors) {
    static const struct {
        const char *name;
        float (*function)(float x);
        double (*libm)(double x);
        double from, to, step, limit;
        float low, end, high;
    } functions[] = {{"exp_nonpositive", exp_nonpositive_float, exp, -87.3, 0, 2.7e-5, 1, 0, 0, 1},
                     {"erf", erf_float, erf, -6, 6, 2.3e-6, 2.6, -1, INFINITY, 1},
                     {"tanh", tanh_float, tanh, -12, 12, 4.3e-6, 2, -1, INFINITY, 1}};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        double worst = 0;
        cr_expect(functions[i].function(-INFINITY) == functions[i].low);
        cr_expect(functions[i].function(-1000) == functions[i].low);
        cr_expect(functions[i].function(functions[i].end) == functions[i].high);
        for (double x = functions[i].from; x < functions[i].to; x += functions[i].step)
            worst = worse(
                worst, ulps(functions[i].function((float)x), functions[i].libm((double)(float)x)));
        cr_expect(worst > 0.1 && worst < functions[i].limit, "%s: %g ulp", functions[i].name,
                  worst);
        cr_expect(isnan(functions[i].function(NAN)), "%s of nan", functions[i].name);
    }
}

Test(vecmath, exp_at_its_end) {
    for (float x = 0; x < 1; x += 0.01f) // the rounding error of a difference that should be 0
        cr_expect(ulps(exp_nonpositive_float(x), exp((double)x)) < 1);
}

Test(vecmath, normal_is_within_its_stated_error) {
    double worst = 0, slope = 0;
    for (double x = -14; x < 14; x += 4.3e-6) {
        float argument = (float)x, density, integral = normal_float(argument, &density);
        double want = exp(-0.5 * (double)argument * (double)argument) / sqrt(2 * acos(-1));
        worst = worse(worst, fabs((double)integral - 0.5 * erfc(-(double)argument * sqrt(0.5))));
        slope = worse(slope, fabs((double)density - want));
    }
    cr_expect(worst > 1e-9 && worst < 1e-7, "%g", worst);
    cr_expect(slope > 1e-9 && slope < 6e-8, "%g", slope);
    float density;
    cr_expect(normal_float(INFINITY, &density) == 1 && density == 0);
    cr_expect(isnan(normal_float(NAN, &density)) && isnan(density));
}
