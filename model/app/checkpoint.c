/* What is in a file: weights, running statistics, the optimizer's state and a run's progress. */
#include "model/app/checkpoint.h"
#include "data/die.h"
#include "data/random.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Prefixes of the names: the optimizer's state, as OPTIMIZER "exp_avg." with the name of the state;
   the running statistics of probes; and the model of --keep-best. */
#define OPTIMIZER "optimizer."
#define TRACKED   "probe."
#define BEST      "best."

/* Texts of the file with the first value of a random stream. A program whose streams differ cannot
   continue the run. */
static const struct {
    const char *name, *purpose;
} random_keys[] = {{"random_key_batches", "epoch"}, {"random_key_dropout", "residual"}};
enum { RANDOM_KEYS = sizeof random_keys / sizeof *random_keys };

static unsigned long long random_first(int i, const struct config *config) {
    return random_bits(random_key(config->seed, random_keys[i].purpose, 0), 0);
}

/* Uses each tensor of the optimizer's state, with a prefix of its name. */
static void each_state(const struct optimizer *optimizer, const struct tensor_list *param,
                       void (*use)(void *file, const char *prefix, const struct tensor *t,
                                   real *values),
                       void *file) {
    char prefix[64];
    for (int i = 0; i < OPTIMIZER_STATES; i++)
        for (size_t k = 0; k < param->count; k++) {
            const char *name = optimizer_of(optimizer, &param->tensor[k])->state[i];
            if (!name) continue; // this tensor has no such state
            snprintf(prefix, sizeof prefix, OPTIMIZER "%s.", name);
            use(file, prefix, &param->tensor[k], optimizer->state[i]);
        }
}

/* ---- write ---- */

static void add_tensor(void *file, const char *prefix, const struct tensor *t, real *values) {
    safetensors_add(file, (struct stored){.name = memory_text("%s%s", prefix, t->name),
                                          .type = t->counts ? STORED_I64 : stored_real(),
                                          .dimensions = t->dimensions,
                                          .shape = {t->shape[0], t->shape[1]},
                                          .data = values + t->offset});
}

void checkpoint_add(struct safetensors *file, const char *prefix, const struct tensor_list *list,
                    real *values) {
    for (size_t i = 0; i < list->count; i++) add_tensor(file, prefix, &list->tensor[i], values);
}

/* What was given, and in one text what "auto" became. */
static void add_options(struct safetensors *file, const struct plan *plan) {
    char text[TEXT_SIZE], *automatic = NULL;
    size_t length;
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        if (o->scope == OPTION_OF_CALL) continue;
        const char *value = option_value(o, &plan->given, text, sizeof text);
        if (value) safetensors_add_text(file, o->name, memory_text("%s", value));
    }
    FILE *memory = open_memstream(&automatic, &length);
    if (!memory) die(STATUS_MACHINE, "memory: not enough for the options");
    config_write_auto(plan, memory);
    fclose(memory);
    safetensors_add_text(file, "auto", automatic);
}

static void add_progress(struct safetensors *file, const struct config *config,
                         const struct state *run) {
    for (const struct column *c = state_columns; c->name; c++)
        if (column_is_in(c, IN_CHECKPOINT, run->optional))
            safetensors_add_text(file, c->name,
                                 memory_text(c->counts ? "%.0f" : "%.17g", column_value(c, run)));
    for (int i = 0; i < RANDOM_KEYS; i++)
        safetensors_add_text(file, random_keys[i].name,
                             memory_text("%016llx", random_first(i, config)));
}

