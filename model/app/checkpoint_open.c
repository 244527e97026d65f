/* Finds the file that a command uses, and determines the options of its model from the sizes of its
   arrays, its metadata and the command line. */
#include "data/die.h"
#include "model/app/checkpoint.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define POSITIONS_NAME "transformer.wpe.weight"
#define CONVERT        " (scripts/load_pytorch.py --help shows how to convert others)"
#define NO_MODEL       "holds no model with nanoGPT's names" CONVERT

static const struct stored *find_in_layer(const struct checkpoint *c, long long layer,
                                          const char *rest) {
    char name[NAME_SIZE];
    snprintf(name, sizeof name, "transformer.h.%lld.%s", layer, rest);
    return safetensors_find(&c->file, name);
}

static _Noreturn void refuse(const struct checkpoint *c, const char *why) {
    die(STATUS_MACHINE, "%s: %s", c->path, why);
}

/* Sets the option of this name to the size of an array; dies if it is out of the option's range. */
static void set_size(const char *where, struct config *stored, const char *name, size_t size) {
    char value[32];
    snprintf(value, sizeof value, "%zu", size);
    options_set(config_options, stored, where, name, value);
}

/* Sets the model's sizes from the shapes of its arrays, so that a damaged text cannot make the
   program take too much memory. Without learned positions only texts and options say how long a
   block is. */
static void read_sizes(const struct checkpoint *c, const char *where, struct config *stored) {
    const struct stored *wte = safetensors_find(&c->file, EMBEDDING_NAME);
    const struct stored *wpe = safetensors_find(&c->file, POSITIONS_NAME), *array;
    if (wte->dimensions != 2 || (wpe && wpe->dimensions != 2)) refuse(c, NO_MODEL);
    size_t C = wte->shape[1], layers = 0;
    if (wpe && wpe->shape[1] != C)
        refuse(c, "its token and position embeddings differ in their number of channels");
    // attention's matrix has up to 4 C^2 numbers: queries, keys, values and gates
    for (; (array = find_in_layer(c, (long long)layers, "attn.c_attn.weight")); layers++)
        if (array->dimensions != 2 || array->shape[1] != C || array->shape[0] <= C ||
            array->shape[0] > 4 * C)
            die(STATUS_MACHINE, "%s: %s: its shape does not fit %zu channels" CONVERT, c->path,
                array->name, C);
    if (!wte->shape[0] || !C || !layers || (wpe && !wpe->shape[0]))
        refuse(c, "its model has no characters, channels, positions or layers");
    set_size(where, stored, "n-embd", C);
    if (wpe) set_size(where, stored, "block-size", wpe->shape[0]);
    set_size(where, stored, "n-layer", layers);
    const struct stored *proj = find_in_layer(c, 0, "mlp.c_proj.weight");
    if (proj && proj->dimensions == 2) set_size(where, stored, "ffn-width", proj->shape[1]);
    stored->model.bias = find_in_layer(c, 0, "attn.c_attn.bias") != NULL;
}

/* The stored options: sizes from the arrays, then all texts. Dies if they contradict each other.
   `stored` has the options of the command line, which count where the file says nothing, or the
   defaults. Only the number of heads, and the context of a model without learned positions, have no
   default: dies without them. */
static void read_options(const struct checkpoint *c, struct config *stored) {
    char where[4200];
    snprintf(where, sizeof where, "%s: ", c->path);
    read_sizes(c, where, stored);
    const struct model_config sizes = stored->model;
    for (size_t i = 0; i < c->file.text_count; i++)
        options_set(config_options, stored, where, c->file.texts[i].name, c->file.texts[i].text);
    const struct config resolved = plan_of(stored).config;
    const struct model_config *model = &resolved.model;
    const bool learned = model->position == POSITION_LEARNED;
    if (model->n_layer != sizes.n_layer || model->n_embd != sizes.n_embd ||
        model->bias != sizes.bias || model->ffn_width != sizes.ffn_width ||
        (learned && model->block_size != sizes.block_size))
        refuse(c, "n-layer, n-embd, block-size, ffn-width or bias differ between its metadata and "
                  "its arrays");
    if (learned && !safetensors_find(&c->file, POSITIONS_NAME)) refuse(c, NO_MODEL);
    if (!model->block_size)
        die(STATUS_USAGE, "%s: does not say how long its context is (give --block-size=N)",
            c->path);
    if (!model->n_head)
        die(STATUS_USAGE, "%s: does not say how many heads it has (give --n-head=N)", c->path);
}

enum { PATH_SIZE = 4096 };

/* Names a file in a folder; returns whether it exists. */
static bool exists_in(const char *folder, const char *name, char path[PATH_SIZE]) {
    if (snprintf(path, PATH_SIZE, "%s/%s", folder, name) >= PATH_SIZE)
        die(STATUS_USAGE, "%s: the name is too long", folder);
    return !access(path, F_OK);
}

