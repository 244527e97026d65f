#include "checkpoint.h"
#include "../data/die.h"
#include "../data/random.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const enum stored_type real_type = sizeof(real) == sizeof(float) ? STORED_F32 : STORED_F64;

/* nanoGPT's head is tied to its token embedding, but its state dict names both. */
static const char embedding[] = "transformer.wte.weight", head[] = "lm_head.weight";

/* Adam's moments, in PyTorch's terms. */
static const char first_moment[] = "optimizer.exp_avg.";
static const char second_moment[] = "optimizer.exp_avg_sq.";
static const char tracked[] = "probe.";    // running statistics that probes alone know
static const char best_prefix[] = "best."; // the model that --keep-best keeps

static void *room(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory) die(STATUS_MACHINE, "memory: %s", strerror(errno));
    return memory;
}

/* --- writing -----------------------------------------------------------------------------------
 */

enum { LONGEST_NAME = 96, LONGEST_TEXT = 64 };

/* What is about to be written, with room for the names and texts that are made for it. */
struct writing {
    struct stored *arrays;
    struct stored_text *texts;
    size_t array_count, text_count;
    char (*names)[LONGEST_NAME];
    char (*values)[LONGEST_TEXT];
    int64_t *counts;
};

static void add_tensors(struct writing *w, const struct tensor_list *list, const char *prefix,
                        const real *values) {
    for (size_t i = 0; i < list->count; i++) {
        const struct tensor *t = &list->tensor[i];
        size_t at = w->array_count++;
        snprintf(w->names[at], LONGEST_NAME, "%s%s", prefix, t->name);
        w->arrays[at] = (struct stored){.name = w->names[at],
                                        .type = real_type,
                                        .dimensions = t->dimensions,
                                        .shape = {t->shape[0], t->shape[1]},
                                        .data = values + t->offset};
    }
}

/* Running statistics; one without dimensions is a count, an integer in PyTorch. */
static void add_state(struct writing *w, const struct tensor_list *state) {
    size_t first = w->array_count;
    add_tensors(w, state, "", state->value);
    for (size_t i = first; i < w->array_count; i++)
        if (!w->arrays[i].dimensions) {
            w->counts[i] = (int64_t) * (const real *)w->arrays[i].data;
            w->arrays[i].type = STORED_I64;
            w->arrays[i].data = &w->counts[i];
        }
}

static void add_text(struct writing *w, const char *name, const char *text) {
    w->texts[w->text_count++] = (struct stored_text){name, text};
}

static void add_number(struct writing *w, const char *name, const char *format, double number) {
    char *value = w->values[w->text_count];
    snprintf(value, LONGEST_TEXT, format, number);
    add_text(w, name, value);
}

static void add_options(struct writing *w, const struct config *config) {
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        if (o->scope == OPTION_OF_CALL) continue;
        const char *value = option_value(o, config, w->values[w->text_count], LONGEST_TEXT);
        if (value) add_text(w, o->name, value);
    }
}

/* Values of the streams that batches and dropout are drawn from: a program that draws others cannot
   go on with the run. */
static const struct {
    const char *name, *stream;
} random_keys[] = {{"random_key_batches", "epoch"}, {"random_key_dropout", "residual"}};
enum { RANDOM_KEYS = sizeof random_keys / sizeof *random_keys };

static void random_key_text(int i, const struct config *config, char text[LONGEST_TEXT]) {
    snprintf(
        text, LONGEST_TEXT, "%016llx",
        (unsigned long long)random_bits(random_key(config->seed, random_keys[i].stream, 0), 0));
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
        random_key_text(i, config, value);
        add_text(w, random_keys[i].name, value);
    }
}

