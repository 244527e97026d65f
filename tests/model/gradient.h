/* Gradients against central differences. */
#ifndef GRADIENT_H
#define GRADIENT_H

#include "tests/support.h"

/* Names the case that the next comparisons belong to, for their messages: the options of a model,
   as words, or what the format says. */
const char *model_words(const struct model_config *config);
void gradient_case(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Compares a gradient computed by backward with differences: fails where the relative error of dx
   (count) is 1e-6 or more. f(context) reads x. Where the function is steep, as norms of few numbers
   are, differences are too coarse and are repeated with steps ten and a hundred times smaller. An
   element far below `typical`, the size of the gradients around it, is measured against that: a
   bias before bn has a gradient of rounding errors only. Meaningful in double only. */
void expect_gradient(const char *what, double (*f)(void *context), void *context, size_t count,
                     real *x, const real *dx, double typical);

#endif
