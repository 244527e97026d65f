/* What a comparison says that fails: the case, the element, both numbers, and what a relative error
   means. A case fails once. */
#include "tests/model/golden.h"
#include "tests/support.h"
#include <string.h>

static double three_x(void *x) {
    return 3 * (double)*(real *)x;
}

/* Whether the last failure contains the words. */
static bool says(const char *words) {
    return strstr(case_failure(), words) != NULL;
}

/* `dx` is compared with the derivative 3. */
static bool agrees(real dx) {
    real x = 2;
    return gradient_agrees("dx", three_x, &x, 1, &x, &dx, 1);
}

Test(gradient, a_case_fails_once) {
    static const struct {
        real dx;
        const char *says;
    } wrong[] = {{-3, "is -3, by differences 3: relative error 2 ("},
                 {0, "is 0, by differences 3: relative error 1 ("},
                 {6, "is 6, by differences 3: relative error 0.5 ("},
                 {NAN, "is nan, by differences 3: relative error nan ("}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        gradient_case("case %zu", i);
        cr_expect(agrees(3) && !case_failed());
        cr_expect(!agrees(wrong[i].dx) && case_failed());
        cr_expect(says(wrong[i].says) && says("the opposite sign 2)"), "%s", case_failure());
        cr_expect(agrees(-1), "the case fails again");
        cr_expect(!says("is -1"), "%s", case_failure());
    }
}

Test(golden, a_case_fails_once) {
    static const char path[] = "tests/golden/norms.txt", key[] = "ln:dbias:0";
    real want[6];
    golden_read(path, key, 6, want);
    for (int nan = 0; nan < 2; nan++) {
        gradient_case("case %d", nan);
        real *got = copy_reals(6, want);
        cr_expect(golden_agrees(path, key, 6, got, 1e-12, 0) && reals_agree("x", 6, got, want, 0));
        got[5] = nan ? NAN : -want[5]; // the largest
        cr_expect(!golden_agrees(path, key, 6, got, 1e-12, 0));
        cr_expect(says("norms.txt: ln:dbias:0: element 5 of 6 is "), "%s", case_failure());
        cr_expect(nan || says("relative error of 2 ("), "%s", case_failure());
        cr_expect(golden_agrees(path, key, 6, got, 1e-12, 0), "the case fails again");
        cr_expect(reals_agree("x", 6, got, want, 0), "the case fails again");
        gradient_case("next");
        cr_expect(!reals_agree("x", 6, got, want, 0.1) && says("x: off by"));
    }
}
