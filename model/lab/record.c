#include "model/lab/record.h"
#include "data/die.h"
#include "model/lab/due.h"
#include "model/lab/process.h"
#include "model/math/ranks.h"
#include <math.h>
#include <omp.h>
#include <string.h>

/* ---- rows of log.csv, and the clock that times them ---- */

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

/* ---- checkpoints and models ---- */

/* Takes the memory of the copy. Runs twice: see arena.h. */
static void lay_out(struct session *t) {
    struct tensor_lists *lists = &t->best.model.lists;
    lists->param.value = arena_reals(&t->best.arena, lists->param.size);
    lists->state.value = arena_reals(&t->best.arena, lists->state.size);
}

void save_best_init(struct session *t) {
    if (!t->config.keep_best) return;
    t->best.model.lists = t->model.lists;
    lay_out(t);
    arena_allocate(&t->best.arena, "the best model");
    lay_out(t);
}

void save_best_free(struct session *t) {
    arena_free(&t->best.arena);
}

bool save_best_possible(const struct session *t) {
    const struct tensor_lists *lists = &t->model.lists;
    return !t->config.keep_best || (!tensor_nonfinite(&lists->param, lists->param.value) &&
                                    !tensor_nonfinite(&lists->state, lists->state.value));
}

const struct model *save_best_copy(const struct session *t) {
    return t->config.keep_best && t->outcome.best_val_loss >= 0 ? &t->best.model : NULL;
}

static void write_file(const struct session *t) {
    struct new_file file = file_create(&t->run, "best.safetensors");
    checkpoint_write(file.stream, &t->best.model, NULL, &t->config, session_vocabulary(t),
                     &t->outcome, &t->best.model);
    file_commit(&file);
}

static void copy(const struct tensor_list *to, const struct tensor_list *from) {
    if (from->size) memcpy(to->value, from->value, from->size * sizeof(real));
}

void save_best_keep(struct session *t) {
    if (!t->config.keep_best) return;
    copy(&t->best.model.lists.param, &t->model.lists.param);
    copy(&t->best.model.lists.state, &t->model.lists.state);
    write_file(t);
}

void save_best_resume(struct session *t) {
    if (!t->config.keep_best) return;
    if (!save_best_copy(t)) {
        run_remove(&t->run, "best.safetensors");
        return;
    }
    checkpoint_read_best(&t->checkpoint, &t->best.model);
    write_file(t);
}

static void save_as(struct session *t, const char *name, const struct optimizer *optimizer) {
    struct new_file file = file_create(&t->run, name);
    checkpoint_write(file.stream, &t->model, optimizer, &t->config, session_vocabulary(t),
                     &t->outcome, save_best_copy(t));
    file_commit(&file);
}

void save_run(struct session *t, bool last) {
    double start = omp_get_wtime();
    if (session_bad_tensor(t, false).tensor) return;
    run_sync(&t->run);
    // a checkpoint that an earlier interrupt left must not be older than the model
    bool stale = last && run_has(&t->run, "checkpoint.safetensors");
    if (t->config.checkpoint_interval || interrupt_signal || stale) {
        run_write_checksums(&t->run);
        save_as(t, "checkpoint.safetensors", &t->optimizer);
    }
    if (last) save_as(t, "model.safetensors", NULL);
    t->clock.saved = omp_get_wtime();
    t->clock.saving = t->clock.saved - start;
}

void save_summary(struct session *t, const char *exit_reason) {
    t->outcome.exit_reason = exit_reason;
    t->outcome.profiled = t->outcome.steps - t->clock.step;
    struct new_file file = file_create(&t->run, "summary.json");
    summary_write(file.stream, &t->model, &t->config, &t->outcome);
    file_commit(&file);
}
