/* The stated errors of exp and erf, against libm in double. */
#include "../model/vecmath.h"
#include <criterion/criterion.h>

static double ulps(float got, double want) {
    float size = fabsf((float)want);
    return fabs((double)got - want) / ((double)nextafterf(size, INFINITY) - (double)size);
}

Test(vecmath, exp_is_within_one_ulp) {
    double worst = 0;
    for (double x = -87.3; x < 88.7; x += 2.7e-5)
        worst = fmax(worst, ulps(exp_float((float)x), exp((double)(float)x)));
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
        worst = fmax(worst, ulps(erf_float((float)x), erf((double)(float)x)));
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
