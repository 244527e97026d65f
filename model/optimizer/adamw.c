/* AdamW: Adam with decoupled weight decay. With t the number of this update, counted from 1, and g
   the clipped gradient:

     m = beta1 m + (1 - beta1) g
     v = beta2 v + (1 - beta2) g^2
     w = w - lr decay (w - w0) - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)

   Kingma and Ba 2015, algorithm 1 (arXiv:1412.6980); Loshchilov and Hutter 2019, algorithm 2
   (arXiv:1711.05101). */
#include "model/math/vecmath.h"
#include "model/optimizer/optimizer.h"

static const struct option beta1 = {"beta1", NUMBER(OPTION_REAL, "0.9", 0, 0.999999),
                                    .help = "decay rate of Adam's first moment"};
static const struct option beta2 = {"beta2", NUMBER(OPTION_REAL, "0.99", 0, 0.999999),
                                    .help = "decay rate of Adam's second moment"};
static const struct option eps = {"adam-eps", NUMBER(OPTION_REAL, "1e-8", 1e-20, 1),
                                  .help = "epsilon in Adam's denominator"};

static void elements(const struct optimizer_rule *rule, const struct optimizer_span *span) {
    const double b1 = optimizer_option(rule, &beta1).real, b2 = optimizer_option(rule, &beta2).real;
    const real keep1 = (real)b1, rest1 = (real)(1 - b1), keep2 = (real)b2, rest2 = (real)(1 - b2);
    const real epsilon = (real)optimizer_option(rule, &eps).real, clip = rule->clip;
    const real rate = (real)(rule->rate / (1 - pow(b1, (double)rule->step)));
    const real unbias = (real)(1 / sqrt(1 - pow(b2, (double)rule->step)));
    const real keep = optimizer_keep(rule, span->tensor, rule->rate);
    real *w = span->w, *m = span->state[0], *v = span->state[1];
    const real *grad = span->grad;
#pragma omp simd
    for (size_t i = 0; i < span->size; i++) {
        real g = grad[i] * clip;
        m[i] = mul_add(keep1, m[i], rest1 * g);
        v[i] = mul_add(keep2, v[i], rest2 * g * g);
        w[i] = keep * w[i] - rate * m[i] / mul_add(sqrt_real(v[i]), unbias, epsilon);
    }
}

const struct optimizer_kind optimizer_adamw = {
    .name = "adamw",
    .formula = "m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2; w -= lr (m' / "
               "(sqrt(v') + eps) + decay w), m' = m / (1 - beta1^t), v' = v / (1 - beta2^t) at "
               "update t",
    .source = "Kingma and Ba 2015 (arXiv:1412.6980); Loshchilov and Hutter 2019 "
              "(arXiv:1711.05101)",
    .options = {&beta1, &beta2, &eps},
    .state = {"exp_avg", "exp_avg_sq"},
    .elements = elements};
