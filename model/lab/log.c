#include "model/lab/log.h"
#include "data/die.h"
#include "model/lab/due.h"
#include "model/lab/save.h"
#include "model/math/ranks.h"
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
    if (!due_log(&t->config, row) && !last && is_finite(row)) return;
    run_log(&t->run, row);
    t->clock.logged = t->clock.row;
}

/* ---- numbers that are not finite ---- */

static _Noreturn void diverged(struct session *t, int64_t step, const char *what,
                               const char *value) {
    struct bad_tensor bad = session_bad_tensor(t, true);
    save_summary(t, "diverged");
    run_close(&t->run);
    ranks_first(0); // rank 0 has saved: all may die
    die(STATUS_DIVERGED,
        "diverged at step %lld: %s is %s, first bad tensor: %s%s (try a smaller --learning-rate, a "
        "longer --warmup-iters or another norm)",
        (long long)step, what, value, bad.of, bad.tensor ? bad.tensor->name : "logits");
}

void log_check(struct session *t, const struct log_row *row, bool last) {
    const struct {
        const char *name;
        double value;
    } measured[] = {{"the validation loss", row->val_loss},
                    {"the loss on the training slice", row->eval_train_loss},
                    {"the training loss", row->train_loss},
                    {"the gradient's norm", row->grad_norm}};
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++)
        if (!isfinite(measured[i].value))
            diverged(t, row->step, measured[i].name, isnan(measured[i].value) ? "nan" : "infinite");
    if (last && session_bad_tensor(t, false).tensor)
        diverged(t, row->step, "a number that would be saved", "not finite");
}