void checkpoint_write(FILE *stream, const struct model *model, const struct optimizer *optimizer,
                      const struct tensor_list *tracked, const struct plan *plan,
                      const struct state *run, const struct model *best) {
    const struct config *config = &plan->config;
    const struct tensor_list *param = &model->lists.param, *state = &model->lists.state;
    const bool is_best = model == best;
    struct safetensors file = {0};
    safetensors_add_text(&file, "format", memory_text("pt"));
    safetensors_add_text(&file, "step",
                         memory_text("%" PRIi64, is_best ? run->best_step : run->step));
    if (is_best) safetensors_add_text(&file, "val_loss", memory_text("%.17g", run->best_val_loss));
    safetensors_add_text(&file, "vocabulary", vocabulary_text(&run->corpus->vocabulary));
    safetensors_add_text(&file, "corpus_crc32", memory_text("%08x", run->corpus->crc32));
    add_options(&file, plan);
    if (optimizer) add_progress(&file, config, run);

    checkpoint_add(&file, "", param, param->value);
    for (size_t i = 0; config->model.head == HEAD_TIED && i < param->count; i++)
        if (!strcmp(param->tensor[i].name, EMBEDDING_NAME)) {
            struct stored head = file.arrays[i];
            head.name = memory_text(HEAD_NAME);
            safetensors_add(&file, head);
        }
    checkpoint_add(&file, "", state, state->value);
    if (optimizer) each_state(optimizer, param, add_tensor, &file);
    if (optimizer) checkpoint_add(&file, TRACKED, tracked, tracked->value);
    if (optimizer && best) {
        checkpoint_add(&file, BEST, param, best->lists.param.value);
        checkpoint_add(&file, BEST, state, best->lists.state.value);
    }
    safetensors_write(&file, stream);
    safetensors_close(&file);
}

/* ---- read ---- */

/* Reads a tensor, whose array has this prefix before its name. */
static void read_tensor(void *checkpoint, const char *prefix, const struct tensor *t,
                        real *values) {
    const struct checkpoint *c = checkpoint;
    char name[NAME_SIZE];
    snprintf(name, sizeof name, "%s%s", prefix, t->name);
    const struct stored *array = safetensors_find(&c->file, name);
    if (!array) die(STATUS_MACHINE, "%s: %s: is missing", c->path, name);
    bool fits = array->dimensions == t->dimensions;
    for (int d = 0; fits && d < t->dimensions; d++) fits = array->shape[d] == t->shape[d];
    if (!fits)
        die(STATUS_MACHINE, "%s: %s: its shape differs from that of the model's tensor", c->path,
            name);
    values += t->offset;
    safetensors_read(&c->file, array, t->counts ? STORED_I64 : stored_real(), values);
    const int64_t count = t->counts ? *(const int64_t *)values : 0;
    if (count < 0 || count > TENSOR_COUNT_MAX)
        die(STATUS_MACHINE, "%s: %s: is not a number of batches from 0 to 2^53", c->path, name);
    for (size_t i = 0; i < t->size && !t->counts; i++)
        if (!isfinite(values[i]))
            die(STATUS_MACHINE, "%s: %s: holds nan or infinity", c->path, name);
}

static void read_tensors(const struct checkpoint *c, const struct tensor_list *list,
                         const char *prefix, real *values) {
    for (size_t i = 0; i < list->count; i++)
        read_tensor((void *)c, prefix, &list->tensor[i], values);
}

static bool holds(const struct tensor_list *list, const char *name) {
    for (size_t i = 0; i < list->count; i++)
        if (!strcmp(list->tensor[i].name, name)) return true;
    return false;
}

/* Dies if the file has an array that this model does not have. */
static void check_all_used(const struct checkpoint *c, const struct model *model) {
    for (size_t i = 0; i < c->file.array_count; i++) {
        const char *name = c->file.arrays[i].name;
        bool used = !strncmp(name, OPTIMIZER, strlen(OPTIMIZER)) ||
                    !strncmp(name, TRACKED, strlen(TRACKED)) ||
                    !strncmp(name, BEST, strlen(BEST)) || !strcmp(name, HEAD_NAME) ||
                    holds(&model->lists.param, name) || holds(&model->lists.state, name);
        if (!used) die(STATUS_MACHINE, "%s: %s: is not part of this model", c->path, name);
    }
}

