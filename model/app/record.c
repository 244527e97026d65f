/* Writes a run's files in an order that survives a kill at any moment: the rows of the tables
   are synced before the checkpoint that relies on them, and the summary, which vouches for the
   whole log, is written last. */
#include "model/app/record.h"
#include "data/clock.h"
#include "data/crc32.h"
#include "data/die.h"
#include "data/files/json.h"
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
    const struct unigram unigram = corpus_unigram(corpus, (size_t)config->model.block_size);
    r->state = (struct state){.corpus = corpus,
                              .last_train_loss = NOT_MEASURED,
                              .last_val_loss = NOT_MEASURED,
                              .best_val_loss = NOT_MEASURED,
                              .last_eval_train_loss = NOT_MEASURED,
                              .val_accuracy = NOT_MEASURED,
                              .grammar_entropy = text_of_grammar ? GRAMMAR_ENTROPY : NOT_MEASURED,
                              .unigram_entropy = unigram.entropy,
                              .unigram_val_loss = unigram.val_loss};
    for (int i = 0; state_columns[i].name; i++) {
        const char *option = state_columns[i].option;
        if (option && option_data_of(options_find(config_options, option), config)->integer)
            r->state.optional |= 1u << i;
    }
    if (!config->keep_best) return;
    struct tensor_list *param = &r->best.lists.param, *state = &r->best.lists.state;
    r->best.lists = r->model->lists;
    param->value = memory_take(param->size, sizeof(real), "the best model");
    state->value = memory_take(state->size, sizeof(real), "the best model");
}

void record_free(struct record *r) {
    free(r->best.lists.param.value);
    free(r->best.lists.state.value);
}

/* ---- --keep-best ---- */

/* The copy for a checkpoint; NULL if there is none. */
static const struct model *best_copy(const struct record *r) {
    return r->config->keep_best && r->state.best_val_loss >= 0 ? &r->best : NULL;
}

static void save_as(const struct record *r, const char *name, const struct model *model,
                    const struct optimizer *optimizer) {
    struct new_file file = run_create_file(&r->run, name);
    checkpoint_write(file.stream, model, optimizer, r->tracked, r->plan, &r->state, best_copy(r));
    file_commit(&file);
}

static void copy(const struct tensor_list *to, const struct tensor_list *from) {
    if (from->size) memcpy(to->value, from->value, from->size * sizeof(real));
}

/* Notes the evaluation if its loss is the lowest so far. Keeps the model too with --keep-best, for
   which all of its numbers must be finite. */
static void keep_if_best(struct record *r) {
    struct state *s = &r->state;
    const struct tensor_lists *lists = &r->model->lists;
    const bool keep = r->config->keep_best;
    if (s->best_val_loss >= 0 && !(s->val_loss < s->best_val_loss)) return;
    if (keep && (tensor_nonfinite(&lists->param, lists->param.value) ||
                 tensor_nonfinite(&lists->state, lists->state.value)))
        return;
    s->best_val_loss = s->val_loss;
    s->best_step = s->step;
    if (!keep || !isfinite(s->val_loss)) return;
    copy(&r->best.lists.param, &lists->param);
    copy(&r->best.lists.state, &lists->state);
    save_as(r, "best.safetensors", &r->best, NULL);
}

void record_read_best(struct record *r, const struct checkpoint *from) {
    if (best_copy(r)) checkpoint_read_best(from, &r->best);
}

void record_resume_best(struct record *r) {
    if (best_copy(r))
        save_as(r, "best.safetensors", &r->best, NULL);
    else if (r->config->keep_best)
        run_remove(&r->run, "best.safetensors");
}

/* ---- rows of log.csv, and the clock that times them ---- */

void record_start(struct record *r) {
    struct state *s = &r->state;
    s->saved = clock_now();
    s->saving = 0.02; // a guess
    s->started = s->saved - s->seconds;
    s->first_step = s->step;
    s->first_tokens = s->logged_tokens = s->tokens;
    s->updating = s->logged_updating = 0;
}

void record_step(struct record *r) {
    struct state *s = &r->state;
    columns_unmeasured(s);
    r->update = (struct update){0};
    s->lr = schedule_rate(&r->config->schedule, s->step);
    if (s->updating > s->logged_updating)
        s->tokens_per_second =
            (double)(s->tokens - s->logged_tokens) / (s->updating - s->logged_updating);
}

void record_evaluation(struct record *r) {
    struct state *s = &r->state;
    if (s->val_loss < 0) return;
    s->last_val_loss = s->val_loss;
    s->last_eval_train_loss = s->eval_train_loss;
    keep_if_best(r);
}

void record_update(struct record *r, struct update update) {
    r->state.train_loss = r->state.last_train_loss = update.loss;
    r->state.grad_norm = update.grad_norm;
    r->update = update;
}

/* The first number of the row that is not finite, and in *name what it is; 0 if all are finite. An
   evaluation comes before the update. */
