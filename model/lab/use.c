#include "model/lab/use.h"
#include "data/die.h"
#include "data/random.h"
#include "data/text/items.h"
#include "model/lab/evaluate.h"
#include "model/lab/streams.h"
#include <math.h>
#include <string.h>

static void write_text(struct training *t, const struct vocabulary *vocabulary, const char *prompt,
                       size_t count, FILE *const files[2]) {
    sample_text(&t->model, vocabulary, t->config.sampling, random_key(t->config.seed, "sample", 0),
                prompt, count, files);
}

/* --num-items items; those of the corpus are known, if `corpus` is there. */
static void write_items(struct training *t, const struct vocabulary *vocabulary, const char *prompt,
                        bool corpus, FILE *const files[2]) {
    const struct config *config = &t->config;
    size_t T = (size_t)config->model.block_size, count = 20;
    struct item_set known = {0};
    if (config->num_items != OPTION_AUTO) count = (size_t)config->num_items;
    if (corpus) item_set_make(&known, &t->corpus, T);
    struct item_counts counts =
        sample_items(&t->model, vocabulary, config->sampling, random_key(config->seed, "sample", 0),
                     prompt, count, corpus ? &known : NULL, files);
    item_set_free(&known);
    streams_flush(); // before what standard error says next
    char places[128] = "", cut[64] = "";
    if (corpus)
        snprintf(places, sizeof places,
                 ": %zu known, in the training set; %zu new, %zu of them in the validation part",
                 counts.known, counts.items - counts.known, counts.validate);
    if (counts.cut) snprintf(cut, sizeof cut, "; %zu cut at %zu characters", counts.cut, T);
    progress_say(&t->progress, "%zu item%s%s%s", counts.items, counts.items == 1 ? "" : "s", places,
                 cut);
}

void use_sample(struct training *t) {
    if (!t->config.sample) return;
    const struct vocabulary *vocabulary = &t->corpus.vocabulary;
    struct run_file file = file_create(&t->run, "sample.txt");
    FILE *files[] = {file.stream, t->progress.shown ? stdout : NULL};
    if (files[1]) fputc('\n', stdout);
    if (t->config.items)
        write_items(t, vocabulary, NULL, true, files);
    else
        write_text(t, vocabulary, NULL, t->config.sample, files);
    file_commit(&file);
    if (files[1]) fputs(t->config.items ? "\n" : "\n\n", stdout);
    streams_flush(); // before what standard error says next
}

/* A stored model for batches of B: its vocabulary, its weights. */
static void open_model(struct training *t, size_t B, struct vocabulary *vocabulary) {
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
    checkpoint_vocabulary(&t->checkpoint, (int)config->level, vocabulary);
    model_init(&t->model, &config->model, vocabulary->V, B, config->seed);
    t->model.threads = (size_t)config->team;
    checkpoint_read_model(&t->checkpoint, &t->model);
}

/* The corpus that the model learned from, if it is there as it was: --generate takes the one that
   is named, but else does without. */
static bool read_learned(struct training *t, bool named) {
    const char *path = t->config.corpus;
    uint32_t crc32;
    bool learned = named || !path ||
                   (corpus_checksum(path, &crc32) && checkpoint_learned(&t->checkpoint, crc32));
    if (learned) training_corpus(t, NULL);
    learned = learned && checkpoint_learned(&t->checkpoint, t->corpus.crc32);
    if (!learned && named)
        die(STATUS_USAGE, "corpus: %s: is not what the model learned from", t->corpus.name);
    if (!learned)
        progress_say(&t->progress, "known and new cannot be told apart: %s is not there as it was",
                     !path               ? "the built-in grammar"
                     : strcmp(path, "-") ? path
                                         : "standard input");
    return learned;
}

void use_generate(struct training *t, bool corpus_named) {
    struct vocabulary vocabulary;
    FILE *const files[] = {stdout, NULL};
    open_model(t, 1, &vocabulary);
    t->progress = progress_start(t->config.quiet);
    if (t->config.items) {
        bool learned = read_learned(t, corpus_named);
        write_items(t, &vocabulary, t->config.prompt, learned, files);
        if (learned) corpus_free(&t->corpus);
    } else {
        write_text(t, &vocabulary, t->config.prompt, t->config.num_chars, files);
        fputc('\n', stdout);
    }
    streams_flush();
    vocabulary_free(&vocabulary);
}

