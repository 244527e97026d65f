/* --sample, --generate, --evaluate and --sample-interval: each makes a model's text or measures
   its loss, and prints it to standard output or puts it into the run's folder. */
#include "model/app/inference.h"
#include "data/die.h"
#include "data/format.h"
#include "data/streams.h"
#include "data/text/items.h"
#include "data/text/utf8.h"
#include "data/text/vocabulary.h"
#include "model/app/dump.h"
#include "model/app/session.h"
#include "model/math/ranks.h"
#include "model/model_pass.h"
#include <libgen.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Samples as the configuration says, but texts have this many characters. */
static struct sampling sampling_of(const struct config *config, const struct vocabulary *vocabulary,
                                   int64_t characters) {
    return (struct sampling){.vocabulary = vocabulary,
                             .items = config->items,
                             .count = (size_t)(config->items ? config->num_items : characters),
                             .texts = 1};
}

/* What is sampled, of *bytes bytes, in memory that the caller frees. */
static char *sampled(struct sampling *s, const struct record *r, size_t *bytes) {
    char *text = NULL;
    s->file = open_memstream(&text, bytes);
    if (!s->file) die(STATUS_MACHINE, "memory: not enough for a sample");
    sample_write(s, r->model, r->config->sampling, r->config->seed);
    fclose(s->file);
    return text;
}

/* With --items: how many items were written, and of which kinds. */
static void say_items(struct progress *progress, const struct config *config,
                      const struct sampling *s) {
    const struct item_counts counts = s->counts;
    char kinds[256] = "";
    if (!s->items) return;
    if (s->known)
        format_add(
            kinds, sizeof kinds,
            ": %zu known (in the training split), %zu new (%zu of them in the validation split)",
            counts.known, counts.items - counts.known, counts.validate);
    if (counts.cut)
        format_add(kinds, sizeof kinds, "; %zu cut at %lld characters", counts.cut,
                   (long long)config->model.block_size);
    progress_say(progress, "%zu item%s%s", counts.items, counts.items == 1 ? "" : "s", kinds);
}

/* Writes a text to standard output: to a terminal as UTF-8, with U+FFFD for other bytes. */
static void show(const char *text, size_t bytes) {
    if (!isatty(STDOUT_FILENO)) fwrite(text, 1, bytes, stdout);
    for (size_t offset = 0; isatty(STDOUT_FILENO) && offset < bytes;) {
        const int32_t code = utf8_decode((const unsigned char *)text, bytes, &offset);
        utf8_put(code < 0 ? UTF8_REPLACEMENT : (uint32_t)code, stdout);
        offset += code < 0;
    }
}

void inference_sample(struct record *r, struct progress *progress) {
    const struct config *config = r->config;
    const struct corpus *corpus = r->state.corpus;
    struct sampling s = sampling_of(config, &corpus->vocabulary, config->sample);
    size_t bytes;
    if (!config->sample || (!r->state.step && !config->start)) return; // not of random weights
    s.known = corpus;
    s.exact = s.lenient = true;
    char *text = sampled(&s, r, &bytes);
    if (s.diverged) {
        r->state.ended_by = NULL;
        record_save_summary(r, "diverged");
        sampler_diverged();
    }
    struct new_file file = run_create_file(&r->run, "sample.txt");
    fwrite(text, 1, bytes, file.stream);
    file_commit(&file);
    if (progress->shown) {
        progress_say(progress, "the model writes:");
        show(text, bytes);
        if (!config->items) fputc('\n', stdout);
        streams_flush(); // before the next line on standard error
        say_items(progress, config, &s);
    }
    free(text);
}

/* Reads the stored model, for batches of B sequences, and its vocabulary. */
static void open_model(const struct plan *plan, const struct checkpoint *checkpoint, size_t B,
                       struct model *model, struct vocabulary *vocabulary) {
    const struct config *config = &plan->config;
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
    model->threads = plan->team;
    checkpoint_read_model(checkpoint, model, false);
}

/* Reads the corpus that the model was trained on; false, with a message, if it is missing or has
   changed. Dies if the command line names another one. */
static bool read_own_corpus(const struct config *config, const struct checkpoint *checkpoint,
                            struct corpus *corpus, struct progress *progress) {
    const char *path = config->corpus;
    uint32_t crc32;
    bool found = config->named || !path ||
                 (file_checksum(path, &crc32) && checkpoint_same_corpus(checkpoint, crc32));
    if (found) session_corpus(corpus, config, NULL);
    found = found && checkpoint_same_corpus(checkpoint, corpus->crc32);
    if (!found && config->named)
        die(STATUS_USAGE,
            "corpus: %s: is not the corpus that the model was trained on (leave it "
            "out)",
            corpus->name);
    if (!found)
        progress_say(progress, "items are not marked as known or new: %s is missing or has changed",
                     !path               ? "the built-in grammar"
                     : strcmp(path, "-") ? path
                                         : "standard input");
    return found;
}