void checkpoint_write(FILE *stream, const struct model *model, const struct adam *adam,
                      const struct config *config, const struct vocabulary *vocabulary,
                      const struct outcome *outcome, const struct model *best) {
    const struct tensor_list *param = &model->lists.param, *state = &model->lists.state;
    size_t arrays = 4 * param->count + 1 + 2 * state->count + model->lists.tracked.count;
    size_t texts = 17;
    const bool is_best = model == best;
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) texts++;
    struct writing w = {.arrays = room(arrays, sizeof *w.arrays),
                        .texts = room(texts, sizeof *w.texts),
                        .names = room(arrays, sizeof *w.names),
                        .values = room(texts, sizeof *w.values),
                        .counts = room(arrays, sizeof *w.counts)};
    char *symbols = vocabulary_text(vocabulary), crc32[16];
    add_text(&w, "format", "pt");
    add_number(&w, "step", "%.0f", (double)(is_best ? outcome->best_step : outcome->steps));
    if (is_best) add_number(&w, "val_loss", "%.17g", outcome->best_val_loss);
    add_text(&w, "vocabulary", symbols);
    snprintf(crc32, sizeof crc32, "%08x", outcome->corpus_crc32);
    add_text(&w, "corpus_crc32", crc32);
    add_options(&w, config);
    if (adam) add_progress(&w, config, outcome);

    add_tensors(&w, param, "", param->value);
    for (size_t i = 0; i < param->count; i++)
        if (!strcmp(w.arrays[i].name, embedding)) {
            w.arrays[w.array_count] = w.arrays[i];
            w.arrays[w.array_count++].name = head;
        }
    add_state(&w, state);
    if (adam) {
        add_tensors(&w, param, first_moment, adam->m);
        add_tensors(&w, param, second_moment, adam->v);
        add_tensors(&w, &model->lists.tracked, tracked, model->lists.tracked.value);
    }
    if (adam && best) {
        add_tensors(&w, param, best_prefix, best->lists.param.value);
        add_tensors(&w, state, best_prefix, best->lists.state.value);
    }
    safetensors_write(stream, w.texts, w.text_count, w.arrays, w.array_count);
    free(w.arrays);
    free(w.texts);
    free(w.names);
    free(w.values);
    free(w.counts);
    free(symbols);
}

/* --- opening -----------------------------------------------------------------------------------
 */

/* An array by nanoGPT's name, which torch.compile() puts a prefix before. */
static const struct stored *find(const struct checkpoint *c, const char *name) {
    char compiled[LONGEST_NAME + 16];
    const struct stored *array = safetensors_find(&c->file, name);
    if (array) return array;
    snprintf(compiled, sizeof compiled, "_orig_mod.%s", name);
    return safetensors_find(&c->file, compiled);
}

static const struct stored *find_embedding(const struct checkpoint *c) {
    const struct stored *wte = find(c, embedding);
    return wte ? wte : find(c, head);
}

static const struct stored *find_in_layer(const struct checkpoint *c, long long layer,
                                          const char *rest) {
    char name[LONGEST_NAME];
    snprintf(name, sizeof name, "transformer.h.%lld.%s", layer, rest);
    return find(c, name);
}

static _Noreturn void refuse(const struct checkpoint *c, const char *why) {
    die(STATUS_MACHINE, "%s: %s", c->path, why);
}

/* A size that an array has, as the option of that name: in its range. */
static void set_size(const struct checkpoint *c, struct config *stored, const char *name,
                     size_t size) {
    char where[4200], value[32];
    snprintf(where, sizeof where, "%s: ", c->path);
    snprintf(value, sizeof value, "%zu", size);
    options_set(config_options, stored, where, name, value);
}

/* Sizes as the arrays have them: only such are ever made room for. The matrices of attention bear
   out what would be squared and multiplied. */
static void sizes_of(const struct checkpoint *c, struct config *stored) {
    const struct stored *wte = find_embedding(c), *wpe = find(c, "transformer.wpe.weight"), *array;
    if (!wte || !wpe || wte->dimensions != 2 || wpe->dimensions != 2)
        refuse(c, "holds no model with nanoGPT's names (transformer.wte.weight and so on)");
    size_t C = wte->shape[1], layers = 0;
    if (wpe->shape[1] != C) refuse(c, "embeds characters and positions in different channels");
    for (; (array = find_in_layer(c, (long long)layers, "attn.c_attn.weight")); layers++)
        if (array->dimensions != 2 || array->shape[0] != 3 * C || array->shape[1] != C)
            die(STATUS_MACHINE, "%s: %s: has another shape than %zu channels ask for", c->path,
                array->name, C);
    if (!wte->shape[0] || !C || !wpe->shape[0] || !layers)
        refuse(c, "holds a model without characters, channels, positions or layers");
    set_size(c, stored, "n-embd", C);
    set_size(c, stored, "block-size", wpe->shape[0]);
    set_size(c, stored, "n-layer", layers);
    stored->model.bias = find_in_layer(c, 0, "attn.c_attn.bias") != NULL;
}

