#include "model/lab/due.h"
#include <omp.h>

bool due_evaluation(const struct session *t) {
    int64_t step = t->outcome.steps;
    return step % t->config.eval_interval == 0 || step == t->config.max_iters;
}

bool due_checkpoint(const struct session *t) {
    int64_t step = t->outcome.steps, interval = t->config.checkpoint_interval;
    if (step == t->clock.step) return false;
    if (interval == OPTION_AUTO) return omp_get_wtime() - t->clock.saved >= 100 * t->clock.saving;
    return interval && step % interval == 0;
}

bool due_probe(const struct session *t) {
    int64_t interval = t->config.probe_interval;
    return interval && t->outcome.steps % interval == 0;
}

bool due_log(const struct session *t, const struct log_row *row) {
    return row->step % t->config.log_interval == 0 || row->val_loss >= 0;
}
