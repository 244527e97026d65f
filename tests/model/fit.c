#include "tests/model/fit.h"
#include "data/text/corpus.h"
#include "tests/support.h"
#include <math.h>

const struct adamw_numbers fit_options = {0.9, 0.99, 1e-8, 0.1, 1};

double fit_batch(struct model *model, struct optimizer *adam, const struct batch *batch, int steps,
                 double lr, double enough) {
    double loss = INFINITY;
    for (int step = 0; step < steps && loss >= enough; step++) {
        model_zero_grad(model);
        model_forward(model, batch, true, step);
        loss = model_backward(model, batch, step, 1);
        optimizer_step(adam, &model->lists.param, lr * fmin(1, (step + 1) / 100.0),
                       optimizer_grad_norm(adam, &model->lists.param));
    }
    return loss;
}

void fit_small(struct model *model, const struct model_config *config, size_t B) {
    struct optimizer adam;
    struct batch batch = make_batch(B, config->block_size, SMALL_V, 3);
    model_init(model, config, SMALL_V, B, 1);
    adamw_init(&adam, fit_options, &model->lists.param, 1);
    fit_batch(model, &adam, &batch, 30, 1e-2, 0);
    batch_free(&batch);
    optimizer_free(&adam);
}
