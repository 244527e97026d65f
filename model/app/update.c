/* An update adds up the gradients of its batches, each with its share of the update's targets
   as its weight: so the sum is the gradient of the mean loss over all targets, however they are
   batched. */
#include "model/app/update.h"
#include "data/clock.h"
#include "model/app/calendar.h"
#include "model/math/profile.h"
#include "model/model_pass.h"
#include <math.h>

struct batch_count update_count_targets(struct loader *loader, int64_t step) {
    const struct config *config = loader->config;
    struct batch *batch = &loader->batch;
    struct batch_count total = {0};
    if (!loader->corpus.kind->pads)
        return (struct batch_count){.targets =
                                        (size_t)config->grad_accum * batch->B_max * batch->T};
    // Backwards, since a corpus of items keeps one pool of items in memory (items.c): the pool that is
    // left is then the one from which training reads the first batch.
    for (int64_t i = config->grad_accum; i-- > 0;) {
        corpus_sample(&loader->corpus, config->seed, step * config->grad_accum + i, batch);
        const size_t targets = batch_targets(batch);
        total.targets += targets;
        total.pads += batch->B * batch->T - targets;
    }
    profile_lap(PROFILE_BATCH);
    return total;
}

struct update update_model(struct loader *loader, struct model *model, struct optimizer *optimizer,
                           struct probe *probe, int64_t step, double rate) {
    const struct config *config = loader->config;
    const int64_t first = step * config->grad_accum, end = first + config->grad_accum;
    const bool probed = calendar_every(config->probe_interval, step);
    const double start = clock_now();
    struct batch *batch = &loader->batch;
    struct tensor_list *param = &model->lists.param;
    struct update update = {0};
    double fraction = 0; // of the update's targets, in the batch
    if (config->profile) profile_start();
    const struct batch_count size = update_count_targets(loader, step);
    model_zero_grad(model);
    for (int64_t i = first; i < end; i++) { // batch i of the run: keys its sample and its dropout
        corpus_sample(&loader->corpus, config->seed, i, batch);
        profile_lap(PROFILE_BATCH);
        model->probing = probed && i + 1 == end;
        // the update is as many batches of this size: dividing has other bits than times `fraction`
        double batches = (double)size.targets / (double)batch_targets(batch);
        fraction = 1 / batches;
        update.loss += model_gradient(model, batch, (uint64_t)i, fraction) / batches;
        if (config->probe_interval) watch_batch(&probe->watch, batch);
    }
    update.grad_norm = optimizer_grad_norm(optimizer, param);
    if (probed) probe_keep(probe, model);
    if (isfinite(update.loss) && isfinite(update.grad_norm)) {
        optimizer_step(optimizer, param, rate, update.grad_norm);
        update.trained = size;
    } else {
        update.fault = fault_find(model, batch, (uint64_t)(end - 1));
    }
    profile_stop();
    if (probed) probe_write(probe, model, batch, fraction, step);
    update.seconds = clock_now() - start;
    return update;
}
