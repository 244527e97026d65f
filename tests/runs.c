/* A run in memory, and files that a test reads and writes. */
#include "tests/runs.h"
#include "data/die.h"
#include "model/app/session.h"
#include "tests/command.h"
#include "tests/support.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

void memory_start(struct session *t, const char *options) {
    char *words[64] = {"train"};
    *t = (struct session){0};
    struct config given;
    config_parse(&given, 1 + split(say("%s", options), words + 1, 63), words);
    t->plan = plan_of(&given);
    const struct config *config = t->loader.config = &t->plan.config;
    session_join(config);
    session_corpus(&t->loader.corpus, config, NULL);
    t->loader.batch = batch_make(config->batch_size, config->model.block_size);
    model_init(&t->model, &config->model, t->loader.corpus.vocabulary.V, config->batch_size,
               config->seed);
}

void memory_end(struct session *t) {
    model_free(&t->model);
    batch_free(&t->loader.batch);
    corpus_free(&t->loader.corpus);
}

const char *json_member(const char *object, const char *name) {
    const char *quoted = say("\"%s\":", name);
    int depth = 0;
    for (const char *c = object; *c; c++) {
        if (*c == '"') {
            if (depth == 1 && !strncmp(c, quoted, strlen(quoted)))
                return c + strlen(quoted) + strspn(c + strlen(quoted), " \n");
            while (*++c != '"') c += *c == '\\';
        } else {
            depth += (*c == '{' || *c == '[') - (*c == '}' || *c == ']');
        }
    }
    return NULL;
}

bool json_is(const char *value, const char *text) {
    if (!value) return false;
    size_t length = strlen(text), quote = *value == '"';
    return !strncmp(value + quote, text, length) &&
           strchr(quote ? "\"" : ",}] \n", value[quote + length]);
}

void stored_write(const char *path, const struct stored_text *texts, size_t text_count,
                  const struct stored *arrays, size_t array_count) {
    FILE *file = fopen(path, "wb");
    const struct safetensors content = {.texts = (struct stored_text *)texts,
                                        .text_count = text_count,
                                        .arrays = (struct stored *)arrays,
                                        .array_count = array_count};
    cr_assert(file, "%s: cannot be written", path);
    safetensors_write(&content, file);
    cr_assert(!fclose(file));
}