void inference_generate(const struct plan *plan, const struct checkpoint *checkpoint,
                        struct progress *progress) {
    const struct config *config = &plan->config;
    struct model model;
    struct corpus corpus;
    struct vocabulary vocabulary;
    streams_expect_output();
    open_model(plan, checkpoint, 1, &model, &vocabulary);
    progress_start(progress, config->quiet);
    const bool found = config->items && read_own_corpus(config, checkpoint, &corpus, progress);
    struct sampling s = sampling_of(config, &vocabulary, config->num_chars);
    s.prompt = config->prompt;
    s.stop = config->stop;
    s.texts = (size_t)config->num_samples;
    s.known = found ? &corpus : NULL;
    s.exact = !isatty(STDOUT_FILENO);
    s.file = stdout;
    sample_write(&s, &model, config->sampling, config->seed);
    if (!config->items) fputc('\n', stdout);
    streams_flush(); // before the next line on standard error
    say_items(progress, config, &s);
    if (found) corpus_free(&corpus);
    vocabulary_free(&vocabulary);
    model_free(&model);
}

/* ---- --evaluate ---- */

/* Whether the validation split has more than one batch. */
static bool has_other_batch(const struct loader *loader) {
    return corpus_blocks(&loader->corpus, CORPUS_VALIDATION, loader->batch.T) >
           (size_t)loader->config->batch_size;
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
        struct score score = evaluate_split(loader, model, source, CORPUS_VALIDATION);
        double loss = score.loss / (double)score.targets;
        printf("%-10s %-12.9g %+.6f\n", statistics_name[source], loss, loss - running);
    }
}

/* --leak: for several positions, in evaluation mode and with the batch's own statistics. */
static void print_leaks(struct loader *loader, struct model *model) {
    enum { MAX_ROWS = 16 };
    struct batch *batch = &loader->batch;
    size_t T, last = 0;
    corpus_validation(&loader->corpus, 0, (size_t)loader->config->batch_size, batch);
    T = batch->T;
    printf("change of the logits before character t when all characters from t on are replaced\n"
           "     t  in evaluation: largest  mean         in training: largest  mean\n");
    for (size_t row = 1; row <= MAX_ROWS; row++) {
        size_t t = (T * row + MAX_ROWS) / (MAX_ROWS + 1);
        if (t == last || !t || t >= T) continue;
        struct leak leaks[] = {measure_leak(model, STATISTICS_RUNNING, batch, t),
                               measure_leak(model, STATISTICS_OWN, batch, t)};
        printf("%6zu  %-22.6g  %-11.6g  %-20.6g  %.6g\n", t, leaks[0].largest, leaks[0].mean,
               leaks[1].largest, leaks[1].mean);
        last = t;
    }
}

/* --dump, after an evaluation with this score. */
static void write_dump(struct loader *loader, struct model *model, enum statistics_source source,
                       struct score score) {
    const struct batch *batch = &loader->batch;
    struct batch other = {0};
    evaluate_batch(loader, source, 0, &other);
    struct dump dump = {0};
    safetensors_add_text(&dump.file, "statistics", memory_text("%s", statistics_name[source]));
    safetensors_add_text(&dump.file, "loss",
                         memory_text("%.17g", score.loss / (double)score.targets));
    struct passes passes = measure_start(model, source, batch, &other);
    dump_passes(&dump, &passes);
    if (source == STATISTICS_OWN) {
        const struct tensor_list *param = &model->lists.param;
        model_zero_grad(model);
        for (size_t i = 0; i < evaluate_count(loader); i++) {
            evaluate_batch(loader, source, i, NULL);
            for (struct passes p = measure_start(model, source, batch, NULL);
                 measure_next(&p);) { // weighted as in an update of all batches (update.c)
                double batches = (double)score.targets / (double)batch_targets(&p.part);
                model_forward(model, &p.part, p.training, 0);
                model_backward(model, &p.part, 0, 1 / batches);
            }
        }
        checkpoint_add(&dump.file, "grad.", param, param->grad);
    }
    struct new_file file =
        ranks.number ? file_create_nowhere() : file_create_at("dump", loader->config->dump);
    safetensors_write(&dump.file, file.stream);
    file_commit(&file);
    dump_free(&dump);
    batch_free(&other);
}

/* Dies if the dump could not be written, or would replace a file that is read or belongs to the
   run of the model in this file. */
