/* The stated errors of exp, erf, tanh and the normal distribution, against libm in double. */
#include "model/math/vecmath.h"
#include "tests/support.h"

static double ulps(float got, double want) {
    float size = fabsf((float)want);
    return fabs((double)got - want) / ((double)nextafterf(size, INFINITY) - (double)size);
}

Test(vecmath, exp_is_within_one_ulp) {
    double worst = 0;
    for (double x = -87.3; x < 88.7; x += 2.7e-5)
        worst = worse(worst, ulps(exp_float((float)x), exp((double)(float)x)));
    cr_expect(worst > 0.1 && worst < 1, "%g ulp", worst);
}

Test(vecmath, exp_at_the_ends) {
    cr_expect(exp_float(0) == 1);
    cr_expect(exp_float(-INFINITY) == 0);
    cr_expect(exp_float(-1000) == 0);
    cr_expect(isinf(exp_float(INFINITY)));
    cr_expect(isinf(exp_float(89)));
    cr_expect(isfinite(exp_float(88.7f)));
    cr_expect(isnan(exp_float(NAN)));
}

Test(vecmath, erf_is_within_its_stated_error) {
    double worst = 0;
    for (double x = -6; x < 6; x += 2.3e-6)
        worst = worse(worst, ulps(erf_float((float)x), erf((double)(float)x)));
    cr_expect(worst > 0.1 && worst < 2.6, "%g ulp", worst);
}

Test(vecmath, erf_at_the_ends) {
    cr_expect(erf_float(0) == 0);
    cr_expect(signbit(erf_float(-0.0f)));
    cr_expect(erf_float(INFINITY) == 1);
    cr_expect(erf_float(-INFINITY) == -1);
    cr_expect(isnan(erf_float(NAN)));
    cr_expect(fabs(ulps(erf_float(1e-30f), erf(1e-30))) < 2.6);
}

Test(vecmath, exp_nonpositive_is_within_one_ulp) {
    double worst = 0;
    for (double x = -87.3; x <= 0; x += 2.7e-5)
        worst = worse(worst, ulps(exp_nonpositive_float((float)x), exp((double)(float)x)));
    cr_expect(worst > 0.1 && worst < 1, "%g ulp", worst);
}

Test(vecmath, exp_nonpositive_at_the_ends) {
    cr_expect(exp_nonpositive_float(0) == 1);
    cr_expect(exp_nonpositive_float(-0.0f) == 1);
    cr_expect(exp_nonpositive_float(-INFINITY) == 0);
    cr_expect(exp_nonpositive_float(-1000) == 0);
    cr_expect(isnan(exp_nonpositive_float(NAN)));
    for (float x = 0; x < 1; x += 0.01f) // the rounding error of a difference that should be 0
        cr_expect(ulps(exp_nonpositive_float(x), exp((double)x)) < 1);
}

Test(vecmath, tanh_is_within_its_stated_error) {
    double worst = 0;
    for (double x = -12; x < 12; x += 4.3e-6)
        worst = worse(worst, ulps(tanh_float((float)x), tanh((double)(float)x)));
    cr_expect(worst > 0.1 && worst < 2, "%g ulp", worst);
}

Test(vecmath, tanh_at_the_ends) {
    cr_expect(tanh_float(0) == 0);
    cr_expect(signbit(tanh_float(-0.0f)));
    cr_expect(tanh_float(INFINITY) == 1);
    cr_expect(tanh_float(-INFINITY) == -1);
    cr_expect(isnan(tanh_float(NAN)));
    cr_expect(ulps(tanh_float(1e-30f), tanh(1e-30f)) < 2);
}

Test(vecmath, the_slope_of_tanh_keeps_its_digits) {
    const double tolerance = in_double() ? 1e-15 : 4e-7;
    for (double x = -40; x < 40; x += 1.3e-3) {
        double want = pow(cosh((double)(real)x), -2);
        cr_assert(fabs((double)tanh_slope((real)x) - want) <= tolerance * want, "at %g", x);
    }
    cr_expect(tanh_slope(0) == 1 && tanh_slope(1000) == 0 && tanh_slope(-INFINITY) == 0);
    cr_expect(isnan(tanh_slope(NAN)));
}

Test(vecmath, normal_is_within_its_stated_error) {
    double worst = 0, slope = 0;
    for (double x = -14; x < 14; x += 4.3e-6) {
        float at = (float)x, density, integral = normal_float(at, &density);
        double want = exp(-0.5 * (double)at * (double)at) / sqrt(2 * acos(-1));
        worst = worse(worst, fabs((double)integral - 0.5 * erfc(-(double)at * sqrt(0.5))));
        slope = worse(slope, fabs((double)density - want));
    }
    cr_expect(worst > 1e-9 && worst < 1e-7, "%g", worst);
    cr_expect(slope > 1e-9 && slope < 6e-8, "%g", slope);
}

Test(vecmath, normal_at_the_ends) {
    float density;
    cr_expect(normal_float(0, &density) == 0.5f && fabsf(density - 0.3989422804f) < 1e-7f);
    cr_expect(normal_float(INFINITY, &density) == 1 && density == 0);
    cr_expect(normal_float(-INFINITY, &density) == 0 && density == 0);
    cr_expect(isnan(normal_float(NAN, &density)) && isnan(density));
}