/* The score by statistics of this source. */
static struct score score_by(struct training *t, enum statistics source) {
    struct model measured;
    if (source == STATISTICS_RUNNING) return evaluate_validation(t, &t->model, source);
    measure_init(&measured, &t->model, source);
    struct score score = evaluate_validation(t, &measured, source);
    model_free(&measured);
    return score;
}

/* Whether the validation part has a batch beside the one that is measured. */
static bool has_other(const struct training *t) {
    return corpus_blocks(&t->corpus, t->batch.T) > (size_t)t->config.batch_size;
}

/* --stats=all: the loss by each source of statistics. */
static void print_statistics(struct training *t, double running) {
    printf("%-10s %-12s %s\n", "statistics", "loss", "more than by running ones");
    for (int source = 0; source < STATISTICS_SOURCES; source++) {
        bool there = source != STATISTICS_OTHER || has_other(t);
        if (!there || !measure_has(&t->config.model, source)) {
            printf("%-10s -\n", statistics_name[source]);
            continue;
        }
        struct score score = score_by(t, source);
        double loss = score.loss / (double)score.targets;
        printf("%-10s %-12.9g %+.6f\n", statistics_name[source], loss, loss - running);
    }
}

/* --leak: by position, in evaluation and under the batch's own statistics. */
static void print_leaks(struct training *t) {
    enum { MOST_ROWS = 16 };
    struct model own;
    size_t T, last = 0;
    measure_init(&own, &t->model, STATISTICS_OWN);
    corpus_validation(&t->corpus, 0, (size_t)t->config.batch_size, &t->batch);
    T = t->batch.T;
    printf("change of the logits before character t with the characters from t on\n"
           "     t  in evaluation: largest  mean         in training: largest  mean\n");
    for (size_t row = 1; row <= MOST_ROWS; row++) {
        size_t at = (T * row + MOST_ROWS) / (MOST_ROWS + 1);
        if (at == last || !at || at >= T) continue;
        struct leak leaks[] = {measure_leak(&t->model, false, &t->batch, at),
                               measure_leak(&own, true, &t->batch, at)};
        printf("%6zu  %-22.6g  %-11.6g  %-20.6g  %.6g\n", at, leaks[0].largest, leaks[0].mean,
               leaks[1].largest, leaks[1].mean);
        last = at;
    }
    model_free(&own);
}

void use_evaluate(struct training *t) {
    struct vocabulary vocabulary;
    open_model(t, t->config.batch_size, &vocabulary);
    training_corpus(t, &vocabulary);
    bool learned = checkpoint_learned(&t->checkpoint, t->corpus.crc32);
    if (!learned) t->corpus.train = 0;
    if (!corpus_validates(&t->corpus))
        die(STATUS_USAGE, "corpus: %s: has no two characters to measure", t->corpus.name);
    t->batch = batch_make(t->config.batch_size, t->config.model.block_size);
    enum statistics source = t->config.stats == STATISTICS_SOURCES
                                 ? STATISTICS_RUNNING
                                 : (enum statistics)t->config.stats;
    if (!measure_has(&t->config.model, source))
        die(STATUS_USAGE, "--stats=%s: means something for bn only", statistics_name[source]);
    if (source == STATISTICS_OTHER && !has_other(t))
        die(STATUS_USAGE,
            "--stats=other: %s is one batch, there is no other (try a smaller --batch-size)",
            t->corpus.name);
    struct score score = score_by(t, source);
    double loss = score.loss / (double)score.targets;
    if (!isfinite(loss))
        die(STATUS_DIVERGED, "%s: its loss is %s (its weights are no good)", t->checkpoint.path,
            isnan(loss) ? "nan" : "infinite");
    printf("loss %.9g nats per character, %.4f bits; accuracy %.4f: %s%s, %zu characters", loss,
           loss / log(2), (double)score.correct / (double)score.targets,
           learned ? "the validation part of " : "", t->corpus.name, score.targets);
    if (t->corpus.items) printf(" and ends of %zu items", corpus_blocks(&t->corpus, t->batch.T));
    putchar('\n');
    if (t->config.stats == STATISTICS_SOURCES) print_statistics(t, loss);
    if (t->config.leak) print_leaks(t);
    streams_flush();
    vocabulary_free(&vocabulary);
    batch_free(&t->batch);
    corpus_free(&t->corpus);
}
