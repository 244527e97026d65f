/* Writes a run's files in an order that survives a kill at any moment: the rows of the tables
   are synced before the checkpoint that relies on them, and the summary, which vouches for the
   whole log, is written last. */
#include "model/lab/record.h"
#include "data/clock.h"
#include "data/die.h"
#include "data/files/json.h"
#include "data/files/summary.h"
#include "data/text/grammar.h"
#include "model/math/profile.h"
#include "model/math/ranks.h"
#include "model/math/simd.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef __clang__
#    define COMPILER __VERSION__
#else
#    define COMPILER "gcc " __VERSION__
#endif

/* Takes the memory of the copy of --keep-best. Runs twice: see arena.h. */
static void lay_out(struct record *r) {
    struct tensor_lists *lists = &r->best.model.lists;
    lists->param.value = arena_reals(&r->best.arena, lists->param.size);
    lists->state.value = arena_reals(&r->best.arena, lists->state.size);
}

void record_init(struct record *r, const struct plan *plan, const struct corpus *corpus,
                 struct model *model, const struct optimizer *optimizer,
                 const struct tensor_list *tracked) {
    const struct config *config = &plan->config;
    const bool text_of_grammar = !config->corpus && !config->items;
    r->plan = plan;
    r->config = config;
    r->model = model;
    r->optimizer = optimizer;
    r->tracked = tracked;
    r->outcome =
        (struct outcome){.corpus = corpus,
                         .train_loss = NOT_MEASURED,
                         .val_loss = NOT_MEASURED,
                         .best_val_loss = NOT_MEASURED,
                         .eval_train_loss = NOT_MEASURED,
                         .val_accuracy = NOT_MEASURED,
                         .grammar_entropy = text_of_grammar ? GRAMMAR_ENTROPY : NOT_MEASURED,
                         .unigram = corpus_unigram(corpus, (size_t)config->model.block_size)};
    if (!config->keep_best) return;
    r->best.model.lists = r->model->lists;
    lay_out(r);
    arena_allocate(&r->best.arena, "the best model");
    lay_out(r);
}

void record_free(struct record *r) {
    arena_free(&r->best.arena);
}

/* ---- --keep-best ---- */

/* The copy for a checkpoint; NULL if there is none. */
static const struct model *best_copy(const struct record *r) {
    return r->config->keep_best && r->outcome.best_val_loss >= 0 ? &r->best.model : NULL;
}

static void save_as(const struct record *r, const char *name, const struct model *model,
                    const struct optimizer *optimizer) {
    struct new_file file = run_create_file(&r->run, name);
    checkpoint_write(file.stream, model, optimizer, r->tracked, r->plan, &r->outcome, best_copy(r));
    file_commit(&file);
}

static void copy(const struct tensor_list *to, const struct tensor_list *from) {
    if (from->size) memcpy(to->value, from->value, from->size * sizeof(real));
}

/* Notes the row's evaluation if its loss is the lowest so far. Keeps the model too with
   --keep-best, for which all of its numbers must be finite. */
static void keep_if_best(struct record *r, const struct log_row *row) {
    struct outcome *outcome = &r->outcome;
    const struct tensor_lists *lists = &r->model->lists;
    const bool keep = r->config->keep_best;
    const bool better = outcome->best_val_loss < 0 || row->val_loss < outcome->best_val_loss;
    if (!better) return;
    if (keep && (tensor_nonfinite(&lists->param, lists->param.value) ||
                 tensor_nonfinite(&lists->state, lists->state.value)))
        return;
    outcome->best_val_loss = row->val_loss;
    outcome->best_step = row->step;
    if (!keep || !isfinite(row->val_loss)) return;
    copy(&r->best.model.lists.param, &lists->param);
    copy(&r->best.model.lists.state, &lists->state);
    save_as(r, "best.safetensors", &r->best.model, NULL);
}

void record_read_best(struct record *r, const struct checkpoint *from) {
    if (best_copy(r)) checkpoint_read_best(from, &r->best.model);
}

void record_resume_best(struct record *r) {
    if (best_copy(r))
        save_as(r, "best.safetensors", &r->best.model, NULL);
    else if (r->config->keep_best)
        run_remove(&r->run, "best.safetensors");
}

/* ---- rows of log.csv, and the clock that times them ---- */

void record_start(struct record *r) {
    const double now = clock_now();
    r->clock = (struct clock){.start = now - r->outcome.seconds,
                              .step = r->outcome.steps,
                              .tokens = r->outcome.tokens,
                              .logged.tokens = r->outcome.tokens,
                              .saved = now,
                              .saving = 0.02}; // a guess
}