static bool arrays_show(const struct option *option) {
    static const char *const shown[] = {"n-layer", "n-embd", "block-size", "bias"};
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        if (!strcmp(option->name, shown[i])) return true;
    return false;
}

/* What neither the arrays nor the texts of another program's file say, the command line may, and
   how many heads there are it must: that has no usual value. */
static void ask_for_rest(const struct checkpoint *c, struct config *stored, int argc, char **argv) {
    struct config asked = *stored;
    asked.model.n_head = 0;
    options_arguments(config_options, &asked, argc, argv);
    if (!asked.model.n_head && !safetensors_text(&c->file, "n-head"))
        die(STATUS_USAGE, "%s: does not say how many heads it has (--n-head=N does)", c->path);
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        if (o->scope != OPTION_OF_MODEL || arrays_show(o) || safetensors_text(&c->file, o->name))
            continue;
        char text[LONGEST_TEXT];
        options_set(config_options, stored, "--", o->name,
                    option_value(o, &asked, text, sizeof text));
    }
}

/* What the file says of its model: its arrays' sizes, and its texts, which must say the same. */
static void config_of(const struct checkpoint *c, struct config *stored) {
    char where[4200];
    sizes_of(c, stored);
    const struct model_config sizes = stored->model;
    snprintf(where, sizeof where, "%s: ", c->path);
    for (size_t i = 0; i < c->file.text_count; i++)
        options_set(config_options, stored, where, c->file.texts[i].name, c->file.texts[i].text);
    const struct model_config *model = &stored->model;
    if (model->n_layer != sizes.n_layer || model->n_embd != sizes.n_embd ||
        model->block_size != sizes.block_size || model->bias != sizes.bias)
        refuse(c, "its texts say another n-layer, n-embd, block-size or bias than its arrays");
}

static bool is_folder(const char *path) {
    struct stat status;
    return !stat(path, &status) && S_ISDIR(status.st_mode);
}

static void path_in(const char *folder, const char *name, char *path, size_t size) {
    if ((size_t)snprintf(path, size, "%s/%s", folder, name) >= size)
        die(STATUS_USAGE, "%s: the name is too long", folder);
}

/* A run stopped before its first checkpoint has its options, and begins at its begin. */
static void begin_again(struct checkpoint *c, const char *folder, struct config *stored) {
    path_in(folder, "model.safetensors", c->path, sizeof c->path);
    if (!access(c->path, F_OK))
        die(STATUS_MACHINE, "--resume=%s: has ended without a checkpoint to go on from", folder);
    path_in(folder, "config.ini", c->path, sizeof c->path);
    if (access(c->path, F_OK)) {
        if (errno != ENOENT) die(STATUS_MACHINE, "%s: %s", c->path, strerror(errno));
        die(STATUS_MACHINE, "--resume=%s: holds no run that can go on", folder);
    }
    options_read(config_options, stored, c->path);
}

/* What may change when a run goes on stands in config.ini from then on, in the checkpoint from the
   next one on: a run that is killed in between goes on as it was told to. */
static void take_changes(const struct checkpoint *c, const char *folder, struct config *stored) {
    char path[4096], where[4200];
    struct config changed = *stored;
    path_in(folder, "config.ini", path, sizeof path);
    if (access(path, F_OK)) return; // the checkpoint says all that is needed
    options_read(config_options, &changed, path);
    snprintf(where, sizeof where, "%s (was config.ini changed?)", c->path);
    options_agree(config_options, stored, &changed, OPTION_OF_RUN, where);
    *stored = changed;
}

