/* What a norm alone promises. Tests that hold for every kind iterate the list. Outputs and gradients of
   all norms are compared with PyTorch for six channels (test_golden_norms.c), gradients of larger shapes
   with differences (test_gradient_norm.c). Here shapes have several row blocks and vectors. */
#include "tests/model/theory.h"
#include "tests/support.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

Test(norm, outputs_have_the_promised_moments) {
    static const struct {
        const char *name;
        bool over_tokens, centred;
    } norms[] = {
        {"ln", false, true}, {"rms", false, false}, {"bn", true, true}, {"pn-v", true, false}};
    real *x = random_reals(COUNT, 1), y[COUNT];
    for (size_t i = 0; i < COUNT; i++) x[i] = 5 + 3 * x[i];
    for (size_t k = 0; k < sizeof norms / sizeof *norms; k++) {
        const bool over_tokens = norms[k].over_tokens;
        theory_apply(norms[k].name, y, x);
        for (size_t i = 0; i < (over_tokens ? C : N); i++) {
            double mean, square;
            theory_moments(over_tokens ? y + i : y + i * C, over_tokens ? N : C,
                           over_tokens ? C : 1, &mean, &square);
            cr_expect(norms[k].centred ? fabs(mean) < 1e-5 : mean > 0.5, "%s: mean %g",
                      norms[k].name, mean);
            cr_expect(fabs(square - 1) < 1e-4, "%s: square %g", norms[k].name, square);
        }
    }
}

Test(norm, extreme_tokens_stay_finite) {
    real x[COUNT] = {0}, y[COUNT];
    for (size_t c = 0; c < C; c++) x[C + c] = 5; // a constant token among zeros
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++) {
        if (!(*kind)->forward) continue;
        struct lone_norm lone = lone_norm(*kind, B, T, C);
        lone_norm_forward(&lone, y, x);
        for (size_t i = 0; i < COUNT; i++) cr_expect(isfinite(y[i]), "%s", (*kind)->name);
    }
}

Test(norm, none_passes_its_input_by) {
    real x[COUNT] = {0}, y[COUNT];
    struct lone_norm lone = lone_norm(norm_find("none"), B, T, C);
    struct range all = {0, N};
    cr_expect_eq(norm_forward(&lone.norm, &lone.tokens, all, y, x), x);
    cr_expect_eq(norm_backward(&lone.norm, &lone.tokens, all, y, x, x), x);
}
