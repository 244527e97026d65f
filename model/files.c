#include "files.h"
#include "../data/die.h"
#include "../data/json.h"
#include "../data/safetensors.h"
#include "simd.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef __clang__
#    define COMPILER __VERSION__
#else
#    define COMPILER "gcc " __VERSION__
#endif

static const enum stored_type real_type = sizeof(real) == sizeof(float) ? STORED_F32 : STORED_F64;

static struct stored stored_of(const struct tensor *t, const real *values) {
    return (struct stored){
        t->name, real_type, t->dimensions, {t->shape[0], t->shape[1]}, values + t->offset};
}

/* Arrays in nanoGPT's terms. Its head is tied to the token embedding, but its state dict names
   both, so both are written. A state without dimensions is a count, an integer in PyTorch. */
static size_t arrays_of(const struct model *m, struct stored *arrays, int64_t *counts) {
    const struct tensor_list *param = &m->lists.param, *state = &m->lists.state;
    size_t count = 0;
    for (size_t i = 0; i < param->count; i++) {
        arrays[count++] = stored_of(&param->tensor[i], param->value);
        if (param->value + param->tensor[i].offset == m->wte.value) {
            arrays[count] = arrays[count - 1];
            arrays[count++].name = "lm_head.weight";
        }
    }
    for (size_t i = 0; i < state->count; i++) {
        arrays[count] = stored_of(&state->tensor[i], state->value);
        if (!state->tensor[i].dimensions) {
            counts[i] = (int64_t)state->value[state->tensor[i].offset];
            arrays[count].type = STORED_I64;
            arrays[count].data = &counts[i];
        }
        count++;
    }
    return count;
}

void files_write_model(FILE *stream, const struct model *model, const struct config *config,
                       const char *vocabulary, int64_t step) {
    size_t most = model->lists.param.count + 1 + model->lists.state.count, options = 0;
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) options++;
    struct stored *arrays = calloc(most, sizeof *arrays);
    int64_t *counts = calloc(most, sizeof *counts);
    struct stored_text *texts = calloc(options + 3, sizeof *texts);
    char(*values)[64] = calloc(options, sizeof *values), step_text[32];
    if (!arrays || !counts || !texts || !values) die(STATUS_MACHINE, "memory: %s", strerror(errno));
    snprintf(step_text, sizeof step_text, "%lld", (long long)step);
    size_t count = 0;
    texts[count++] = (struct stored_text){"format", "pt"};
    texts[count++] = (struct stored_text){"step", step_text};
    texts[count++] = (struct stored_text){"vocabulary", vocabulary};
    for (size_t i = 0; i < options; i++) {
        const struct option *o = &config_options[i];
        const char *value = o->of_call ? NULL : option_value(o, config, values[i], sizeof *values);
        if (value) texts[count++] = (struct stored_text){o->name, value};
    }
    safetensors_write(stream, texts, count, arrays, arrays_of(model, arrays, counts));
    free(arrays);
    free(counts);
    free(texts);
    free(values);
}

static void member(FILE *stream, const char *name, double value) {
    fprintf(stream, "  \"%s\": ", name);
    if (!(value < 0) && isfinite(value))
        fprintf(stream, "%.9g,\n", value);
    else
        fputs("null,\n", stream); // not measured, or no number that JSON has
}

static void text_member(FILE *stream, const char *name, const char *value) {
    fprintf(stream, "  \"%s\": ", name);
    json_string(stream, value);
    fputs(",\n", stream);
}

void files_write_summary(FILE *stream, const struct model *model, const struct config *config,
                         const struct outcome *o) {
    fputs("{\n", stream);
    text_member(stream, "exit_reason", o->exit_reason);
    member(stream, "steps", (double)o->steps);
    member(stream, "tokens", (double)o->tokens);
    member(stream, "train_loss", o->train_loss);
    member(stream, "val_loss", o->val_loss);
    member(stream, "best_val_loss", o->best_val_loss);
    member(stream, "best_step", (double)o->best_step);
    member(stream, "parameters", (double)model_parameters(model));
    member(stream, "threads", (double)config->threads);
    member(stream, "seconds", o->seconds);
    member(stream, "tokens_per_second", o->tokens_per_second);
    text_member(stream, "corpus", o->corpus);
    member(stream, "corpus_bytes", (double)o->corpus_bytes);
    member(stream, "corpus_characters", (double)o->corpus_characters);
    fprintf(stream, "  \"corpus_crc32\": \"%08x\",\n", o->corpus_crc32);
    member(stream, "vocabulary", (double)o->vocabulary);
    member(stream, "grammar_entropy", o->grammar_entropy);
    text_member(stream, "version", VERSION);
    text_member(stream, "compiler", COMPILER);
    member(stream, "vector_bits", 8 * SIMD_BYTES);
    member(stream, "real_bits", 8 * sizeof(real));
    fputs("  \"options\": {", stream);
    options_write_json(config_options, config, stream);
    fputs("\n  }\n}\n", stream);
}
