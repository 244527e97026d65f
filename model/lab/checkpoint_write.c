/* Writes a model or a checkpoint as a safetensors file. */
#include "data/memory.h"
#include "data/random.h"
#include "model/lab/checkpoint_parts.h"
#include <stdlib.h>
#include <string.h>

static const char *const random_streams[RANDOM_KEYS] = {"epoch", "residual"};
const char *const checkpoint_key_names[RANDOM_KEYS] = {"random_key_batches", "random_key_dropout"};

void checkpoint_key_text(int i, const struct config *config, char text[TEXT_SIZE]) {
    snprintf(text, TEXT_SIZE, "%016llx",
             (unsigned long long)random_bits(random_key(config->seed, random_streams[i], 0), 0));
}

bool checkpoint_state_prefix(const struct optimizer *optimizer, const struct tensor *tensor, int i,
                             char prefix[PREFIX_SIZE]) {
    const char *name = optimizer_of(optimizer, tensor)->state[i];
    if (name) snprintf(prefix, PREFIX_SIZE, OPTIMIZER "%s.", name);
    return name != NULL;
}

/* The arrays and texts to write, and memory for names and texts that are made for them. */
struct writing {
    struct stored *arrays;
    struct stored_text *texts;
    size_t array_count, text_count;
    char (*names)[NAME_SIZE];
    char (*values)[TEXT_SIZE];
};

static void add_tensor(struct writing *w, const struct tensor *t, const char *prefix,
                       const real *values) {
    size_t at = w->array_count++;
    snprintf(w->names[at], NAME_SIZE, "%s%s", prefix, t->name);
    w->arrays[at] = (struct stored){.name = w->names[at],
                                    .type = t->counts ? STORED_I64 : stored_real(),
                                    .dimensions = t->dimensions,
                                    .shape = {t->shape[0], t->shape[1]},
                                    .data = values + t->offset};
}

static void add_tensors(struct writing *w, const struct tensor_list *list, const char *prefix,
                        const real *values) {
    for (size_t i = 0; i < list->count; i++) add_tensor(w, &list->tensor[i], prefix, values);
}

static void add_optimizer(struct writing *w, const struct tensor_list *param,
                          const struct optimizer *optimizer) {
    char prefix[PREFIX_SIZE];
    for (int i = 0; i < OPTIMIZER_STATES; i++)
        for (size_t k = 0; k < param->count; k++)
            if (checkpoint_state_prefix(optimizer, &param->tensor[k], i, prefix))
                add_tensor(w, &param->tensor[k], prefix, optimizer->state[i]);
}

static void add_text(struct writing *w, const char *name, const char *text) {
    w->texts[w->text_count++] = (struct stored_text){name, text};
}

static void add_number(struct writing *w, const char *name, const char *format, double number) {
    char *value = w->values[w->text_count];
    snprintf(value, TEXT_SIZE, format, number);
    add_text(w, name, value);
}

static void add_options(struct writing *w, const struct config *config) {
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        if (o->scope == OPTION_OF_CALL) continue;
        const char *value = option_value(o, config, w->values[w->text_count], TEXT_SIZE);
        if (value) add_text(w, o->name, value);
    }
}

static void add_progress(struct writing *w, const struct config *config, const struct outcome *o) {
    add_number(w, "train_loss", "%.17g", o->train_loss);
    add_number(w, "val_loss", "%.17g", o->val_loss);
    add_number(w, "val_accuracy", "%.17g", o->val_accuracy);
    add_number(w, "best_val_loss", "%.17g", o->best_val_loss);
    add_number(w, "best_step", "%.0f", (double)o->best_step);
    if (config->eval_train) add_number(w, "eval_train_loss", "%.17g", o->eval_train_loss);
    add_number(w, "tokens", "%.0f", (double)o->tokens);
    add_number(w, "pads", "%.0f", (double)o->pads);
    for (int i = 0; i < RANDOM_KEYS; i++) {
        char *value = w->values[w->text_count];
        checkpoint_key_text(i, config, value);
        add_text(w, checkpoint_key_names[i], value);
    }
}

/* Texts beside the options: 5 that checkpoint_write() adds, and those of add_progress(). */
enum { OTHER_TEXTS = 5 + 8 + RANDOM_KEYS };

void checkpoint_write(FILE *stream, const struct model *model, const struct optimizer *optimizer,
                      const struct config *config, const struct vocabulary *vocabulary,
                      const struct outcome *outcome, const struct model *best) {
    const struct tensor_list *param = &model->lists.param, *state = &model->lists.state;
    size_t arrays =
        (2 + OPTIMIZER_STATES) * param->count + 1 + 2 * state->count + model->lists.tracked.count;
    size_t texts = OTHER_TEXTS;
    const bool is_best = model == best;
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) texts++;
    struct writing w = {.arrays = memory_take(arrays, sizeof *w.arrays, "a checkpoint"),
                        .texts = memory_take(texts, sizeof *w.texts, "a checkpoint"),
                        .names = memory_take(arrays, sizeof *w.names, "a checkpoint"),
                        .values = memory_take(texts, sizeof *w.values, "a checkpoint")};
    char *symbols = vocabulary_text(vocabulary), crc32[16];
    add_text(&w, "format", "pt");
    add_number(&w, "step", "%.0f", (double)(is_best ? outcome->best_step : outcome->steps));
    if (is_best) add_number(&w, "val_loss", "%.17g", outcome->best_val_loss);
    add_text(&w, "vocabulary", symbols);
    snprintf(crc32, sizeof crc32, "%08x", outcome->corpus_crc32);
    add_text(&w, "corpus_crc32", crc32);
    add_options(&w, config);
    if (optimizer) add_progress(&w, config, outcome);

    add_tensors(&w, param, "", param->value);
    for (size_t i = 0; config->model.head == HEAD_TIED && i < param->count; i++)
        if (!strcmp(w.arrays[i].name, EMBEDDING_NAME)) {
            w.arrays[w.array_count] = w.arrays[i];
            w.arrays[w.array_count++].name = HEAD_NAME;
        }
    add_tensors(&w, state, "", state->value);
    if (optimizer) {
        add_optimizer(&w, param, optimizer);
        add_tensors(&w, &model->lists.tracked, TRACKED, model->lists.tracked.value);
    }
    if (optimizer && best) {
        add_tensors(&w, param, BEST, best->lists.param.value);
        add_tensors(&w, state, BEST, best->lists.state.value);
    }
    safetensors_write(stream, w.texts, w.text_count, w.arrays, w.array_count);
    free(w.arrays);
    free(w.texts);
    free(w.names);
    free(w.values);
    free(symbols);
}
