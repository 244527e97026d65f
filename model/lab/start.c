#include "model/lab/start.h"
#include "data/die.h"
#include "data/files/notice.h"
#include "model/lab/checkpoint_parts.h"
#include <string.h>

/* Notes each option of the model that differs from that of the file: shapes do not show all of
   them. An option that is not in effect changes nothing and is not noted. */
static void note_differences(const struct checkpoint *file, const struct config *config) {
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        const char *stored = safetensors_text(&file->file, o->name);
        char text[TEXT_SIZE];
        if (o->scope != OPTION_OF_MODEL || !stored || !config_has_effect(config, o)) continue;
        const char *value = option_value(o, config, text, sizeof text);
        if (strcmp(stored, value) != 0)
            notice("%s is of a model with --%s=%s, this one has %s", file->path, o->name, stored,
                   value);
    }
}

void start_open(struct checkpoint *file, struct session *t) {
    const struct config *config = &t->config;
    const struct checkpoint *from = &t->checkpoint; // of a run that resumes
    *file = (struct checkpoint){0};
    if (!config->start) return;
    if (!from->file.stream) {
        checkpoint_open_start(file, config->start);
        from = file;
    }
    if (safetensors_text(&from->file, "vocabulary") && checkpoint_embedding(from))
        checkpoint_read_vocabulary(from, (int)config->level, &t->known);
}

void start_read(struct checkpoint *file, struct session *t) {
    if (!file->file.stream) return;
    const struct stored *embedding = checkpoint_embedding(file);
    if (embedding && embedding->dimensions && embedding->shape[0] != t->model.V)
        die(STATUS_MACHINE,
            "%s: its embedding has %zu characters, but the vocabulary of %s has %zu", file->path,
            embedding->shape[0], t->corpus.name, t->model.V);
    checkpoint_read_start(file, &t->model);
    note_differences(file, &t->config);
    checkpoint_close(file);
}