/* Names the model's file: `place`, or the one in this folder. Returns whether it is a folder. */
static bool name_file(struct checkpoint *c, const char *place) {
    struct stat status;
    const bool folder = !stat(place, &status) && S_ISDIR(status.st_mode);
    *c = (struct checkpoint){0};
    if (folder)
        exists_in(place, "model.safetensors", c->path);
    else
        snprintf(c->path, sizeof c->path, "%s", place);
    return folder;
}

/* A run that was stopped before its first checkpoint: reads its options; it starts at step 0. */
static void open_without_checkpoint(struct checkpoint *c, const char *folder,
                                    struct config *stored) {
    if (exists_in(folder, "model.safetensors", c->path))
        die(STATUS_MACHINE,
            "--resume=%s: the run has ended and kept no checkpoint (see --checkpoint-interval)",
            folder);
    if (!exists_in(folder, "config.ini", c->path)) {
        if (errno != ENOENT) die(STATUS_MACHINE, "%s: %s", c->path, strerror(errno));
        die(STATUS_MACHINE, "--resume=%s: is not the folder of a run", folder);
    }
    options_read(config_options, stored, c->path);
}

/* The updates that the run has done; checkpoint_read_run() checks the number. */
static int64_t steps_done(const struct checkpoint *c) {
    const char *steps = c->file.stream ? safetensors_text(&c->file, "step") : NULL;
    return steps ? strtoll(steps, NULL, 10) : 0;
}

/* Takes the options from config.ini, which may be newer than the checkpoint: options that --resume
   changed are written to config.ini at once, but to the checkpoint only with the next one. The run
   may have been killed in between. */
static void read_changes(const struct checkpoint *c, const char *folder, struct config *stored,
                         int argc, char **argv) {
    const struct config_source source = {c->path, "was config.ini changed?", steps_done(c)};
    char path[PATH_SIZE];
    struct config changed = *stored;
    if (!exists_in(folder, "config.ini", path)) return; // the checkpoint has all options
    options_read(config_options, &changed, path);
    config_agree(stored, &changed, OPTION_OF_RUN, &source, argc, argv);
    *stored = changed;
}

/* Opens the file at c->path; notes if damage in it would not be found. */
static void open_file(struct checkpoint *c) {
    safetensors_open(&c->file, c->path);
    if (!safetensors_find(&c->file, EMBEDDING_NAME)) refuse(c, NO_MODEL);
    if (!c->file.data_checked)
        notice(c->file.header_checked
                   ? "%s has no checksum of its data: damage there would not be found"
                   : "%s has no checksum: damage in it would not be found",
               c->path);
}

void checkpoint_open_start(struct checkpoint *c, const char *place) {
    name_file(c, place);
    open_file(c);
}

void checkpoint_open(struct checkpoint *c, struct config *config, int argc, char **argv) {
    const char *place = config_stored(config);
    const bool resume = config->resume != NULL, folder = name_file(c, place);
    struct config stored;
    config_start(&stored);
    if (resume && !folder)
        die(STATUS_MACHINE, "--resume=%s: %s", place,
            access(place, F_OK) ? strerror(errno) : "is not the folder of a run");
    if (folder &&
        (resume || access(c->path, F_OK))) // model.safetensors is written at the end of a run
        exists_in(place, "checkpoint.safetensors", c->path);
    if (resume && access(c->path, F_OK) && errno == ENOENT) {
        open_without_checkpoint(c, place, &stored);
    } else {
        open_file(c);
        if (folder && !c->file.header_checked)
            refuse(c, "its header has no checksum, so a run did not write it (name the file itself "
                      "to use it; scripts/load_pytorch.py --help shows how to convert others)");
        stored.model.n_head = stored.model.block_size = 0;
        if (!resume) options_arguments(config_options, &stored, argc, argv);
        read_options(c, &stored);
        if (resume) read_changes(c, place, &stored, argc, argv);
    }
    if (config->evaluate) stored.eval_iters = 0; // all of it
    if (config->generate && config->corpus && !stored.items)
        die(STATUS_USAGE,
            "%s: --generate needs no corpus (--prompt=... is the text that it continues)",
            config->corpus);
    const struct config_source source = {c->path, "leave it out", steps_done(c)};
    config_continue(config, &stored, resume ? OPTION_OF_RUN : OPTION_OF_MODEL, &source, argc, argv);
}

void checkpoint_read_vocabulary(const struct checkpoint *c, int level,
                                struct vocabulary *vocabulary) {
    size_t V = safetensors_find(&c->file, EMBEDDING_NAME)->shape[0];
    if (!vocabulary->symbols) {
        const char *text = safetensors_text(&c->file, "vocabulary");
        if (!text)
            die(STATUS_USAGE,
                "%s: has no vocabulary (give --vocabulary=FILE, the text that it was trained on)",
                c->path);
        if (!vocabulary_parse(vocabulary, level, text))
            refuse(c, "its vocabulary is not a list of ascending code points or bytes");
    }
    if (vocabulary->V != V)
        die(STATUS_MACHINE, "%s: its embedding has %zu characters, but its vocabulary has %zu",
            c->path, V, vocabulary->V);
}
