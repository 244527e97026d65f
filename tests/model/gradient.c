#include "tests/model/gradient.h"
#include "model/lab/config.h"
#include "tests/sanitizer.h"
#include <math.h>
#include <stdarg.h>
#include <string.h>

/* df/dx by central differences of fourth order with step h. *x is restored. */
static double slope_of(double (*f)(void *context), void *context, real *x, double h) {
    const real keep = *x;
    const double steps[] = {-2, -1, 1, 2};
    double at[4];
    for (int k = 0; k < 4; k++) {
        *x = (real)((double)keep + steps[k] * h);
        at[k] = f(context);
    }
    *x = keep;
    return (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * h);
}

const char *model_words(const struct model_config *model) {
    static char words[1024];
    const struct model_config usual = small_config((int)model->norm, (int)model->placement);
    const struct config given = {.model = *model}, other = {.model = usual};
    size_t used =
        (size_t)snprintf(words, sizeof words, "--norm=%s --placement=%s",
                         norm_kinds[model->norm]->name, placements[model->placement].name);
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        char one[64], two[64];
        const char *value = option_value(o, &given, one, sizeof one);
        const char *usually = option_value(o, &other, two, sizeof two);
        if (value && usually && strcmp(value, usually) != 0 && used < sizeof words)
            used += (size_t)snprintf(words + used, sizeof words - used, " --%s=%s", o->name, value);
    }
    return words;
}

static char case_name[1100]; // with ": "

void gradient_case(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(case_name, sizeof case_name - 2, format, arguments);
    va_end(arguments);
    strcat(case_name, ": ");
}

void expect_gradient(const char *what, double (*f)(void *context), void *context, size_t count,
                     real *x, const real *dx, double typical) {
    const double limit = 1e-6;
    double worst = 0;
    size_t where = 0;
    for (size_t i = 0; i < count; i += SANITIZED ? 5 : sweep() ? 1 : 3) {
        double error = INFINITY;
        for (double h = 3e-4; h > 2e-6 && !(error < limit); h /= 10) {
            double slope = slope_of(f, context, &x[i], h);
            double scale = fmax(fmax(fabs(slope), fabs((double)dx[i])), 1e-2 * typical);
            error = fabs(slope - (double)dx[i]) / scale;
        }
        if (!(error <= worst)) worst = error, where = i;
        if (isnan(worst)) break; // which a later error would replace
    }
    cr_expect(count > 0 && typical > 0, "%s%s: nothing to compare", case_name, what);
    cr_expect(worst < limit, "%s%s: relative error %g at element %zu of %zu", case_name, what,
              worst, where, count);
}
