#include "model/lab/use.h"
#include "data/die.h"
#include "data/random.h"
#include "data/text/items.h"
#include "data/text/utf8.h"
#include "data/text/vocabulary.h"
#include "model/lab/dump.h"
#include "model/lab/say.h"
#include "model/lab/session.h"
#include "model/math/ranks.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Runs `work`, which samples with this sampler, on a leader and its helpers. */
static void sample(const struct config *config, struct model *model, struct sampler *sampler,
                   team_work *work, void *argument) {
    sampler_init(sampler, model, config->sampling, random_key(config->seed, "sample", 0));
    team_lead(model_extend_threads(model), work, argument);
    sampler_free(sampler);
}

struct sampling {
    struct sampler sampler;
    const struct vocabulary *vocabulary;
    struct text_options text;   // of items: the prompt and how many
    size_t texts;               // of text_work()
    const struct corpus *known; // its items are; NULL: it is not said which are
    FILE *const *files;
    struct item_counts counts; // of items_work()
};

static void text_work(void *argument) {
    struct sampling *s = argument;
    for (size_t i = 0; i < s->texts; i++) {
        if (i) fputs("\n---\n", s->files[0]);
        sample_text(&s->sampler, s->vocabulary, &s->text, s->files);
    }
}

static void items_work(void *argument) {
    struct sampling *s = argument;
    s->counts =
        sample_items(&s->sampler, s->vocabulary, s->text.prompt, s->text.count, s->known, s->files);
}

/* --num-items items. Those of `corpus` are known; NULL: it is not said which are. */
static void write_items(const struct config *config, struct model *model, struct sampling *s,
                        const struct corpus *corpus, struct progress *progress) {
    s->text.count = config->num_items == OPTION_AUTO ? 20 : (size_t)config->num_items;
    s->known = corpus;
    sample(config, model, &s->sampler, items_work, s);
    streams_flush(); // before the next line on standard error
    const struct item_counts counts = s->counts;
    char places[128] = "", cut[64] = "";
    if (corpus)
        snprintf(
            places, sizeof places,
            ": %zu known (in the training split), %zu new (%zu of them in the validation split)",
            counts.known, counts.items - counts.known, counts.validate);
    if (counts.cut) snprintf(cut, sizeof cut, "; %zu cut at %zu characters", counts.cut, model->T);
    progress_say(progress, "%zu item%s%s%s", counts.items, counts.items == 1 ? "" : "s", places,
                 cut);
}

void use_sample(const struct record *r, struct progress *progress) {
    const struct config *config = r->config;
    if (!config->sample) return;
    struct new_file file = file_create(&r->run, "sample.txt");
    FILE *files[] = {file.stream, progress->shown ? stdout : NULL};
    struct sampling s = {.vocabulary = r->vocabulary,
                         .text.count = (size_t)config->sample,
                         .texts = 1,
                         .files = files};
    if (files[1]) fputc('\n', stdout);
    if (config->items)
        write_items(config, r->model, &s, r->outcome.corpus, progress);
    else
        sample(config, r->model, &s.sampler, text_work, &s);
    file_commit(&file);
    if (files[1]) fputs(config->items ? "\n" : "\n\n", stdout);
    streams_flush(); // before the next line on standard error
}

/* Reads the stored model, for batches of B sequences, and its vocabulary. */
static void open_model(const struct config *config, const struct checkpoint *checkpoint, size_t B,
                       struct model *model, struct vocabulary *vocabulary) {
    *vocabulary = (struct vocabulary){0};
    if (config->vocabulary) {
        struct corpus corpus;
        corpus_read(&corpus, config->vocabulary,
                    &(struct corpus_options){.level = (int)config->level});
        *vocabulary = corpus.vocabulary;
        corpus.vocabulary.symbols = NULL;
        corpus_free(&corpus);
    }
    checkpoint_read_vocabulary(checkpoint, (int)config->level, vocabulary);
    model_init(model, &config->model, vocabulary->V, B, config->seed);
    model->threads = (size_t)config->team;
    checkpoint_read_model(checkpoint, model);
}

/* Replaces the ids of a corpus by those of the same symbols in the model's vocabulary, which has
   more of them if the run had --start. */
static void use_ids_of(struct corpus *corpus, const struct vocabulary *model) {
    const size_t V = corpus->vocabulary.V;
    int32_t *id = memory_take(V, sizeof *id, "the corpus's vocabulary");
    for (size_t i = 0; i < V; i++) id[i] = vocabulary_id(model, corpus->vocabulary.symbols[i]);
    ids_map(&corpus->ids, corpus->length, id, model->V);
    free(id);
}

/* Reads the corpus that the model was trained on, with ids of the model's vocabulary; false, with a
   message, if it is missing or has changed. Dies if the command line names another one (`given`). */