void checkpoint_open(struct checkpoint *c, struct config *config, int argc, char **argv) {
    const char *place = config_stored(config);
    bool resume = config->resume != NULL, folder = is_folder(place);
    *c = (struct checkpoint){0};
    struct config stored;
    config_start(&stored);
    if (resume && !folder)
        die(STATUS_MACHINE, "--resume=%s: %s", place,
            access(place, F_OK) ? strerror(errno) : "is no run's folder");
    if (folder && !resume) path_in(place, "model.safetensors", c->path, sizeof c->path);
    if (folder && (resume || access(c->path, F_OK))) // the model alone comes at a run's end
        path_in(place, "checkpoint.safetensors", c->path, sizeof c->path);
    if (!folder) snprintf(c->path, sizeof c->path, "%s", place);
    if (resume && access(c->path, F_OK) && errno == ENOENT) {
        begin_again(c, place, &stored);
    } else {
        safetensors_open(&c->file, c->path);
        if (folder && !c->file.sealed)
            refuse(
                c,
                "its header has no checksum, so it is no run's (name the file itself to use it)");
        config_of(c, &stored);
        ask_for_rest(c, &stored, argc, argv);
        if (resume) take_changes(c, place, &stored);
    }
    if (config->evaluate) stored.eval_iters = 0; // the whole of it
    if (config->generate && config->corpus && !stored.items)
        die(STATUS_USAGE, "%s: --generate needs no corpus (--prompt=... is what it goes on from)",
            config->corpus);
    config_continue(config, &stored, resume ? OPTION_OF_RUN : OPTION_OF_MODEL, c->path, argc, argv);
}

void checkpoint_close(struct checkpoint *c) {
    safetensors_close(&c->file);
}

void checkpoint_vocabulary(const struct checkpoint *c, int level, struct vocabulary *vocabulary) {
    size_t V = find_embedding(c)->shape[0];
    if (!vocabulary->symbols) {
        const char *text = safetensors_text(&c->file, "vocabulary");
        if (!text)
            die(STATUS_USAGE,
                "%s: holds no vocabulary (--vocabulary=FILE, the text that it learned from)",
                c->path);
        if (!vocabulary_parse(vocabulary, level, text))
            refuse(c, "its vocabulary is not a list of ascending code points or bytes");
    }
    if (vocabulary->V != V)
        die(STATUS_MACHINE, "%s: embeds %zu characters, but its vocabulary has %zu", c->path, V,
            vocabulary->V);
}

/* --- reading -----------------------------------------------------------------------------------
 */

static void read_tensor(const struct checkpoint *c, const struct stored *array, const char *name,
                        const struct tensor *t, real *values) {
    if (!array) die(STATUS_MACHINE, "%s: %s: is missing", c->path, name);
    bool fits = array->dimensions == t->dimensions;
    for (int d = 0; fits && d < t->dimensions; d++) fits = array->shape[d] == t->shape[d];
    if (!fits) die(STATUS_MACHINE, "%s: %s: has another shape than the model's", c->path, name);
    if (!stored_is_numeric(array))
        die(STATUS_MACHINE, "%s: %s: is of type %s", c->path, name, stored_type_name(array));
    safetensors_read(&c->file, array, real_type, values + t->offset);
}

static void read_tensors(const struct checkpoint *c, const struct tensor_list *list,
                         const char *prefix, real *values) {
    char name[LONGEST_NAME];
    for (size_t i = 0; i < list->count; i++) {
        const struct tensor *t = &list->tensor[i];
        snprintf(name, sizeof name, "%s%s", prefix, t->name);
        read_tensor(c, strcmp(name, embedding) ? find(c, name) : find_embedding(c), name, t,
                    values);
    }
    const struct tensor *bad = tensor_nonfinite(list, values);
    if (bad) die(STATUS_MACHINE, "%s: %s%s: holds nan or infinity", c->path, prefix, bad->name);
}

static bool ends_with(const char *name, const char *end) {
    size_t length = strlen(name), behind = strlen(end);
    return length >= behind && !strcmp(name + length - behind, end);
}

static bool holds(const struct tensor_list *list, const char *name) {
    for (size_t i = 0; i < list->count; i++)
        if (!strcmp(list->tensor[i].name, name)) return true;
    return false;
}