struct log_row record_start_row(const struct record *r) {
    const struct log_row *logged = &r->clock.logged;
    struct log_row row = columns_unmeasured();
    row.step = r->outcome.steps;
    row.tokens = r->outcome.tokens;
    row.updating = r->clock.updating;
    row.lr = schedule_rate(&r->config->schedule, r->outcome.steps);
    if (row.updating > logged->updating)
        row.tokens_per_second =
            (double)(row.tokens - logged->tokens) / (row.updating - logged->updating);
    return row;
}

void record_evaluation(struct record *r, const struct log_row *row) {
    if (row->val_loss < 0) return;
    r->outcome.val_loss = row->val_loss;
    r->outcome.val_accuracy = row->val_accuracy;
    r->outcome.eval_train_loss = row->eval_train_loss;
    keep_if_best(r, row);
}

void record_update(struct record *r, struct log_row *row, struct update update) {
    row->train_loss = r->outcome.train_loss = update.loss;
    row->grad_norm = update.grad_norm;
    r->fault = update.fault;
    r->outcome.tokens += (int64_t)update.trained.targets;
    r->outcome.pads += (int64_t)update.trained.pads;
    r->clock.updating += update.seconds;
}

/* The first number of the row that is not finite, and in *name what it is; 0 if all are finite. An
   evaluation comes before the update. */
static double bad_number(const struct log_row *row, const char **name) {
    for (int update = 0; update < 2; update++)
        for (const struct column *c = log_columns; c->name; c++) {
            const double value = column_value(c, row);
            *name = c->what;
            if (c->what && c->evaluated == !update && !isfinite(value)) return value;
        }
    return 0;
}

void record_write(struct record *r, struct log_row *row, enum ending_reason ending) {
    struct outcome *outcome = &r->outcome;
    const char *name;
    outcome->ended_by = due_ending_option(ending);
    row->seconds = outcome->seconds = clock_now() - r->clock.start;
    if (r->clock.updating > 0)
        outcome->tokens_per_second =
            (double)(outcome->tokens - r->clock.tokens) / r->clock.updating;
    const bool due = row->step % r->config->log_interval == 0 || row->val_loss >= 0;
    if (!due && !ending && isfinite(bad_number(row, &name))) return;
    run_log(&r->run, row);
    r->clock.logged = *row;
}

/* ---- numbers that are not finite ---- */

/* The first tensor that holds NaN or infinity, and the prefix of its name in messages: "" for
   weights and running statistics, "moment of ", or with `gradients` also "gradient of ". `tensor`
   is NULL if all numbers are finite. */
struct bad_tensor {
    const struct tensor *tensor;
    const char *of;
};
static struct bad_tensor bad_tensor_of(const struct record *r, bool gradients) {
    const struct tensor_list *param = &r->model->lists.param, *state = &r->model->lists.state;
    const struct {
        const struct tensor_list *list;
        const real *values; // NULL: not searched
        const char *of;
    } kinds[] = {{param, param->value, ""},
                 {param, gradients ? param->grad : NULL, "gradient of "},
                 {state, state->value, ""},
                 {param, r->optimizer->state[0], "moment of "},
                 {param, r->optimizer->state[1], "moment of "}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!kinds[i].values) continue;
        const struct tensor *bad = tensor_nonfinite(kinds[i].list, kinds[i].values);
        if (bad) return (struct bad_tensor){bad, kinds[i].of};
    }
    return (struct bad_tensor){NULL, ""};
}

static _Noreturn void diverged(struct record *r, int64_t step, const char *what,
                               const char *value) {
    struct bad_tensor bad = bad_tensor_of(r, true);
    char norm[TENSOR_NAME + 128] = "";
    if (*r->fault.site)
        snprintf(norm, sizeof norm, "; the %s of the norm %s computes %s",
                 r->fault.backward ? "gradient" : "formula", r->fault.site, r->fault.operation);
    r->outcome.ended_by = NULL;
    record_save_summary(r, "diverged");
    run_close(&r->run);
    ranks_wait(); // rank 0 has saved: all may die
    die(STATUS_DIVERGED,
        "diverged at step %lld: %s is %s, first bad tensor: %s%s%s (try a smaller --learning-rate, "
        "a "
        "longer --warmup-iters or another norm)",
        (long long)step, what, value, bad.of, bad.tensor ? bad.tensor->name : "logits", norm);
}

void record_check(struct record *r, const struct log_row *row, bool last) {
    const char *name;
    const double value = bad_number(row, &name);
    if (!isfinite(value)) diverged(r, row->step, name, isnan(value) ? "nan" : "infinite");
    if (last && bad_tensor_of(r, false).tensor)
        diverged(r, row->step, "a number that would be saved", "not finite");
}

