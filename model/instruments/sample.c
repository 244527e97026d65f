/* Sampling at temperature t. Character v has the weight exp((z_v - max z) / t), or 0 if --top-k,
   --top-p or --min-p leaves it out; it is sampled with a probability in proportion to its weight.

   When the text has filled the context, its second half becomes the start of the next context,
   so that the keys and values of earlier characters are computed again only then. */
#include "model/instruments/sample.h"
#include "data/die.h"
#include "data/random.h"
#include "data/text/vocabulary.h"
#include "model/head.h"
#include "model/model_pass.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct ranked {
    real logit;
    size_t index;
};

/* The order of falling logits; equal ones are in the order of their indices. */
static int by_rank(const void *one, const void *other) {
    const struct ranked *a = one, *b = other;
    if (a->logit != b->logit) return a->logit > b->logit ? -1 : 1;
    return a->index < b->index ? -1 : 1;
}

static double sum_of(size_t count, const double *x) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += x[i];
    return sum;
}

/* The probability of each index divided by that of the likeliest; 0 if the options leave it out.
   The caller frees them. */
static double *weights_of(size_t V, const real *logits, size_t likeliest,
                          struct sample_options options) {
    const size_t limit = options.top_k > 0 ? (size_t)options.top_k : V;
    double *weight = memory_take(V, sizeof *weight, "the probabilities"), sum = 0;
    struct ranked *order = memory_take(V, sizeof *order, "the probabilities");
    for (size_t v = 0; v < V; v++) order[v] = (struct ranked){logits[v], v};
    if (limit < V || options.top_p < 1) qsort(order, V, sizeof *order, by_rank);
    for (size_t v = 0; v < V; v++)
        weight[v] = exp(((double)logits[v] - (double)logits[likeliest]) / options.temperature);
    for (size_t i = limit; i < V; i++) weight[order[i].index] = 0;
    const double enough = options.top_p < 1 ? options.top_p * sum_of(V, weight) : INFINITY;
    for (size_t i = 0; i < V; i++) {
        double *w = &weight[order[i].index];
        if ((i && sum >= enough) || *w < options.min_p) *w = 0;
        sum += *w;
    }
    free(order);
    return weight;
}

int32_t sample_index(size_t V, const real *logits, struct sample_options options, double u) {
    size_t likeliest = 0;
    for (size_t v = 1; v < V; v++)
        if (logits[v] > logits[likeliest]) likeliest = v;
    int32_t sampled = (int32_t)likeliest;
    if (options.temperature <= 0) return sampled;
    double *weight = weights_of(V, logits, likeliest, options), sum = 0;
    const double total = sum_of(V, weight);
    for (size_t v = 0; v < V; v++) {
        if (weight[v] <= 0) continue;
        sum += weight[v];
        sampled = (int32_t)v;
        if (u * total < sum) break;
    }
    free(weight);
    return sampled;
}

void sampler_init(struct sampler *sampler, struct model *model, struct sample_options options,
                  uint64_t key) {
    *sampler = (struct sampler){.model = model, .options = options, .key = key};
    sampler->window = memory_take(model->T, sizeof *sampler->window, "the text's window");
}

void sampler_free(struct sampler *sampler) {
    free(sampler->window);
    *sampler = (struct sampler){0};
}

void sampler_add(struct sampler *sampler, int32_t id) {
    size_t T = sampler->model->T, kept = T / 2;
    int32_t *window = sampler->window;
    if (sampler->length == T) {
        memmove(window, window + T - kept, kept * sizeof *window);
        sampler->length = kept;
        sampler->evaluated = 0;
    }
    window[sampler->length++] = id;
}

void sampler_diverged(void) {
    die(STATUS_DIVERGED, "sample: the model's logits are nan or infinite (its weights may be "
                         "damaged, or its training diverged)");
}

int32_t sampler_next(struct sampler *sampler, bool lenient) {
    struct model *model = sampler->model;
    model_extend(model, sampler->window, sampler->evaluated, sampler->length);
    sampler->evaluated = sampler->length;
    const real *logits = head_logits(model, sampler->length - 1);
    for (size_t v = 0; v < model->V; v++)
        if (!isfinite(logits[v])) {
            if (lenient) return -1;
            sampler_diverged();
        }
    int32_t id = sample_index(model->V, logits, sampler->options,
                              random_uniform(sampler->key, sampler->count++));
    sampler_add(sampler, id);
    return id;
}

/* The ids of the characters of --NAME's text (NULL: none), which the caller frees, and their number
   in *count. */