/* That nothing in the file was left out: it would be a weight of another model. */
static void check_all_used(const struct checkpoint *c, const struct model *model) {
    for (size_t i = 0; i < c->file.array_count; i++) {
        const char *name = c->file.arrays[i].name;
        if (!strncmp(name, "_orig_mod.", 10)) name += 10;
        bool used = !strncmp(name, "optimizer.", 10) || !strncmp(name, tracked, strlen(tracked)) ||
                    !strncmp(name, best_prefix, strlen(best_prefix)) || !strcmp(name, head) ||
                    ends_with(name, ".attn.bias") || // nanoGPT's causal mask, without torch's own
                    holds(&model->lists.param, name) || holds(&model->lists.state, name);
        if (!used) die(STATUS_MACHINE, "%s: %s: is no part of this model", c->path, name);
    }
}

/* The head must be the token embedding: the model has one matrix for both. */
static void check_tied(const struct checkpoint *c, const struct model *model) {
    const struct stored *array = find(c, head);
    if (!array || !find(c, embedding)) return;
    size_t size = model->V * model->C;
    real *weight = room(size, sizeof *weight);
    bool same = stored_is_numeric(array) && array->dimensions == 2 && array->shape[0] == model->V &&
                array->shape[1] == model->C;
    if (same) safetensors_read(&c->file, array, real_type, weight);
    same = same && !memcmp(weight, model->wte.value, size * sizeof *weight);
    free(weight);
    if (!same) refuse(c, "lm_head.weight: is not transformer.wte.weight, as a tied head would be");
}

void checkpoint_read_model(const struct checkpoint *c, struct model *model) {
    check_all_used(c, model);
    read_tensors(c, &model->lists.param, "", model->lists.param.value);
    read_tensors(c, &model->lists.state, "", model->lists.state.value);
    model->lists.param.version++;
    check_tied(c, model);
}

static double number_of(const struct checkpoint *c, const char *name) {
    const char *text = safetensors_text(&c->file, name);
    char *end;
    double number = text ? strtod(text, &end) : NAN;
    if (!text || end == text || *end || !isfinite(number))
        die(STATUS_MACHINE, "%s: has no number for %s, so no run can go on from it", c->path, name);
    return number;
}

/* Of updates or tokens: a whole number. */
static int64_t count_of(const struct checkpoint *c, const char *name) {
    double number = number_of(c, name);
    if (!(number >= 0 && number <= 0x1p53) || number != floor(number))
        die(STATUS_MACHINE, "%s: %s: is no whole number", c->path, name);
    return (int64_t)number;
}

bool checkpoint_learned(const struct checkpoint *c, uint32_t corpus_crc32) {
    char text[16];
    const char *stored = safetensors_text(&c->file, "corpus_crc32");
    snprintf(text, sizeof text, "%08x", corpus_crc32);
    return stored && !strcmp(stored, text);
}

void checkpoint_read_run(const struct checkpoint *c, const struct config *config,
                         const struct model *model, struct adam *adam, struct outcome *outcome) {
    if (!checkpoint_learned(c, outcome->corpus_crc32)) {
        const char *stored = safetensors_text(&c->file, "corpus_crc32");
        die(STATUS_USAGE, "corpus: %s: has checksum %08x, the run's corpus had %s", outcome->corpus,
            outcome->corpus_crc32, stored ? stored : "none");
    }
    for (int i = 0; i < RANDOM_KEYS; i++) {
        char text[LONGEST_TEXT];
        const char *stored = safetensors_text(&c->file, random_keys[i].name);
        random_key_text(i, config, text);
        if (!stored || strcmp(stored, text) != 0)
            die(STATUS_MACHINE, "%s: %s: is not this program's: it draws other random numbers",
                c->path, random_keys[i].name);
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
    read_tensors(c, &model->lists.param, first_moment, adam->m);
    read_tensors(c, &model->lists.param, second_moment, adam->v);
    read_tensors(c, &model->lists.tracked, tracked, model->lists.tracked.value);
    adam->step = outcome->steps;
}

void checkpoint_read_best(const struct checkpoint *c, struct model *best) {
    read_tensors(c, &best->lists.param, best_prefix, best->lists.param.value);
    read_tensors(c, &best->lists.state, best_prefix, best->lists.state.value);
}
