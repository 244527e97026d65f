#include "model/lab/best.h"
#include <string.h>

/* Takes the memory of the copy. Runs twice: see arena.h. */
static void lay_out(struct session *t) {
    struct tensor_lists *lists = &t->best.model.lists;
    lists->param.value = arena_reals(&t->best.arena, lists->param.size);
    lists->state.value = arena_reals(&t->best.arena, lists->state.size);
}

void best_init(struct session *t) {
    if (!t->config.keep_best) return;
    t->best.model.lists = t->model.lists;
    lay_out(t);
    arena_allocate(&t->best.arena, "the best model");
    lay_out(t);
}

void best_free(struct session *t) {
    arena_free(&t->best.arena);
}

bool best_possible(const struct session *t) {
    const struct tensor_lists *lists = &t->model.lists;
    return !t->config.keep_best || (!tensor_nonfinite(&lists->param, lists->param.value) &&
                                    !tensor_nonfinite(&lists->state, lists->state.value));
}

const struct model *best_copy(const struct session *t) {
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

void best_keep(struct session *t) {
    if (!t->config.keep_best) return;
    copy(&t->best.model.lists.param, &t->model.lists.param);
    copy(&t->best.model.lists.state, &t->model.lists.state);
    write_file(t);
}

void best_resume(struct session *t) {
    if (!t->config.keep_best) return;
    if (!best_copy(t)) {
        run_remove(&t->run, "best.safetensors");
        return;
    }
    checkpoint_read_best(&t->checkpoint, &t->best.model);
    write_file(t);
}
