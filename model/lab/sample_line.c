#include "model/lab/sample_line.h"
#include "data/die.h"
#include "data/random.h"
#include "data/text/utf8.h"
#include "data/text/writer.h"
#include "model/lab/sample.h"
#include <string.h>

enum { CHARACTERS = 72 };

/* What is sampled, by a leader and its helpers. */
struct line {
    struct sampler sampler;
    int32_t start, end; // the character before the line; the one that ends it, or -1
    size_t count;
    int32_t id[CHARACTERS];
};

static void sample_ids(void *argument) {
    struct line *line = argument;
    sampler_add(&line->sampler, line->start);
    while (line->count < CHARACTERS) {
        int32_t id = sampler_try(&line->sampler);
        if (id < 0 || id == line->end) return;
        line->id[line->count++] = id;
    }
}

/* Writes the text with escapes; a terminal takes U+0080 to U+009F for control characters, too. */
static void escape(const char *text, size_t bytes, FILE *file) {
    for (size_t at = 0; at < bytes;) {
        const int32_t code = utf8_decode((const unsigned char *)text, bytes, &at);
        if (code == '\n' || code == '\t' || code == '\\')
            fprintf(file, "\\%c", code == '\n' ? 'n' : code == '\t' ? 't' : '\\');
        else
            utf8_put(code < 0x20 || (code >= 0x7f && code < 0xa0) ? '?' : (uint32_t)code, file);
    }
}

/* The text of the line, escaped, in `text` (size bytes). */
static void write_text(const struct line *line, const struct vocabulary *vocabulary, char *text,
                       size_t size) {
    char raw[4 * CHARACTERS + 4] = "";
    FILE *plain = fmemopen(raw, sizeof raw, "w"), *escaped = fmemopen(text, size, "w");
    if (!plain || !escaped) die(STATUS_MACHINE, "memory: not enough for a sample");
    struct writer writer = {.vocabulary = vocabulary, .file = plain};
    for (size_t i = 0; i < line->count; i++) writer_put(&writer, line->id[i]);
    writer_end(&writer);
    const long bytes = ftell(plain);
    fclose(plain);
    escape(raw, (size_t)bytes, escaped);
    fclose(escaped);
}

void sample_line(struct session *t) {
    const struct vocabulary *vocabulary = session_vocabulary(t);
    const int32_t newline = vocabulary_id(vocabulary, '\n');
    struct line line = {.start = newline < 0 ? 0 : newline, .end = t->config.items ? newline : -1};
    char text[8 * CHARACTERS] = "";
    if (t->run.silent) return;
    sampler_init(&line.sampler, &t->model, t->config.sampling,
                 random_key(t->config.seed, "sample", 0));
    team_lead(model_extend_threads(&t->model), sample_ids, &line);
    sampler_free(&line.sampler);
    write_text(&line, vocabulary, text, sizeof text);
    run_sample(&t->run, t->outcome.steps, text);
    snprintf(t->progress.text, sizeof t->progress.text, "step %lld writes: %s",
             (long long)t->outcome.steps, text);
}
