/* Muon: momentum, orthogonalized by Newton-Schulz. For each matrix (rows,columns) of a hidden
   layer, with g the clipped gradient:

     m = momentum m + g
     u = g + momentum m                     Nesterov; without it u = m
     o = U V^T of u = U S V^T               nearly: newton_schulz.c
     w = w - lr decay w - lr 0.2 sqrt(max(rows, columns)) o

   The last factor gives an element of the update a root mean square near that of AdamW's updates,
   so that AdamW's learning rate and weight decay carry over. Queries, keys and values are
   orthogonalized as three matrices, a gated MLP's two halves as two. Embeddings, the head, biases,
   norms and other vectors are AdamW's.

   Jordan et al. 2024 (kellerjordan.github.io/posts/muon, github.com/KellerJordan/Muon); the factor:
   Liu et al. 2025, Moonlight, section 2.2 (arXiv:2502.16982). */
#include "data/die.h"
#include "model/optimizer/newton_schulz.h"
#include "model/optimizer/optimizer.h"
#include <math.h>

enum { LR, MOMENTUM, NESTEROV, STEPS }; // options

static const struct kind_option lr = {
    .name = "muon-lr",
    .start = "auto",
    .max = 1000,
    .help = "learning rate of hidden matrices with Muon, after warm-up; auto: --learning-rate. "
            "Other parameters use --learning-rate, and both follow the schedule"};
static const struct kind_option momentum = {
    .name = "muon-momentum", .start = "0.95", .max = 0.999999, .help = "momentum of Muon"};
static const struct kind_option nesterov = {.name = "muon-nesterov",
                                            .type = KIND_SWITCH,
                                            .start = "on",
                                            .help = "use Nesterov momentum in Muon"};
static const struct kind_option steps = {.name = "muon-steps",
                                         .type = KIND_INTEGER,
                                         .start = "5",
                                         .min = 1,
                                         .max = 100,
                                         .help =
                                             "number of Newton-Schulz steps in an update of Muon"};

static void check(const struct optimizer_rule *rule) {
    if (rule->option[LR].real >= 0 && rule->peak == 0)
        die(STATUS_USAGE,
            "--muon-lr=%g: follows the schedule of --learning-rate, which is 0 (give a "
            "--learning-rate above 0)",
            rule->option[LR].real);
}

static bool takes(const struct tensor *tensor) {
    return tensor->matrix_rows[0] > 0;
}

static size_t scratch_size(size_t rows, size_t columns) {
    return rows * columns + newton_schulz_scratch(rows, columns);
}

static void matrix(const struct optimizer_rule *rule, const struct optimizer_span *span,
                   real *scratch) {
    const size_t rows = span->rows, columns = span->columns;
    const double own = rule->option[LR].real;
    const double rate = own < 0 ? rule->rate : rule->rate * (own / rule->peak);
    const real mu = (real)rule->option[MOMENTUM].real, clip = rule->clip;
    real *w = span->w, *m = span->state[0], *u = scratch;
    const real *grad = span->grad;
    for (size_t i = 0; i < span->size; i++) m[i] = mul_add(mu, m[i], grad[i] * clip);
    for (size_t i = 0; i < span->size; i++)
        u[i] = rule->option[NESTEROV].integer ? mul_add(mu, m[i], grad[i] * clip) : m[i];

    const real *o =
        newton_schulz(rows, columns, u, rule->option[STEPS].integer, scratch + span->size);

    const real keep = optimizer_keep(rule, span->tensor, rate);
    const real scale = (real)(rate * 0.2 * sqrt(fmax((double)rows, (double)columns)));
    for (size_t i = 0; i < span->size; i++) w[i] = keep * w[i] - scale * o[i];
}

const struct optimizer_kind optimizer_muon = {
    .name = "muon",
    .formula = "m = mu m + g; U S V^T = g + mu m (with --muon-nesterov=off, m), a singular value "
               "decomposition; w -= lr (0.2 sqrt(max(rows, columns)) U V^T + decay w), where "
               "Newton-Schulz steps compute U V^T. Only for hidden matrices: adamw updates all "
               "others",
    .source = "Jordan et al. 2024 (kellerjordan.github.io/posts/muon); Liu et al. 2025 "
              "(arXiv:2502.16982)",
    .options = {[LR] = &lr, [MOMENTUM] = &momentum, [NESTEROV] = &nesterov, [STEPS] = &steps},
    .state = {"momentum_buffer"},
    .check = check,
    .takes = takes,
    .matrix = matrix,
    .scratch_size = scratch_size,
};