/* Dies if a tied head differs from the token embedding: the model has one matrix for both. */
static void check_tied(const struct checkpoint *c, const struct model *model) {
    const struct stored *array = safetensors_find(&c->file, HEAD_NAME);
    if (!array || model->config.head != HEAD_TIED) return;
    size_t size = model->V * model->C;
    real *weight = memory_take(size, sizeof *weight, "the head");
    bool same =
        array->dimensions == 2 && array->shape[0] == model->V && array->shape[1] == model->C;
    if (same) safetensors_read(&c->file, array, stored_real(), weight);
    same = same && !memcmp(weight, model->wte.value, size * sizeof *weight);
    free(weight);
    if (!same)
        die(STATUS_MACHINE,
            "%s: lm_head.weight: is not transformer.wte.weight, as a tied head would be (with "
            "--head=untied it may differ)",
            c->path);
}

void checkpoint_read_model(const struct checkpoint *c, struct model *model, bool start) {
    const struct tensor_list *param = &model->lists.param, *state = &model->lists.state;
    bool stored = !start;
    check_all_used(c, model);
    read_tensors(c, param, "", param->value);
    model->lists.param.version++;
    check_tied(c, model);
    for (size_t i = 0; i < state->count; i++)
        stored |= safetensors_find(&c->file, state->tensor[i].name) != NULL;
    if (stored) read_tensors(c, state, "", state->value);
}

/* A number; one that counts updates or tokens must be whole. */
static double number_of(const struct checkpoint *c, const char *name, bool counts) {
    const char *text = safetensors_text(&c->file, name);
    char *end;
    double number = text ? strtod(text, &end) : NAN;
    if (!text || end == text || *end || !isfinite(number))
        die(STATUS_MACHINE, "%s: has no number for %s, so a run cannot resume from it", c->path,
            name);
    if (counts && (!(number >= 0 && number <= 0x1p53) || number != floor(number)))
        die(STATUS_MACHINE, "%s: %s: is not a whole number", c->path, name);
    return number;
}

bool checkpoint_same_corpus(const struct checkpoint *c, uint32_t corpus_crc32) {
    char text[16];
    const char *stored = safetensors_text(&c->file, "corpus_crc32");
    snprintf(text, sizeof text, "%08x", corpus_crc32);
    return stored && !strcmp(stored, text);
}

void checkpoint_read_run(const struct checkpoint *c, const struct config *config,
                         const struct model *model, struct optimizer *optimizer,
                         const struct tensor_list *tracked, struct state *run) {
    if (!checkpoint_same_corpus(c, run->corpus->crc32)) {
        const char *stored = safetensors_text(&c->file, "corpus_crc32");
        die(STATUS_USAGE,
            "corpus: %s: has checksum %08x, the run's corpus had %s (give the text that the "
            "run was trained on)",
            run->corpus->name, run->corpus->crc32, stored ? stored : "none");
    }
    for (int i = 0; i < RANDOM_KEYS; i++) {
        char text[TEXT_SIZE];
        const char *stored = safetensors_text(&c->file, random_keys[i].name);
        snprintf(text, sizeof text, "%016llx", random_first(i, config));
        if (!stored || strcmp(stored, text) != 0)
            die(STATUS_MACHINE,
                "%s: %s: differs, because this program generates other random numbers (continue "
                "with the program that started the run)",
                c->path, random_keys[i].name);
    }
    run->step = (int64_t)number_of(c, "step", true);
    for (const struct column *column = state_columns; column->name; column++)
        if (column_is_in(column, IN_CHECKPOINT, run->optional))
            column_set(column, run, number_of(c, column->name, column->counts));
    const double batch = (double)config->batch_size * (double)config->model.block_size;
    if (run->best_step > run->step || (double)run->tokens + (double)run->pads >
                                          (double)run->step * (double)config->grad_accum * batch)
        die(STATUS_MACHINE, "%s: best_step, tokens or pads: is more than %lld updates can have had",
            c->path, (long long)run->step);
    each_state(optimizer, &model->lists.param, read_tensor, (void *)c);
    read_tensors(c, tracked, TRACKED, tracked->value);
    optimizer->step = run->step;
}

void checkpoint_read_best(const struct checkpoint *c, struct model *best) {
    read_tensors(c, &best->lists.param, BEST, best->lists.param.value);
    read_tensors(c, &best->lists.state, BEST, best->lists.state.value);
}
