/* What is due at a step, by its number, the clock, the last loss and signals. */
#include "model/app/calendar.h"
#include "data/clock.h"
#include "model/app/interrupt.h"
#include "model/math/ranks.h"

enum ending_reason calendar_end(const struct config *config, const struct state *run) {
    const double seconds = config->max_seconds, loss = config->stop_at;
    if (interrupt_now()) return ENDING_SIGNAL;
    if (run->step == config->max_iters) return ENDING_ITERS;
    if (seconds > 0 && ranks_first(clock_now() - run->started >= seconds)) return ENDING_SECONDS;
    return loss > 0 && run->val_loss >= 0 && run->val_loss <= loss ? ENDING_LOSS : ENDING_NONE;
}

const char *calendar_ending_option(enum ending_reason ending) {
    static const char *const options[] = {
        [ENDING_ITERS] = "max-iters", [ENDING_SECONDS] = "max-seconds", [ENDING_LOSS] = "stop-at"};
    return options[ending];
}

bool calendar_every(int64_t interval, int64_t step) {
    return interval && step % interval == 0;
}

bool calendar_evaluation(const struct config *config, int64_t step, enum ending_reason ending) {
    return calendar_every(config->eval_interval, step) || calendar_ending_option(ending);
}

bool calendar_checkpoint(const struct config *config, const struct state *run) {
    if (run->step == run->first_step) return false;
    if (config->checkpoint_interval == OPTION_AUTO)
        return ranks_first(clock_now() - run->saved >= 100 * run->saving);
    return calendar_every(config->checkpoint_interval, run->step);
}
