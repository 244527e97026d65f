/* Reads weights, running statistics, the optimizer's state and a run's progress from an open file. */
#include "data/die.h"
#include "data/memory.h"
#include "model/lab/checkpoint_parts.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void read_tensor(const struct checkpoint *c, const struct stored *array, const char *name,
                        const struct tensor *t, real *values) {
    if (!array) die(STATUS_MACHINE, "%s: %s: is missing", c->path, name);
    bool fits = array->dimensions == t->dimensions;
    for (int d = 0; fits && d < t->dimensions; d++) fits = array->shape[d] == t->shape[d];
    if (!fits) die(STATUS_MACHINE, "%s: %s: has another shape than the model's", c->path, name);
    if (!stored_is_numeric(array))
        die(STATUS_MACHINE, "%s: %s: is of type %s", c->path, name, stored_type_name(array));
    safetensors_read(&c->file, array, t->counts ? STORED_I64 : stored_real(), values + t->offset);
    if (t->counts && *(const int64_t *)(values + t->offset) < 0)
        die(STATUS_MACHINE, "%s: %s: is not a number of batches", c->path, name);
}

static void read_tensors(const struct checkpoint *c, const struct tensor_list *list,
                         const char *prefix, real *values) {
    char name[NAME_SIZE];
    for (size_t i = 0; i < list->count; i++) {
        const struct tensor *t = &list->tensor[i];
        snprintf(name, sizeof name, "%s%s", prefix, t->name);
        read_tensor(
            c, strcmp(name, EMBEDDING_NAME) ? checkpoint_find(c, name) : checkpoint_embedding(c),
            name, t, values);
    }
    const struct tensor *bad = tensor_nonfinite(list, values);
    if (bad) die(STATUS_MACHINE, "%s: %s%s: holds nan or infinity", c->path, prefix, bad->name);
}

static bool ends_with(const char *name, const char *end) {
    size_t length = strlen(name), end_length = strlen(end);
    return length >= end_length && !strcmp(name + length - end_length, end);
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
        if (!strncmp(name, "_orig_mod.", 10)) name += 10;
        // "attn.bias" is nanoGPT's causal mask, in files that PyTorch 1 wrote
        bool used = !strncmp(name, OPTIMIZER, strlen(OPTIMIZER)) ||
                    !strncmp(name, TRACKED, strlen(TRACKED)) ||
                    !strncmp(name, BEST, strlen(BEST)) || !strcmp(name, HEAD_NAME) ||
                    ends_with(name, ".attn.bias") || holds(&model->lists.param, name) ||
                    holds(&model->lists.state, name);
        if (!used) die(STATUS_MACHINE, "%s: %s: is not part of this model", c->path, name);
    }
}

/* Dies if a tied head differs from the token embedding: the model has one matrix for both. */
static void check_tied(const struct checkpoint *c, const struct model *model) {
    const struct stored *array = checkpoint_find(c, HEAD_NAME);
    if (!array || !checkpoint_find(c, EMBEDDING_NAME) || model->config.head != HEAD_TIED) return;
    size_t size = model->V * model->C;
    real *weight = memory_take(size, sizeof *weight, "the head");
    bool same = stored_is_numeric(array) && array->dimensions == 2 && array->shape[0] == model->V &&
                array->shape[1] == model->C;
    if (same) safetensors_read(&c->file, array, stored_real(), weight);
    same = same && !memcmp(weight, model->wte.value, size * sizeof *weight);
    free(weight);
    if (!same)
        die(STATUS_MACHINE,
            "%s: lm_head.weight: is not transformer.wte.weight, as a tied head would be (with "
            "--head=untied it may differ)",
            c->path);
}

static void read_weights(const struct checkpoint *c, struct model *model) {
    check_all_used(c, model);
    read_tensors(c, &model->lists.param, "", model->lists.param.value);
    model->lists.param.version++;
    check_tied(c, model);
}

void checkpoint_read_model(const struct checkpoint *c, struct model *model) {
    read_weights(c, model);
    read_tensors(c, &model->lists.state, "", model->lists.state.value);
}

