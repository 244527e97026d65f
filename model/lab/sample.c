#include "model/lab/sample.h"
#include "data/die.h"
#include "data/random.h"
#include "data/text/vocabulary.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Whether a comes before b in the order of falling logits; equal logits are in the order of their
   indices. */
static bool precedes(const real *logits, size_t a, size_t b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
}

/* The index after `last` in that order; V after the last one. */
static size_t next_index(size_t V, const real *logits, size_t last) {
    size_t next = V;
    for (size_t v = 0; v < V; v++)
        if (precedes(logits, last, v) && (next == V || precedes(logits, v, next))) next = v;
    return next;
}

/* The indices that may be sampled: the first ones up to `last` in the order of falling logits (V:
   all), with a weight of at least `weight_min`. An index's weight is its probability divided by
   that of the likeliest. */
struct choice {
    const real *logits;
    size_t V, likeliest, last;
    double temperature, weight_min;
};

/* The index's weight, or 0 if it may not be sampled. */
static double weight_of(const struct choice *c, size_t v) {
    if (c->last < c->V && precedes(c->logits, c->last, v)) return 0;
    double weight = exp(((double)c->logits[v] - (double)c->logits[c->likeliest]) / c->temperature);
    return weight < c->weight_min ? 0 : weight;
}

static double total_weight(const struct choice *c) {
    double total = 0;
    for (size_t v = 0; v < c->V; v++) total += weight_of(c, v);
    return total;
}

static struct choice choose(size_t V, const real *logits, struct sample_options options) {
    struct choice c = {.logits = logits, .V = V, .last = V, .temperature = options.temperature};
    for (size_t v = 1; v < V; v++)
        if (logits[v] > logits[c.likeliest]) c.likeliest = v;
    if (options.temperature <= 0) return c;
    if (options.top_k > 0 && (size_t)options.top_k < V) {
        size_t last = c.likeliest;
        for (int64_t i = 1; i < options.top_k; i++) last = next_index(V, logits, last);
        c.last = last;
    }
    if (options.top_p < 1) {
        double enough = options.top_p * total_weight(&c), sum = 1;
        size_t last = c.likeliest, next;
        for (; sum < enough && (next = next_index(V, logits, last)) < V && next != c.last;
             last = next)
            sum += weight_of(&c, next);
        if (sum >= enough) c.last = last;
    }
    c.weight_min = options.min_p;
    return c;
}