static bool read_own_corpus(const struct config *config, const struct checkpoint *checkpoint,
                            const struct vocabulary *vocabulary, bool given, struct corpus *corpus,
                            struct progress *progress) {
    const char *path = config->corpus;
    uint32_t crc32;
    bool own = given || !path ||
               (corpus_checksum(path, &crc32) && checkpoint_same_corpus(checkpoint, crc32));
    if (own) session_corpus(corpus, config, NULL);
    own = own && checkpoint_same_corpus(checkpoint, corpus->crc32);
    if (!own && given)
        die(STATUS_USAGE,
            "corpus: %s: is not the corpus that the model was trained on (leave it "
            "out)",
            corpus->name);
    if (!own)
        progress_say(progress, "items are not marked as known or new: %s is missing or has changed",
                     !path               ? "the built-in grammar"
                     : strcmp(path, "-") ? path
                                         : "standard input");
    if (own) use_ids_of(corpus, vocabulary);
    return own;
}

void use_generate(const struct config *config, const struct checkpoint *checkpoint,
                  bool corpus_given, struct progress *progress) {
    struct model model;
    struct corpus corpus;
    struct vocabulary vocabulary;
    FILE *const files[] = {stdout, NULL};
    open_model(config, checkpoint, 1, &model, &vocabulary);
    progress_start(progress, config->quiet);
    struct sampling s = {.vocabulary = &vocabulary,
                         .text = {config->prompt, config->stop, (size_t)config->num_chars},
                         .texts = (size_t)config->num_samples,
                         .files = files};
    if (config->items) {
        bool own =
            read_own_corpus(config, checkpoint, &vocabulary, corpus_given, &corpus, progress);
        write_items(config, &model, &s, own ? &corpus : NULL, progress);
        if (own) corpus_free(&corpus);
    } else {
        sample(config, &model, &s.sampler, text_work, &s);
        fputc('\n', stdout);
    }
    streams_flush();
    vocabulary_free(&vocabulary);
    model_free(&model);
}

/* ---- --evaluate ---- */

/* The score with statistics from this source. */
static struct score score_with(struct loader *loader, struct model *model,
                               enum statistics_source source) {
    struct model measured;
    if (source == STATISTICS_RUNNING) return evaluate_validation(loader, model, source);
    measure_init(&measured, model, source);
    struct score score = evaluate_validation(loader, &measured, source);
    model_free(&measured);
    return score;
}

/* Whether the validation split has more than one batch. */
static bool has_other_batch(const struct loader *loader) {
    return corpus_blocks(&loader->corpus, loader->batch.T) > (size_t)loader->config->batch_size;
}

/* --stats=all: the loss with statistics from each source. */
static void print_statistics(struct loader *loader, struct model *model, double running) {
    printf("%-10s %-12s %s\n", "statistics", "loss", "difference from running statistics");
    for (int source = 0; source < STATISTICS_SOURCES; source++) {
        bool possible = source != STATISTICS_OTHER || has_other_batch(loader);
        if (!possible || !measure_has(&model->config, source)) {
            printf("%-10s -\n", statistics_name[source]);
            continue;
        }
        struct score score = score_with(loader, model, source);
        double loss = score.loss / (double)score.targets;
        printf("%-10s %-12.9g %+.6f\n", statistics_name[source], loss, loss - running);
    }
}

/* --leak: for several positions, in evaluation mode and with the batch's own statistics. */
static void print_leaks(struct loader *loader, struct model *model) {
    enum { MAX_ROWS = 16 };
    struct batch *batch = &loader->batch;
    struct model own;
    size_t T, last = 0;
    measure_init(&own, model, STATISTICS_OWN);
    corpus_validation(&loader->corpus, 0, (size_t)loader->config->batch_size, batch);
    T = batch->T;
    printf("change of the logits before character t when all characters from t on are replaced\n"
           "     t  in evaluation: largest  mean         in training: largest  mean\n");
    for (size_t row = 1; row <= MAX_ROWS; row++) {
        size_t at = (T * row + MAX_ROWS) / (MAX_ROWS + 1);
        if (at == last || !at || at >= T) continue;
        struct leak leaks[] = {measure_leak(model, false, batch, at),
                               measure_leak(&own, true, batch, at)};
        printf("%6zu  %-22.6g  %-11.6g  %-20.6g  %.6g\n", at, leaks[0].largest, leaks[0].mean,
               leaks[1].largest, leaks[1].mean);
        last = at;
    }
    model_free(&own);
}

/* --dump, after an evaluation with this score. */
static void write_dump(struct loader *loader, struct model *model, enum statistics_source source,
                       struct score score) {
    const struct batch *batch = &loader->batch;
    struct batch other = {0};
    struct model measured;
    struct dump dump;
    char loss[32];
    snprintf(loss, sizeof loss, "%.17g", score.loss / (double)score.targets);
    const struct stored_text texts[] = {{"statistics", statistics_name[source]}, {"loss", loss}};
    measure_init(&measured, model, source);
    evaluate_batch(loader, source, 0, &other);
    dump_init(&dump, batch);
    for (struct passes p = measure_start(&measured, source, batch, &other); measure_next(&p);)
        dump_pass(&dump, &p);
    if (source == STATISTICS_OWN) {
        model_zero_grad(&measured);
        for (size_t i = 0; i < evaluate_count(loader); i++) {
            evaluate_batch(loader, source, i, NULL);
            for (struct passes p = measure_start(&measured, source, batch, NULL);
                 measure_next(&p);) { // weighted as in an update of all batches (step.c)
                double batches = (double)score.targets / (double)batch_targets(&p.part);
                model_backward(&measured, &p.part, 0, 1 / batches);
            }
        }
        dump_gradients(&dump, &measured);
    }
    struct new_file file =
        ranks_number() ? file_create_nowhere() : file_create_at("dump", loader->config->dump);
    safetensors_write(file.stream, texts, 2, dump.arrays, dump.count);
    file_commit(&file);
    dump_free(&dump);
    batch_free(&other);
    model_free(&measured);
}

