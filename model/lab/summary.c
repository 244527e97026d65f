#include "model/lab/summary.h"
#include "data/files/json.h"
#include "model/math/profile.h"
#include "model/math/simd.h"
#include <math.h>

#ifdef __clang__
#    define COMPILER __VERSION__
#else
#    define COMPILER "gcc " __VERSION__
#endif

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
    double all = 0;
    fputs("  \"profile\": {", stream);
    for (int i = 0; i < PROFILE_PARTS; i++) {
        double milliseconds = 1e3 * profile_seconds((enum profile_part)i) / (double)updates;
        all += milliseconds;
        fputs("\n    ", stream);
        json_string(stream, profile_name[i]);
        fprintf(stream, ": %.9g,", milliseconds);
    }
    fprintf(stream, "\n    \"all\": %.9g\n  },\n", all);
}

void summary_write(FILE *stream, const struct model *model, const struct config *config,
                   const struct outcome *o) {
    fputs("{\n", stream);
    text_member(stream, "exit_reason", o->exit_reason);
    const bool limited = config->max_seconds > 0 || config->stop_at > 0;
    if (limited && o->ended_by) text_member(stream, "ended_by", o->ended_by);
    member(stream, "steps", (double)o->steps);
    member(stream, "tokens", (double)o->tokens);
    member(stream, "train_loss", o->train_loss);
    member(stream, "val_loss", o->val_loss);
    if (config->eval_train) member(stream, "eval_train_loss", o->eval_train_loss);
    member(stream, "val_accuracy", o->val_accuracy);
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
    const size_t items[] = {o->items.all, o->items.train, o->items.longest, o->items.cut};
    const char *const names[] = {"items", "items_train", "items_longest", "items_cut"};
    for (int i = 0; i < 4; i++) member(stream, names[i], o->items.all ? (double)items[i] : -1);
    double held = (double)(o->tokens + o->pads);
    member(stream, "pad_share", o->items.all && held > 0 ? (double)o->pads / held : -1);
    member(stream, "grammar_entropy", o->grammar_entropy);
    if (config->profile && o->profiled) profile_member(stream, o->profiled);
    text_member(stream, "version", VERSION);
    text_member(stream, "compiler", COMPILER);
    member(stream, "vector_bits", 8 * SIMD_BYTES);
    member(stream, "real_bits", 8 * sizeof(real));
    fputs("  \"options\": {", stream);
    options_write_json(config_options, config, stream);
    fputs("\n  }\n}\n", stream);
}
