/* Stochastic gradient descent with momentum and decoupled weight decay. With g the clipped
   gradient:

     m = momentum m + g
     u = g + momentum m                     Nesterov; without it u = m
     w = w - lr decay (w - w0) - lr u

   Sutskever et al. 2013, "On the importance of initialization and momentum in deep learning", in
   the form of PyTorch's torch.optim.SGD; weight decay as in Loshchilov and Hutter 2019, algorithm 1
   (arXiv:1711.05101). */
#include "model/optimizer/optimizer.h"

static const struct option momentum = {"sgd-momentum", NUMBER(OPTION_REAL, "0.9", 0, 0.999999),
                                       .help = "momentum of SGD"};
static const struct option nesterov = {"sgd-nesterov", OPTION_SWITCH, .start = "on",
                                       .help = "use Nesterov momentum in SGD"};

static void elements(const struct optimizer_rule *rule, const struct optimizer_span *span) {
    const real mu = (real)optimizer_option(rule, &momentum).real, clip = rule->clip,
               rate = (real)rule->rate;
    const real keep = optimizer_keep(rule, span->tensor, rule->rate);
    const bool ahead = optimizer_option(rule, &nesterov).integer;
    real *w = span->w, *m = span->state[0];
    const real *grad = span->grad;
#pragma omp simd
    for (size_t i = 0; i < span->size; i++) {
        real g = grad[i] * clip;
        m[i] = mul_add(mu, m[i], g);
        w[i] = keep * w[i] - rate * (ahead ? mul_add(mu, m[i], g) : m[i]);
    }
}

const struct optimizer_kind optimizer_sgd = {
    .name = "sgd",
    .formula = "m = mu m + g; w -= lr (g + mu m + decay w), or with --sgd-nesterov=off w -= lr (m "
               "+ decay w)",
    .source = "Sutskever et al. 2013; weight decay as Loshchilov and Hutter 2019 "
              "(arXiv:1711.05101)",
    .options = {&momentum, &nesterov},
    .state = {"momentum_buffer"},
    .elements = elements};
