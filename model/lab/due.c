#include "model/lab/due.h"
#include "model/lab/process.h"
#include "model/math/ranks.h"
#include <omp.h>

enum ending due_end(const struct session *t, const struct log_row *row) {
    const double seconds = t->config.max_seconds, loss = t->config.stop_at;
    if (interrupt_now()) return ENDING_SIGNAL;
    if (t->outcome.steps == t->config.max_iters) return ENDING_ITERS;
    if (seconds > 0 && ranks_first(omp_get_wtime() - t->clock.start >= seconds))
        return ENDING_SECONDS;
    return loss > 0 && row->val_loss >= 0 && row->val_loss <= loss ? ENDING_LOSS : ENDING_NONE;
}

const char *due_ending_option(enum ending ending) {
    static const char *const options[] = {
        [ENDING_ITERS] = "max-iters", [ENDING_SECONDS] = "max-seconds", [ENDING_LOSS] = "stop-at"};
    return options[ending];
}

static bool every(int64_t interval, int64_t step) {
    return interval && step % interval == 0;
}

bool due_evaluation(const struct config *config, int64_t step, enum ending ending) {
    return every(config->eval_interval, step) || due_ending_option(ending);
}

bool due_checkpoint(const struct config *config, const struct clock *clock, int64_t step) {
    if (step == clock->step) return false;
    if (config->checkpoint_interval == OPTION_AUTO)
        return ranks_first(omp_get_wtime() - clock->saved >= 100 * clock->saving);
    return every(config->checkpoint_interval, step);
}

bool due_probe(const struct config *config, int64_t step) {
    return every(config->probe_interval, step);
}

bool due_sample(const struct config *config, int64_t step) {
    return every(config->sample_interval, step);
}

bool due_log(const struct config *config, const struct log_row *row) {
    return every(config->log_interval, row->step) || row->val_loss >= 0;
}
