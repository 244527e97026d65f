/* Which file a command reads, and what it says of its model: its arrays' sizes, its texts, and what
   the command line adds. */
#include "data/die.h"
#include "data/files/notice.h"
#include "model/lab/checkpoint_parts.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const struct stored *checkpoint_find(const struct checkpoint *c, const char *name) {
    char compiled[LONGEST_NAME + 16];
    const struct stored *array = safetensors_find(&c->file, name);
    if (array) return array;
    snprintf(compiled, sizeof compiled, "_orig_mod.%s", name);
    return safetensors_find(&c->file, compiled);
}

const struct stored *checkpoint_embedding(const struct checkpoint *c) {
    const struct stored *wte = checkpoint_find(c, EMBEDDING_NAME);
    return wte ? wte : checkpoint_find(c, HEAD_NAME);
}

static const struct stored *find_in_layer(const struct checkpoint *c, long long layer,
                                          const char *rest) {
    char name[LONGEST_NAME];
    snprintf(name, sizeof name, "transformer.h.%lld.%s", layer, rest);
    return checkpoint_find(c, name);
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
    const struct stored *wte = checkpoint_embedding(c),
                        *wpe = checkpoint_find(c, "transformer.wpe.weight"), *array;
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

/* A run stopped before its first checkpoint has its options, and starts from step 0. */
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
        if (folder && !c->file.header_checked)
            refuse(
                c,
                "its header has no checksum, so it is no run's (name the file itself to use it)");
        if (!c->file.data_checked)
            notice(c->file.header_checked
                       ? "%s has no checksum of its data: damage there would not be found"
                       : "%s has no checksum: damage in it would not be found",
                   c->path);
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
    size_t V = checkpoint_embedding(c)->shape[0];
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