static double bad_number(const struct state *state, const char **name) {
    for (int update = 0; update < 2; update++)
        for (const struct column *c = state_columns; c->name; c++) {
            const double value = column_value(c, state);
            *name = c->what;
            if (c->what && c->evaluated == !update && !isfinite(value)) return value;
        }
    return 0;
}

void record_write(struct record *r, enum ending_reason ending) {
    struct state *s = &r->state;
    const char *name;
    s->ended_by = calendar_ending_option(ending);
    s->seconds = clock_now() - s->started;
    const bool due = s->step % r->config->log_interval == 0 || s->val_loss >= 0;
    if (due || ending || !isfinite(bad_number(s, &name))) {
        run_log(&r->run, s);
        s->logged_tokens = s->tokens;
        s->logged_updating = s->updating;
    }
    s->tokens += (int64_t)r->update.trained.targets;
    s->pads += (int64_t)r->update.trained.pads;
    s->updating += r->update.seconds;
    if (s->updating > 0) s->speed = (double)(s->tokens - s->first_tokens) / s->updating;
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

static _Noreturn void diverged(struct record *r, const char *what, const char *value) {
    struct bad_tensor bad = bad_tensor_of(r, true);
    char norm[TENSOR_NAME + 128] = "";
    if (*r->update.fault.site)
        snprintf(norm, sizeof norm, "; the %s of the norm %s computes %s",
                 r->update.fault.backward ? "gradient" : "formula", r->update.fault.site,
                 r->update.fault.operation);
    r->state.ended_by = NULL;
    record_save_summary(r, "diverged");
    run_close(&r->run);
    ranks_wait(); // rank 0 has saved: all may die
    die(STATUS_DIVERGED,
        "diverged at step %lld: %s is %s, first bad tensor: %s%s%s (try a smaller --learning-rate, "
        "a longer --warmup-iters or another norm)",
        (long long)r->state.step, what, value, bad.of, bad.tensor ? bad.tensor->name : "logits",
        norm);
}

void record_check(struct record *r, bool last) {
    const char *name;
    const double value = bad_number(&r->state, &name);
    if (!isfinite(value)) diverged(r, name, isnan(value) ? "nan" : "infinite");
    if (last && bad_tensor_of(r, false).tensor)
        diverged(r, "a number that would be saved", "not finite");
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
    r->state.saved = clock_now();
    r->state.saving = r->state.saved - start;
}

/* ---- summary.json ----

   It starts with two checksums: `crc32` of its own text, with eight zeros in the place of these
   digits, and `log_crc32` of log.csv, which is then complete. Two, so that no single flipped bit
   makes a summary look like one of an older version, which has neither. scripts/common/runs.py
   checks them. */

#define OWN_CHECKSUM "\"crc32\": \""
#define LOG_CHECKSUM "\"log_crc32\": \""

/* Puts the checksum after its name in the text. */
static void put_checksum(char *text, const char *name, uint32_t crc) {
    char digits[9];
    snprintf(digits, sizeof digits, "%08x", crc);
    memcpy(strstr(text, name) + strlen(name), digits, 8);
}

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

/* Options, results, sizes, and what built the program, as JSON. */
static void write_summary(FILE *stream, const struct record *r) {
    const struct config *config = r->config;
    const struct state *o = &r->state;
    const struct corpus *corpus = o->corpus;
    fputs("{\n  " OWN_CHECKSUM "00000000\",\n  " LOG_CHECKSUM "00000000\",\n", stream);
    text_member(stream, "exit_reason", o->exit_reason);
    const bool limited = config->max_seconds > 0 || config->stop_at > 0;
    if (limited && o->ended_by) text_member(stream, "ended_by", o->ended_by);
    for (const struct column *c = state_columns; c->name; c++)
        if (column_is_in(c, IN_SUMMARY, o->optional)) member(stream, c->name, column_value(c, o));
    member(stream, "parameters", (double)model_parameters(r->model));
    member(stream, "threads", (double)config->threads);
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
    fprintf(stream, "  \"stuck\": %s,\n", state_stuck(o) ? "true" : "false");
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
    r->state.exit_reason = exit_reason;
    r->state.profiled = r->state.step - r->state.first_step;
    char *text = NULL;
    size_t length;
    FILE *stream = open_memstream(&text, &length);
    if (!stream) die(STATUS_MACHINE, "memory: not enough for summary.json");
    write_summary(stream, r);
    fclose(stream);
    run_sync(&r->run, false); // the summary vouches for the whole log
    put_checksum(text, LOG_CHECKSUM, run_log_crc32(&r->run));
    put_checksum(text, OWN_CHECKSUM, crc32_of(0, text, length));
    struct new_file file = run_create_file(&r->run, "summary.json");
    fwrite(text, 1, length, file.stream);
    file_commit(&file);
    free(text);
}