int32_t sample_index(size_t V, const real *logits, struct sample_options options, double u) {
    const struct choice c = choose(V, logits, options);
    int32_t sampled = (int32_t)c.likeliest;
    if (options.temperature <= 0) return sampled;
    double total = total_weight(&c), sum = 0;
    for (size_t v = 0; v < V; v++) {
        double weight = weight_of(&c, v);
        if (weight <= 0) continue;
        sum += weight;
        sampled = (int32_t)v;
        if (u * total < sum) break;
    }
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

int32_t sampler_next(struct sampler *sampler, bool lenient) {
    struct model *model = sampler->model;
    model_extend(model, sampler->window, sampler->evaluated, sampler->length);
    sampler->evaluated = sampler->length;
    const real *logits = model_logits(model, sampler->length - 1);
    for (size_t v = 0; v < model->V; v++)
        if (!isfinite(logits[v])) {
            if (lenient) return -1;
            die(STATUS_DIVERGED, "sample: the model's logits are nan or infinite (its weights may "
                                 "be damaged, or its training diverged)");
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
    for (size_t at = 0; at < bytes;) {
        int32_t symbol =
            vocabulary_symbol(vocabulary->level, (const unsigned char *)text, bytes, &at);
        if (symbol < 0)
            die(STATUS_USAGE, "--%s: not UTF-8 at byte %zu, 0x%02x", name, at,
                (unsigned char)text[at]);
        ids[*count] = vocabulary_id(vocabulary, (uint32_t)symbol);
        if (ids[(*count)++] < 0)
            die(STATUS_USAGE, "--%s: has %s, which the model's vocabulary lacks", name,
                vocabulary_name(vocabulary->level, (uint32_t)symbol));
    }
    return ids;
}

void sample_text(struct sampler *sampler, const struct vocabulary *vocabulary,
                 const struct text_options *text, FILE *file) {
    struct writer writer = {.vocabulary = vocabulary, .file = file};
    size_t given, length;
    int32_t *ids = option_ids(vocabulary, "prompt", text->prompt, &given);
    int32_t *stop = option_ids(vocabulary, "stop", text->stop, &length);
    sampler->length = sampler->evaluated = 0;
    if (!given) {
        int32_t newline = vocabulary_id(vocabulary, '\n');
        sampler_add(sampler, newline < 0 ? 0 : newline);
    }
    for (size_t i = 0; i < given; i++) sampler_add(sampler, ids[i]);
    bool stopped = false;
    for (size_t i = 0; !stopped && i < given + text->count && !ferror(file); i++) {
        if (i >= given) {
            ids = memory_grow(ids, i + 1, sizeof *ids, "a text's characters");
            ids[i] = sampler_next(sampler, text->lenient);
            if (ids[i] < 0) break;
        }
        writer_put(&writer, ids[i]);
        if (i + 1 >= given) fflush(file);
        stopped = length && i + 1 >= given + length && // all of it after the prompt
                  !memcmp(ids + i + 1 - length, stop, length * sizeof *ids);
    }
    writer_end(&writer);
    free(stop);
    free(ids);
}

/* Samples the rest of an item into item (T), whose first `given` characters are there: up to and
   including the end marker, or until T characters are there. Returns their number. */
static size_t sample_item(struct sampler *sampler, int32_t marker, size_t given, int32_t *item) {
    size_t count = given;
    sampler->length = sampler->evaluated = 0;
    sampler_add(sampler, marker);
    for (size_t i = 0; i < given; i++) sampler_add(sampler, item[i]);
    do item[count++] = sampler_next(sampler, false);
    while (item[count - 1] != marker && count < sampler->model->T);
    return count;
}

static void write_item(const struct vocabulary *vocabulary, const int32_t *item, size_t count,
                       const char *label, FILE *file) {
    struct writer writer = {.vocabulary = vocabulary, .file = file};
    fputs(label, file);
    for (size_t i = 0; i < count; i++) writer_put(&writer, item[i]);
    writer_end(&writer);
    fputc('\n', file);
}

struct item_counts sample_items(struct sampler *sampler, const struct vocabulary *vocabulary,
                                const char *prompt, size_t count, const struct corpus *known,
                                FILE *file) {
    struct item_counts counts = {0};
    size_t T = sampler->model->T, given;
    int32_t marker = vocabulary_id(vocabulary, END_MARKER);
    if (marker < 0)
        die(STATUS_MACHINE, "sample: the vocabulary has no newline, which is the end marker");
    int32_t *ids = option_ids(vocabulary, "prompt", prompt, &given);
    size_t line = 0; // the prompt's characters before its first newline
    while (line < given && ids[line] != marker) line++;
    if (given >= T || line < given) free(ids);
    if (given >= T)
        die(STATUS_USAGE, "--prompt: is too long: an item has at most a block of %zu characters",
            T);
    if (line < given) die(STATUS_USAGE, "--prompt: holds a newline, and an item is a line");
    int32_t *item = memory_take(T, sizeof *item, "an item");
    while (counts.items < count && !ferror(file)) {
        memcpy(item, ids, given * sizeof *item);
        size_t length = sample_item(sampler, marker, given, item);
        enum item_place place = known ? item_find(known, T, vocabulary, item, length) : ITEM_NEW;
        bool ended = item[length - 1] == marker;
        counts.items++;
        counts.known += place == ITEM_KNOWN;
        counts.validate += place == ITEM_VALIDATES;
        counts.cut += !ended;
        const char *label = !known ? "" : place == ITEM_KNOWN ? "known  " : "new    ";
        write_item(vocabulary, item, length - ended, label, file);
        fflush(file);
    }
    free(item);
    free(ids);
    return counts;
}
