#include "model/lab/due.h"
#include "model/math/ranks.h"
#include <omp.h>

bool due_end(struct session *t) {
    const double limit = t->config.max_seconds;
    if (t->outcome.steps == t->config.max_iters)
        t->outcome.ended_by = "max-iters";
    else if (limit > 0 && ranks_first(omp_get_wtime() - t->clock.start >= limit))
        t->outcome.ended_by = "max-seconds";
    return t->outcome.ended_by != NULL;
}

bool due_stop(struct session *t, const struct log_row *row) {
    const double limit = t->config.stop_at;
    const bool reached = limit > 0 && row->val_loss >= 0 && row->val_loss <= limit;
    if (reached) t->outcome.ended_by = "stop-at";
    return reached;
}

bool due_evaluation(const struct session *t) {
    return t->outcome.steps % t->config.eval_interval == 0 || t->outcome.ended_by;
}

bool due_checkpoint(const struct session *t) {
    int64_t step = t->outcome.steps, interval = t->config.checkpoint_interval;
    if (step == t->clock.step) return false;
    if (interval == OPTION_AUTO)
        return ranks_first(omp_get_wtime() - t->clock.saved >= 100 * t->clock.saving);
    return interval && step % interval == 0;
}

bool due_probe(const struct session *t) {
    int64_t interval = t->config.probe_interval;
    return interval && t->outcome.steps % interval == 0;
}

bool due_sample(const struct session *t) {
    int64_t interval = t->config.sample_interval;
    return interval && t->outcome.steps % interval == 0;
}

bool due_log(const struct session *t, const struct log_row *row) {
    return row->step % t->config.log_interval == 0 || row->val_loss >= 0;
}
