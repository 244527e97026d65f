#include "model/lab/use.h"
#include "data/die.h"
#include "data/random.h"
#include "data/text/items.h"
#include "data/text/utf8.h"
#include "data/text/vocabulary.h"
#include "model/lab/dump.h"
#include "model/lab/process.h"
#include "model/lab/sample.h"
#include "model/lab/setup.h"
#include "model/lab/step.h"
#include <math.h>
#include <string.h>

static void start_sampler(struct session *t, struct sampler *sampler) {
    sampler_init(sampler, &t->model, t->config.sampling, random_key(t->config.seed, "sample", 0));
}

/* What is sampled, by a leader and its helpers. */
struct sampling {
    struct sampler sampler;
    const struct vocabulary *vocabulary;
    struct text_options text; // of items: the prompt and how many
    size_t texts;             // of text_work()
    const struct item_set *known;
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

static void sample(struct session *t, struct sampling *s, team_work *work) {
    start_sampler(t, &s->sampler);
    team_lead(model_extend_threads(&t->model), work, s);
    sampler_free(&s->sampler);
}

static void write_texts(struct session *t, const struct vocabulary *vocabulary, size_t texts,
                        const struct text_options *text, FILE *const files[2]) {
    struct sampling s = {.vocabulary = vocabulary, .text = *text, .texts = texts, .files = files};
    sample(t, &s, text_work);
}

/* --num-items items. With `corpus` they are looked up in the corpus. */
static void write_items(struct session *t, const struct vocabulary *vocabulary, const char *prompt,
                        bool corpus, FILE *const files[2]) {
    const struct config *config = &t->config;
    size_t T = (size_t)config->model.block_size, count = 20;
    struct item_set known = {0};
    if (config->num_items != OPTION_AUTO) count = (size_t)config->num_items;
    if (corpus) item_set_make(&known, &t->corpus, T);
    struct sampling s = {.vocabulary = vocabulary,
                         .text = {.prompt = prompt, .count = count},
                         .known = corpus ? &known : NULL,
                         .files = files};
    sample(t, &s, items_work);
    struct item_counts counts = s.counts;
    item_set_free(&known);
    streams_flush(); // before the next line on standard error
    char places[128] = "", cut[64] = "";
    if (corpus)
        snprintf(
            places, sizeof places,
            ": %zu known (in the training split), %zu new (%zu of them in the validation split)",
            counts.known, counts.items - counts.known, counts.validate);
    if (counts.cut) snprintf(cut, sizeof cut, "; %zu cut at %zu characters", counts.cut, T);
    progress_say(&t->progress, "%zu item%s%s%s", counts.items, counts.items == 1 ? "" : "s", places,
                 cut);
}

void use_sample(struct session *t) {
    if (!t->config.sample) return;
    const struct vocabulary *vocabulary = session_vocabulary(t);
    struct new_file file = file_create(&t->run, "sample.txt");
    FILE *files[] = {file.stream, t->progress.shown ? stdout : NULL};
    if (files[1]) fputc('\n', stdout);
    if (t->config.items)
        write_items(t, vocabulary, NULL, true, files);
    else
        write_texts(t, vocabulary, 1, &(struct text_options){.count = t->config.sample}, files);
    file_commit(&file);
    if (files[1]) fputs(t->config.items ? "\n" : "\n\n", stdout);
    streams_flush(); // before the next line on standard error
}

/* Reads the stored model, for batches of B sequences, and its vocabulary. */
static void open_model(struct session *t, size_t B, struct vocabulary *vocabulary) {
    const struct config *config = &t->config;
    *vocabulary = (struct vocabulary){0};
    if (config->vocabulary) {
        struct corpus corpus;
        corpus_read(&corpus, config->vocabulary,
                    &(struct corpus_options){.level = (int)config->level});
        *vocabulary = corpus.vocabulary;
        corpus.vocabulary.symbols = NULL;
        corpus_free(&corpus);
    }
    checkpoint_read_vocabulary(&t->checkpoint, (int)config->level, vocabulary);
    model_init(&t->model, &config->model, vocabulary->V, B, config->seed);
    t->model.threads = (size_t)config->team;
    checkpoint_read_model(&t->checkpoint, &t->model);
}

/* Reads the corpus that the model was trained on; false, with a message, if it is no longer there
   as it was. One that the command line names (`given`) must be it. */
static bool read_own_corpus(struct session *t, bool given) {
    const char *path = t->config.corpus;
    uint32_t crc32;
    bool own = given || !path ||
               (corpus_checksum(path, &crc32) && checkpoint_same_corpus(&t->checkpoint, crc32));
    if (own) setup_corpus(t, NULL);
    own = own && checkpoint_same_corpus(&t->checkpoint, t->corpus.crc32);
    if (!own && given)
        die(STATUS_USAGE, "corpus: %s: is not what the model was trained on", t->corpus.name);
    if (!own)
        progress_say(&t->progress,
                     "items are not marked as known or new: %s is missing or has changed",
                     !path               ? "the built-in grammar"
                     : strcmp(path, "-") ? path
                                         : "standard input");
    return own;
}

void use_generate(struct session *t, bool corpus_given) {
    const struct config *config = &t->config;
    struct vocabulary vocabulary;
    FILE *const files[] = {stdout, NULL};
    open_model(t, 1, &vocabulary);
    progress_start(&t->progress, t->config.quiet);
    if (t->config.items) {
        bool own = read_own_corpus(t, corpus_given);
        write_items(t, &vocabulary, t->config.prompt, own, files);
        if (own) corpus_free(&t->corpus);
    } else {
        const struct text_options text = {config->prompt, config->stop, config->num_chars};
        write_texts(t, &vocabulary, (size_t)config->num_samples, &text, files);
        fputc('\n', stdout);
    }
    streams_flush();
    vocabulary_free(&vocabulary);
}

/* The score with statistics from this source. */
static struct score score_with(struct session *t, enum statistics_source source) {
    struct model measured;
    if (source == STATISTICS_RUNNING) return evaluate_validation(t, &t->model, source);
    measure_init(&measured, &t->model, source);
    struct score score = evaluate_validation(t, &measured, source);
    model_free(&measured);
    return score;
}

/* Whether the validation split has more than one batch. */
static bool has_other_batch(const struct session *t) {
    return corpus_blocks(&t->corpus, t->batch.T) > (size_t)t->config.batch_size;
}

/* --stats=all: the loss with statistics from each source. */
static void print_statistics(struct session *t, double running) {
    printf("%-10s %-12s %s\n", "statistics", "loss", "difference from running statistics");
    for (int source = 0; source < STATISTICS_SOURCES; source++) {
        bool possible = source != STATISTICS_OTHER || has_other_batch(t);
        if (!possible || !measure_has(&t->config.model, source)) {
            printf("%-10s -\n", statistics_name[source]);
            continue;
        }
        struct score score = score_with(t, source);
        double loss = score.loss / (double)score.targets;
        printf("%-10s %-12.9g %+.6f\n", statistics_name[source], loss, loss - running);
    }
}

/* --leak: for several positions, in evaluation mode and with the batch's own statistics. */
static void print_leaks(struct session *t) {
    enum { MAX_ROWS = 16 };
    struct model own;
    size_t T, last = 0;
    measure_init(&own, &t->model, STATISTICS_OWN);
    corpus_validation(&t->corpus, 0, (size_t)t->config.batch_size, &t->batch);
    T = t->batch.T;
    printf("change of the logits before character t with the characters from t on\n"
           "     t  in evaluation: largest  mean         in training: largest  mean\n");
    for (size_t row = 1; row <= MAX_ROWS; row++) {
        size_t at = (T * row + MAX_ROWS) / (MAX_ROWS + 1);
        if (at == last || !at || at >= T) continue;
        struct leak leaks[] = {measure_leak(&t->model, false, &t->batch, at),
                               measure_leak(&own, true, &t->batch, at)};
        printf("%6zu  %-22.6g  %-11.6g  %-20.6g  %.6g\n", at, leaks[0].largest, leaks[0].mean,
               leaks[1].largest, leaks[1].mean);
        last = at;
    }
    model_free(&own);
}

/* --dump: what is measured, with statistics from this source. */
struct dumping {
    struct model model;
    enum statistics_source source;
    size_t targets; // of all batches
    struct dump dump;
};

static void visit_pass(void *context, struct model *m, const struct measured_pass *pass) {
    dump_pass(context, m, pass);
}

static bool dump_first(void *context, const struct batch *batch, const struct batch *other) {
    struct dumping *d = context;
    dump_init(&d->dump, batch);
    measure_passes(&d->model, d->source, batch, other, visit_pass, &d->dump);
    return false;
}

/* Adds the gradient of the pass, weighted as in an update of all batches (step.c). */
static void add_gradient(void *context, struct model *m, const struct measured_pass *pass) {
    const struct dumping *d = context;
    double batches = (double)d->targets / (double)batch_targets(pass->batch);
    model_backward(m, pass->batch, 0, 1 / batches);
}

static bool add_gradients(void *context, const struct batch *batch, const struct batch *other) {
    struct dumping *d = context;
    measure_passes(&d->model, d->source, batch, other, add_gradient, d);
    return true;
}

/* --dump, after an evaluation with this score. */
static void write_dump(struct session *t, enum statistics_source source, struct score score) {
    struct dumping d = {.source = source, .targets = score.targets};
    char loss[32];
    snprintf(loss, sizeof loss, "%.17g", score.loss / (double)score.targets);
    const struct stored_text texts[] = {{"statistics", statistics_name[source]}, {"loss", loss}};
    measure_init(&d.model, &t->model, source);
    evaluate_batches(t, source, dump_first, &d);
    if (source == STATISTICS_OWN) {
        model_zero_grad(&d.model);
        evaluate_batches(t, source, add_gradients, &d);
        dump_gradients(&d.dump, &d.model);
    }
    struct new_file file =
        t->run.silent ? file_create_nowhere() : file_create_at("dump", t->config.dump);
    safetensors_write(file.stream, texts, 2, d.dump.arrays, d.dump.count);
    file_commit(&file);
    dump_free(&d.dump);
    model_free(&d.model);
}

/* Dies if the dump could not be written, or would replace a file that is read or belongs to the
   model's run. */
static void check_dump(const struct session *t) {
    const struct config *config = &t->config;
    const char *model = t->checkpoint.path, *path = config->dump, *slash = strrchr(model, '/');
    const char *const read[] = {model, config->corpus, config->vocabulary};
    char folder[sizeof t->checkpoint.path];
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

void use_evaluate(struct session *t) {
    struct vocabulary vocabulary;
    check_dump(t);
    open_model(t, t->config.batch_size, &vocabulary);
    setup_corpus(t, &vocabulary);
    setup_compare(t);
    setup_compare_weights(t);
    bool own = checkpoint_same_corpus(&t->checkpoint, t->corpus.crc32);
    if (!own) t->corpus.train = 0, t->corpus.end = t->corpus.units; // all of it is measured
    if (!corpus_validates(&t->corpus))
        die(STATUS_USAGE, "corpus: %s: needs at least two characters to be measured",
            t->corpus.name);
    t->batch = batch_make(t->config.batch_size, t->config.model.block_size);
    enum statistics_source source = t->config.stats == STATISTICS_SOURCES
                                        ? STATISTICS_RUNNING
                                        : (enum statistics_source)t->config.stats;
    char kinds[128];
    measure_kinds_by_position(kinds, sizeof kinds);
    if (!measure_has(&t->config.model, source))
        die(STATUS_USAGE, "--stats=%s: works for %s only", statistics_name[source], kinds);
    if (source == STATISTICS_OTHER && !has_other_batch(t))
        die(STATUS_USAGE, "--stats=other: %s is only one batch (try a smaller --batch-size)",
            t->corpus.name);
    struct score score = score_with(t, source);
    double loss = score.loss / (double)score.targets;
    if (!isfinite(loss))
        die(STATUS_DIVERGED,
            "%s: its loss is %s (its weights may be damaged, or its training diverged)",
            t->checkpoint.path, isnan(loss) ? "nan" : "infinite");
    printf("loss %.9g nats per character, %.4f bits; accuracy %.4f: %s%s, %zu characters", loss,
           loss / log(2), (double)score.correct / (double)score.targets,
           !own                     ? ""
           : t->config.hold_out > 0 ? "the held-out part of the training split of "
                                    : "the validation split of ",
           t->corpus.name, score.targets);
    if (t->outcome.items.all)
        printf(" and ends of %zu items", corpus_blocks(&t->corpus, t->batch.T));
    putchar('\n');
    if (t->config.stats == STATISTICS_SOURCES) print_statistics(t, loss);
    if (t->config.leak) print_leaks(t);
    streams_flush();
    if (t->config.dump) write_dump(t, source, score);
    vocabulary_free(&vocabulary);
    batch_free(&t->batch);
    corpus_free(&t->corpus);
}

/* ---- --sample-interval ---- */

enum { CHARACTERS = 72 };

/* What is sampled, by a leader and its helpers. */
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

void use_sample_line(struct session *t) {
    const struct vocabulary *vocabulary = session_vocabulary(t);
    const int32_t newline = vocabulary_id(vocabulary, '\n');
    struct line line = {.start = newline < 0 ? 0 : newline, .end = t->config.items ? newline : -1};
    char text[8 * CHARACTERS] = "";
    if (t->run.silent) return;
    sampler_init(&line.sampler, &t->model, t->config.sampling,
                 random_key(t->config.seed, "sample", 0));
    team_lead(model_extend_threads(&t->model), sample_the_line, &line);
    sampler_free(&line.sampler);
    write_line(&line, vocabulary, text, sizeof text);
    run_sample(&t->run, t->outcome.steps, text);
    snprintf(t->progress.text, sizeof t->progress.text, "step %lld writes: %s",
             (long long)t->outcome.steps, text);
}
