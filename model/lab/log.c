#include "model/lab/log.h"
#include "model/lab/due.h"
#include <math.h>
#include <omp.h>

void log_start(struct session *t) {
    double now = omp_get_wtime();
    t->clock.start = now - t->outcome.seconds;
    t->clock.step = t->outcome.steps;
    t->clock.tokens = t->outcome.tokens;
    t->clock.updating = 0;
    t->clock.logged = (struct mark){0, t->outcome.tokens};
    t->clock.saved = now;
    t->clock.saving = 0.01; // a guess
}

struct log_row log_row(struct session *t) {
    const struct mark now = {t->clock.updating, t->outcome.tokens}, logged = t->clock.logged;
    struct log_row row = {.step = t->outcome.steps,
                          .tokens = now.tokens,
                          .lr = schedule_rate(&t->config.schedule, t->outcome.steps),
                          .train_loss = NOT_MEASURED,
                          .val_loss = NOT_MEASURED,
                          .grad_norm = NOT_MEASURED,
                          .tokens_per_second = NOT_MEASURED,
                          .eval_train_loss = NOT_MEASURED};
    if (now.updating > logged.updating)
        row.tokens_per_second =
            (double)(now.tokens - logged.tokens) / (now.updating - logged.updating);
    t->clock.row = now;
    return row;
}

static bool is_finite(const struct log_row *row) {
    return isfinite(row->val_loss) && isfinite(row->eval_train_loss) && isfinite(row->train_loss) &&
           isfinite(row->grad_norm);
}

void log_write(struct session *t, struct log_row *row, bool last) {
    struct outcome *outcome = &t->outcome;
    row->seconds = outcome->seconds = omp_get_wtime() - t->clock.start;
    if (t->clock.updating > 0)
        outcome->tokens_per_second =
            (double)(outcome->tokens - t->clock.tokens) / t->clock.updating;
    if (!due_log(t, row) && !last && is_finite(row)) return;
    run_log(&t->run, row);
    t->clock.logged = t->clock.row;
}