void checkpoint_read_start(const struct checkpoint *c, struct model *model) {
    const struct tensor_list *state = &model->lists.state;
    bool found = false;
    read_weights(c, model);
    for (size_t i = 0; i < state->count; i++)
        found |= checkpoint_find(c, state->tensor[i].name) != NULL;
    if (found) read_tensors(c, state, "", state->value);
}

static double number_of(const struct checkpoint *c, const char *name) {
    const char *text = safetensors_text(&c->file, name);
    char *end;
    double number = text ? strtod(text, &end) : NAN;
    if (!text || end == text || *end || !isfinite(number))
        die(STATUS_MACHINE, "%s: has no number for %s, so a run cannot resume from it", c->path,
            name);
    return number;
}

/* A number of updates or tokens, which must be whole. */
static int64_t count_of(const struct checkpoint *c, const char *name) {
    double number = number_of(c, name);
    if (!(number >= 0 && number <= 0x1p53) || number != floor(number))
        die(STATUS_MACHINE, "%s: %s: is not a whole number", c->path, name);
    return (int64_t)number;
}

bool checkpoint_same_corpus(const struct checkpoint *c, uint32_t corpus_crc32) {
    char text[16];
    const char *stored = safetensors_text(&c->file, "corpus_crc32");
    snprintf(text, sizeof text, "%08x", corpus_crc32);
    return stored && !strcmp(stored, text);
}

static void read_optimizer(const struct checkpoint *c, const struct tensor_list *param,
                           struct optimizer *optimizer) {
    char prefix[PREFIX_SIZE], name[NAME_SIZE];
    for (int i = 0; i < OPTIMIZER_STATES && optimizer->state[i]; i++) {
        for (size_t k = 0; k < param->count; k++) {
            const struct tensor *t = &param->tensor[k];
            if (!checkpoint_state_prefix(optimizer, t, i, prefix)) continue;
            snprintf(name, sizeof name, "%s%s", prefix, t->name);
            read_tensor(c, checkpoint_find(c, name), name, t, optimizer->state[i]);
        }
        const struct tensor *bad = tensor_nonfinite(param, optimizer->state[i]);
        if (bad && checkpoint_state_prefix(optimizer, bad, i, prefix))
            die(STATUS_MACHINE, "%s: %s%s: holds nan or infinity", c->path, prefix, bad->name);
    }
}

void checkpoint_read_run(const struct checkpoint *c, const struct config *config,
                         const struct model *model, struct optimizer *optimizer,
                         struct outcome *outcome) {
    if (!checkpoint_same_corpus(c, outcome->corpus_crc32)) {
        const char *stored = safetensors_text(&c->file, "corpus_crc32");
        die(STATUS_USAGE, "corpus: %s: has checksum %08x, the run's corpus had %s", outcome->corpus,
            outcome->corpus_crc32, stored ? stored : "none");
    }
    for (int i = 0; i < RANDOM_KEYS; i++) {
        char text[TEXT_SIZE];
        const char *stored = safetensors_text(&c->file, checkpoint_key_names[i]);
        checkpoint_key_text(i, config, text);
        if (!stored || strcmp(stored, text) != 0)
            die(STATUS_MACHINE,
                "%s: %s: differs: this program's random numbers are not those of the run", c->path,
                checkpoint_key_names[i]);
    }
    outcome->steps = count_of(c, "step");
    outcome->train_loss = number_of(c, "train_loss");
    outcome->val_loss = number_of(c, "val_loss");
    outcome->val_accuracy = number_of(c, "val_accuracy");
    outcome->best_val_loss = number_of(c, "best_val_loss");
    outcome->best_step = count_of(c, "best_step");
    if (config->eval_train) outcome->eval_train_loss = number_of(c, "eval_train_loss");
    outcome->tokens = count_of(c, "tokens");
    outcome->pads = count_of(c, "pads");
    read_optimizer(c, &model->lists.param, optimizer);
    read_tensors(c, &model->lists.tracked, TRACKED, model->lists.tracked.value);
    optimizer->step = outcome->steps;
}

void checkpoint_read_best(const struct checkpoint *c, struct model *best) {
    read_tensors(c, &best->lists.param, BEST, best->lists.param.value);
    read_tensors(c, &best->lists.state, BEST, best->lists.state.value);
}