static int32_t *option_ids(const struct vocabulary *vocabulary, const char *name, const char *text,
                           size_t *count) {
    const size_t bytes = text ? strlen(text) : 0;
    int32_t *ids = memory_take(bytes, sizeof *ids, "a text's characters");
    *count = 0;
    for (size_t offset = 0; offset < bytes;) {
        int32_t symbol =
            vocabulary_symbol(vocabulary->level, (const unsigned char *)text, bytes, &offset);
        if (symbol < 0)
            die(STATUS_USAGE, "--%s: not UTF-8 at byte %zu, 0x%02x", name, offset,
                (unsigned char)text[offset]);
        ids[*count] = vocabulary_id(vocabulary, (uint32_t)symbol);
        if (ids[(*count)++] < 0)
            die(STATUS_USAGE, "--%s: has %s, which the model's vocabulary lacks", name,
                vocabulary_name(vocabulary->level, (uint32_t)symbol));
    }
    return ids;
}

/* Starts a text with a character that is not written, and then these. */
static void start_text(struct sampler *sampler, int32_t first, const int32_t *ids, size_t count) {
    sampler->length = sampler->evaluated = 0;
    if (first >= 0) sampler_add(sampler, first);
    for (size_t i = 0; i < count; i++) sampler_add(sampler, ids[i]);
}

static void write_text(struct sampling *s) {
    struct writer writer = {.vocabulary = s->vocabulary, .file = s->file, .exact = s->exact};
    size_t given, length;
    int32_t *ids = option_ids(s->vocabulary, "prompt", s->prompt, &given);
    int32_t *stop = option_ids(s->vocabulary, "stop", s->stop, &length);
    const int32_t newline = vocabulary_id(s->vocabulary, '\n');
    bool stopped = false;
    start_text(&s->sampler, given ? -1 : newline < 0 ? 0 : newline, ids, given);
    for (size_t i = 0; !stopped && i < given + s->count && !ferror(s->file); i++) {
        if (i >= given) {
            ids = memory_grow(ids, i + 1, sizeof *ids, "a text's characters");
            ids[i] = sampler_next(&s->sampler, s->lenient);
            s->diverged = ids[i] < 0;
            if (s->diverged) break;
        }
        writer_put(&writer, ids[i]);
        if (i + 1 >= given) fflush(s->file);
        stopped = length && i + 1 >= given + length && // all of it after the prompt
                  !memcmp(ids + i + 1 - length, stop, length * sizeof *ids);
    }
    writer_flush(&writer, true);
    free(stop);
    free(ids);
}

/* Samples the rest of an item (T), whose first `given` characters are there, up to and including
   the end marker, or until T characters are there; counts and writes it, unless a logit is not
   finite. */
static void write_item(struct sampling *s, int32_t marker, size_t given, int32_t *item) {
    struct writer writer = {.vocabulary = s->vocabulary, .file = s->file, .exact = s->exact};
    const size_t T = s->sampler.model->T;
    size_t count = given;
    start_text(&s->sampler, marker, item, given);
    do {
        item[count++] = sampler_next(&s->sampler, s->lenient);
        s->diverged = item[count - 1] < 0;
    } while (!s->diverged && item[count - 1] != marker && count < T);
    if (s->diverged) return;
    const enum item_place place =
        s->known ? item_find(s->known, T, s->vocabulary, item, count) : ITEM_NEW;
    const bool ended = item[count - 1] == marker;
    s->counts.items++;
    s->counts.known += place == ITEM_KNOWN;
    s->counts.validate += place == ITEM_VALIDATES;
    s->counts.cut += !ended;
    fputs(!s->known ? "" : place == ITEM_KNOWN ? "known  " : "new    ", s->file);
    for (size_t i = 0; i < count - ended; i++) writer_put(&writer, item[i]);
    writer_flush(&writer, true);
    fputc('\n', s->file);
    fflush(s->file);
}

static void write_items(struct sampling *s) {
    const size_t T = s->sampler.model->T;
    const int32_t marker = vocabulary_id(s->vocabulary, END_MARKER);
    size_t given;
    if (marker < 0)
        die(STATUS_MACHINE, "sample: the vocabulary has no newline, which is the end marker");
    int32_t *item = option_ids(s->vocabulary, "prompt", s->prompt, &given);
    if (given >= T)
        die(STATUS_USAGE, "--prompt: is too long: an item has at most a block of %zu characters",
            T);
    if (given && strchr(s->prompt, END_MARKER))
        die(STATUS_USAGE, "--prompt: holds a newline, and an item is a line");
    item = memory_grow(item, T, sizeof *item, "an item");
    while (s->counts.items < s->count && !s->diverged && !ferror(s->file))
        write_item(s, marker, given, item);
    free(item);
}

void sample_write(struct sampling *s, struct model *model, struct sample_options options,
                  uint64_t seed) {
    sampler_init(&s->sampler, model, options, random_key(seed, "sample", 0));
    if (s->items) write_items(s);
    for (size_t i = 0; !s->items && i < s->texts; i++) {
        if (i) fputs("\n---\n", s->file);
        write_text(s);
    }
    sampler_free(&s->sampler);
}
