#include "model/lab/save.h"
#include "model/lab/interrupt.h"
#include <omp.h>
#include <string.h>

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