/* ---- checkpoints and models ---- */

void record_save(struct record *r, enum ending_reason ending) {
    double start = clock_now();
    if (bad_tensor_of(r, false).tensor) return;
    // a checkpoint that an earlier interrupt left must not be older than the model
    const bool stale = ending && run_has(&r->run, "checkpoint.safetensors");
    const bool resumable = r->config->checkpoint_interval || ending == ENDING_SIGNAL || stale;
    run_sync(&r->run, resumable);
    if (resumable) save_as(r, "checkpoint.safetensors", r->model, r->optimizer);
    if (ending) save_as(r, "model.safetensors", r->model, NULL);
    r->clock.saved = clock_now();
    r->clock.saving = r->clock.saved - start;
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
    double total = 0;
    fputs("  \"profile\": {\n", stream);
    for (int i = 0; i < PROFILE_OPERATIONS; i++) {
        double milliseconds = 1e3 * profile_seconds((enum profile_operation)i) / (double)updates;
        total += milliseconds;
        fputs("  ", stream);
        member(stream, profile_name[i], milliseconds);
    }
    fprintf(stream, "    \"all\": %.9g\n  },\n", total);
}

/* Options, outcome, sizes, and what built the program, as JSON. */
static void write_summary(FILE *stream, const struct record *r) {
    const struct config *config = r->config;
    const struct outcome *o = &r->outcome;
    const struct corpus *corpus = o->corpus;
    fputs(SUMMARY_START, stream);
    text_member(stream, "exit_reason", o->exit_reason);
    const bool limited = config->max_seconds > 0 || config->stop_at > 0;
    if (limited && o->ended_by) text_member(stream, "ended_by", o->ended_by);
    member(stream, "steps", (double)o->steps);
    for (const struct column *c = outcome_columns; c[1].name; c++)
        if (!c->option || config->eval_train) member(stream, c->name, column_value(c, o));
    member(stream, "parameters", (double)model_parameters(r->model));
    member(stream, "threads", (double)config->threads);
    member(stream, "seconds", o->seconds);
    member(stream, "tokens_per_second", o->tokens_per_second);
    text_member(stream, "corpus", corpus->name);
    member(stream, "corpus_bytes", (double)corpus->bytes);
    member(stream, "corpus_characters", (double)corpus->characters);
    fprintf(stream, "  \"corpus_crc32\": \"%08x\",\n", corpus->crc32);
    member(stream, "vocabulary", (double)corpus->vocabulary.V);
    const struct items_size size = items_size_of(corpus, (size_t)config->model.block_size);
    const size_t items[] = {size.items, size.train, size.longest, size.cut};
    const char *const names[] = {"items", "items_train", "items_longest", "items_cut"};
    for (int i = 0; i < 4; i++) member(stream, names[i], size.items ? (double)items[i] : -1);
    double held = (double)(o->tokens + o->pads);
    member(stream, "pad_share", size.items && held > 0 ? (double)o->pads / held : -1);
    member(stream, "grammar_entropy", o->grammar_entropy);
    member(stream, "unigram_entropy", o->unigram.entropy);
    member(stream, "unigram_val_loss", o->unigram.val_loss);
    fprintf(stream, "  \"stuck\": %s,\n", outcome_stuck(o) ? "true" : "false");
    if (config->profile && o->profiled) profile_member(stream, o->profiled);
    text_member(stream, "version", VERSION);
    text_member(stream, "compiler", COMPILER);
    member(stream, "vector_bits", 8 * SIMD_BYTES);
    member(stream, "real_bits", 8 * sizeof(real));
    fputs("  ", stream);
    config_write_outcome(r->plan, stream);
    fputs(",\n  \"options\": {", stream);
    options_write_json(config_options, config, stream);
    fputs("\n  }\n}\n", stream);
}

void record_save_summary(struct record *r, const char *exit_reason) {
    r->outcome.exit_reason = exit_reason;
    r->outcome.profiled = r->outcome.steps - r->clock.step;
    char *text = NULL;
    size_t length;
    FILE *stream = open_memstream(&text, &length);
    if (!stream) die(STATUS_MACHINE, "memory: not enough for summary.json");
    write_summary(stream, r);
    fclose(stream);
    run_sync(&r->run, false); // the summary vouches for the whole log
    summary_seal(text, length, run_log_crc32(&r->run));
    struct new_file file = run_create_file(&r->run, "summary.json");
    fwrite(text, 1, length, file.stream);
    file_commit(&file);
    free(text);
}
