#include "model/lab/record.h"
#include "data/die.h"
#include "data/files/json.h"
#include "model/lab/due.h"
#include "model/lab/process.h"
#include "model/math/profile.h"
#include "model/math/ranks.h"
#include "model/math/simd.h"
#include <math.h>
#include <omp.h>
#include <string.h>

#ifdef __clang__
#    define COMPILER __VERSION__
#else
#    define COMPILER "gcc " __VERSION__
#endif

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

/* The first tensor that holds NaN or infinity, and what it is a tensor of: "" (the model's weights
   and running statistics), "moment of ", or with `gradients` also "gradient of ". `tensor` is NULL
   if all numbers are finite. */
struct bad_tensor {
    const struct tensor *tensor;
    const char *of;
};
static struct bad_tensor bad_tensor(const struct session *t, bool gradients) {
    const struct tensor_list *param = &t->model.lists.param, *state = &t->model.lists.state;
    const struct {
        const struct tensor_list *list;
        const real *values; // NULL: not searched
        const char *of;
    } kinds[] = {{param, param->value, ""},
                 {param, gradients ? param->grad : NULL, "gradient of "},
                 {state, state->value, ""},
                 {param, t->optimizer.state[0], "moment of "},
                 {param, t->optimizer.state[1], "moment of "}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!kinds[i].values) continue;
        const struct tensor *bad = tensor_nonfinite(kinds[i].list, kinds[i].values);
        if (bad) return (struct bad_tensor){bad, kinds[i].of};
    }
    return (struct bad_tensor){NULL, ""};
}

static _Noreturn void diverged(struct session *t, int64_t step, const char *what,
                               const char *value) {
    struct bad_tensor bad = bad_tensor(t, true);
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
    if (last && bad_tensor(t, false).tensor)
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
    if (bad_tensor(t, false).tensor) return;
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

/* ---- summary.json ---- */

static void member(FILE *stream, const char *name, double value) {
    fprintf(stream, "  \"%s\": ", name);
    if (!(value < 0) && isfinite(value))
        fprintf(stream, "%.9g,\n", value);
    else
        fputs("null,\n", stream); // not measured, or NaN or infinity, which JSON lacks
}

static void text_member(FILE *stream, const char *name, const char *value) {
    fprintf(stream, "  \"%s\": ", name);
    json_string(stream, value);
    fputs(",\n", stream);
}

/* --profile: milliseconds of an update in each operation. */
static void profile_member(FILE *stream, int64_t updates) {
    double all = 0;
    fputs("  \"profile\": {", stream);
    for (int i = 0; i < PROFILE_PARTS; i++) {
        double milliseconds = 1e3 * profile_seconds((enum profile_part)i) / (double)updates;
        all += milliseconds;
        fputs("\n    ", stream);
        json_string(stream, profile_name[i]);
        fprintf(stream, ": %.9g,", milliseconds);
    }
    fprintf(stream, "\n    \"all\": %.9g\n  },\n", all);
}

/* Options, outcome, sizes, and what built the program, as JSON. */
static void write_summary(FILE *stream, const struct model *model, const struct config *config,
                          const struct outcome *o) {
    fputs("{\n", stream);
    text_member(stream, "exit_reason", o->exit_reason);
    const bool limited = config->max_seconds > 0 || config->stop_at > 0;
    if (limited && o->ended_by) text_member(stream, "ended_by", o->ended_by);
    member(stream, "steps", (double)o->steps);
    member(stream, "tokens", (double)o->tokens);
    member(stream, "train_loss", o->train_loss);
    member(stream, "val_loss", o->val_loss);
    if (config->eval_train) member(stream, "eval_train_loss", o->eval_train_loss);
    member(stream, "val_accuracy", o->val_accuracy);
    member(stream, "best_val_loss", o->best_val_loss);
    member(stream, "best_step", (double)o->best_step);
    member(stream, "parameters", (double)model_parameters(model));
    member(stream, "threads", (double)config->threads);
    member(stream, "seconds", o->seconds);
    member(stream, "tokens_per_second", o->tokens_per_second);
    text_member(stream, "corpus", o->corpus);
    member(stream, "corpus_bytes", (double)o->corpus_bytes);
    member(stream, "corpus_characters", (double)o->corpus_characters);
    fprintf(stream, "  \"corpus_crc32\": \"%08x\",\n", o->corpus_crc32);
    member(stream, "vocabulary", (double)o->vocabulary);
    const size_t items[] = {o->items.all, o->items.train, o->items.longest, o->items.cut};
    const char *const names[] = {"items", "items_train", "items_longest", "items_cut"};
    for (int i = 0; i < 4; i++) member(stream, names[i], o->items.all ? (double)items[i] : -1);
    double held = (double)(o->tokens + o->pads);
    member(stream, "pad_share", o->items.all && held > 0 ? (double)o->pads / held : -1);
    member(stream, "grammar_entropy", o->grammar_entropy);
    if (config->profile && o->profiled) profile_member(stream, o->profiled);
    text_member(stream, "version", VERSION);
    text_member(stream, "compiler", COMPILER);
    member(stream, "vector_bits", 8 * SIMD_BYTES);
    member(stream, "real_bits", 8 * sizeof(real));
    fputs("  \"options\": {", stream);
    options_write_json(config_options, config, stream);
    fputs("\n  }\n}\n", stream);
}

void save_summary(struct session *t, const char *exit_reason) {
    t->outcome.exit_reason = exit_reason;
    t->outcome.profiled = t->outcome.steps - t->clock.step;
    struct new_file file = file_create(&t->run, "summary.json");
    write_summary(file.stream, &t->model, &t->config, &t->outcome);
    file_commit(&file);
}