/* Dies if the dump could not be written, or would replace a file that is read or belongs to the
   run of the model in this file. */
static void check_dump(const struct config *config, const char *model) {
    const char *path = config->dump, *slash = strrchr(model, '/');
    const char *const read[] = {model, config->corpus, config->vocabulary};
    char folder[4096];
    if (!path) return;
    file_check("dump", path);
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - model) : 1, slash ? model : ".");
    bool refused = run_owns(folder, path);
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        refused |= read[i] && file_same(read[i], path);
    if (refused)
        die(STATUS_USAGE,
            "--dump=%s: would replace a file of the run or the corpus (name another file)", path);
}

/* Dies if the statistics of --stats=SOURCE do not exist. */
static void check_source(const struct loader *loader, enum statistics_source source) {
    char kinds[128];
    measure_kinds_by_position(kinds, sizeof kinds);
    if (!measure_has(&loader->config->model, source))
        die(STATUS_USAGE, "--stats=%s: works for %s only", statistics_name[source], kinds);
    if (source == STATISTICS_OTHER && !has_other_batch(loader))
        die(STATUS_USAGE, "--stats=other: %s is only one batch (try a smaller --batch-size)",
            loader->corpus.name);
}

void use_evaluate(const struct config *config, const struct checkpoint *checkpoint) {
    struct loader loader = {.config = config};
    struct corpus *corpus = &loader.corpus;
    struct model model;
    struct vocabulary vocabulary;
    check_dump(config, checkpoint->path);
    open_model(config, checkpoint, config->batch_size, &model, &vocabulary);
    session_corpus(corpus, config, &vocabulary);
    session_compare(config, corpus);
    session_compare_weights(&model, NULL);
    const bool own = checkpoint_same_corpus(checkpoint, corpus->crc32);
    if (!own) corpus->train = 0, corpus->end = corpus->units; // all of it is measured
    if (!corpus_blocks(corpus, 1))
        die(STATUS_USAGE, "corpus: %s: needs at least two characters to be measured", corpus->name);
    loader.batch = batch_make(config->batch_size, config->model.block_size);
    const bool all = config->stats == STATISTICS_SOURCES;
    const enum statistics_source source =
        all ? STATISTICS_RUNNING : (enum statistics_source)config->stats;
    check_source(&loader, source);
    const struct score score = score_with(&loader, &model, source);
    const double loss = score.loss / (double)score.targets;
    if (!isfinite(loss))
        die(STATUS_DIVERGED,
            "%s: its loss is %s (its weights may be damaged, or its training diverged)",
            checkpoint->path, isnan(loss) ? "nan" : "infinite");
    printf("loss %.9g nats per character, %.4f bits; accuracy %.4f: %s%s, %zu characters", loss,
           loss / log(2), (double)score.correct / (double)score.targets,
           !own                   ? ""
           : config->hold_out > 0 ? "the held-out part of the training split of "
                                  : "the validation split of ",
           corpus->name, score.targets);
    if (items_of(corpus)) printf(" and ends of %zu items", corpus_blocks(corpus, loader.batch.T));
    putchar('\n');
    if (all) print_statistics(&loader, &model, loss);
    if (config->leak) print_leaks(&loader, &model);
    streams_flush();
    if (config->dump) write_dump(&loader, &model, source, score);
    vocabulary_free(&vocabulary);
    batch_free(&loader.batch);
    corpus_free(corpus);
    model_free(&model);
}

/* ---- --sample-interval ---- */

enum { CHARACTERS = 72 };

/* A job of sampling for a leader and its helpers. */
struct line {
    struct sampler sampler;
    int32_t start, end; // the character before the line; the one that ends it, or -1
    size_t count;
    int32_t id[CHARACTERS];
};

static void sample_the_line(void *argument) {
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
static void write_line(const struct line *line, const struct vocabulary *vocabulary, char *text,
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

void use_sample_line(struct record *r, struct progress *progress) {
    const int32_t newline = vocabulary_id(r->vocabulary, '\n');
    struct line line = {.start = newline < 0 ? 0 : newline, .end = r->config->items ? newline : -1};
    char text[8 * CHARACTERS] = "";
    if (r->run.silent) return;
    sample(r->config, r->model, &line.sampler, sample_the_line, &line);
    write_line(&line, r->vocabulary, text, sizeof text);
    run_sample(&r->run, r->outcome.steps, text);
    snprintf(progress->text, sizeof progress->text, "step %lld writes: %s",
             (long long)r->outcome.steps, text);
}