static void check_dump(const struct config *config, const char *model) {
    const char *path = config->dump;
    const char *const read[] = {model, config->corpus, config->vocabulary};
    char folder[4096];
    if (!path) return;
    file_check("dump", path);
    snprintf(folder, sizeof folder, "%s", model);
    bool refused = run_owns(dirname(folder), path);
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        refused |= read[i] && file_same(read[i], path);
    if (refused)
        die(STATUS_USAGE,
            "--dump=%s: would replace a file of the run or the corpus (name another file)", path);
}

/* Dies if the statistics of --stats=SOURCE do not exist. */
static void check_source(const struct loader *loader, enum statistics_source source) {
    char kinds[128] = "";
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++)
        if ((*kind)->by_position)
            format_add(kinds, sizeof kinds, "%s%s", *kinds ? "|" : "", (*kind)->name);
    if (!measure_has(&loader->config->model, source))
        die(STATUS_USAGE, "--stats=%s: works for %s only", statistics_name[source], kinds);
    if (source == STATISTICS_OTHER && !has_other_batch(loader))
        die(STATUS_USAGE, "--stats=other: %s is only one batch (try a smaller --batch-size)",
            loader->corpus.name);
}

void inference_evaluate(const struct plan *plan, const struct checkpoint *checkpoint) {
    const struct config *config = &plan->config;
    struct loader loader = {.config = config};
    struct corpus *corpus = &loader.corpus;
    struct model model;
    struct vocabulary vocabulary;
    streams_expect_output();
    check_dump(config, checkpoint->path);
    open_model(plan, checkpoint, config->batch_size, &model, &vocabulary);
    session_corpus(corpus, config, &vocabulary);
    session_compare(config, corpus);
    session_compare_weights(&model, NULL);
    const bool unchanged = !config->named && checkpoint_same_corpus(checkpoint, corpus->crc32);
    if (!unchanged) corpus->train = 0, corpus->end = corpus->units; // all of it is measured
    if (!unchanged && !config->named && config->corpus)
        notice("%s has changed since the model was trained: all of it is measured", corpus->name);
    if (!corpus_blocks(corpus, CORPUS_VALIDATION, 1))
        die(STATUS_USAGE, "corpus: %s: needs at least two characters to be measured", corpus->name);
    loader.batch = batch_make(config->batch_size, config->model.block_size);
    const bool every_source = config->stats == STATISTICS_SOURCES;
    const enum statistics_source source =
        every_source ? STATISTICS_RUNNING : (enum statistics_source)config->stats;
    check_source(&loader, source);
    const struct score score = evaluate_split(&loader, &model, source, CORPUS_VALIDATION);
    const double loss = score.loss / (double)score.targets;
    if (!isfinite(loss))
        die(STATUS_DIVERGED,
            "%s: its loss is %s (its weights may be damaged, or its training diverged)",
            checkpoint->path, isnan(loss) ? "nan" : "infinite");
    printf("loss: %.9g nats per character\nbits per character: %.4f\naccuracy: %.4f\n"
           "text: %s%s, %zu characters",
           loss, loss / log(2), score.correct / (double)score.targets,
           !unchanged             ? ""
           : config->hold_out > 0 ? "the held-out part of the training split of "
                                  : "the validation split of ",
           corpus->name, score.targets);
    if (items_of(corpus)) printf(" and ends of %zu items", corpus->end - corpus->train);
    putchar('\n');
    if (every_source) print_statistics(&loader, &model, loss);
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

/* Writes the text with escapes; a terminal takes U+0080 to U+009F for control characters, too. */
static void escape(const char *text, size_t bytes, FILE *file) {
    for (size_t offset = 0; offset < bytes;) {
        const int32_t code = utf8_decode((const unsigned char *)text, bytes, &offset);
        if (code == '\n' || code == '\t' || code == '\\')
            fprintf(file, "\\%c", code == '\n' ? 'n' : code == '\t' ? 't' : '\\');
        else
            utf8_put(code < 0x20 || (code >= 0x7f && code < 0xa0) ? '?' : (uint32_t)code, file);
    }
}

void inference_sample_line(struct record *r, struct progress *progress) {
    struct sampling s = sampling_of(r->config, &r->state.corpus->vocabulary, 0);
    char text[8 * CHARACTERS] = "";
    size_t bytes;
    if (r->run.silent) return;
    s.stop = s.items ? "\n" : NULL;
    s.count = CHARACTERS;
    s.lenient = true;
    s.items = false;
    char *line = sampled(&s, r, &bytes);
    FILE *escaped = fmemopen(text, sizeof text, "w");
    if (!escaped) die(STATUS_MACHINE, "memory: not enough for a sample");
    if (s.stop && bytes && line[bytes - 1] == '\n') bytes--;
    escape(line, bytes, escaped);
    fclose(escaped);
    free(line);
    run_sample(&r->run, r->state.step, text);
    snprintf(progress->text, sizeof progress->text, "step %lld writes: %s",
             (long long)r->state.step, text);
}
