/* Text and items that the model makes, one character at a time. */
#pragma once

#include "data/text/items.h"
#include "model/model.h"

/* How a character is sampled. Of the characters that top_k leaves, top_p takes the likeliest ones
   until their probabilities sum to it (Holtzman et al. 2019, arXiv:1904.09751), and min_p leaves
   out those less than min_p times as likely as the likeliest (Nguyen et al. 2024,
   arXiv:2407.01082). */
struct sample_options {
    double temperature;  // logits are divided by it; 0: always the likeliest character
    int64_t top_k;       // sample from this many likeliest characters; 0: from all
    double top_p, min_p; // of probabilities at this temperature; 1 and 0: from all
};

/* A text that grows by sampling, in evaluation mode (bn uses its running statistics). The model
   sees a window of the text. The window grows until it has block_size characters. Positions are
   counted from its start, so the next character then drops its older half. So the model always sees
   at least half a block. A character costs one token, and half a block more when the window
   moves. */
struct sampler {
    struct model *model;
    struct sample_options options;
    uint64_t key;     // of the random stream
    uint64_t count;   // characters sampled so far
    int32_t *window;  // (T)
    size_t length;    // of the window, at most T
    size_t evaluated; // characters of the window whose activations the model holds
};

/* Until sampler_free(), the model must not be used otherwise, and its weights must not change. */
void sampler_init(struct sampler *sampler, struct model *model, struct sample_options options,
                  uint64_t key);
void sampler_free(struct sampler *sampler);

/* Appends a character to the text. */
void sampler_add(struct sampler *sampler, int32_t id);

/* Samples the next character and appends it. The text must not be empty. If a logit is not finite,
   dies with status 3, or with `lenient` returns -1. */
int32_t sampler_next(struct sampler *sampler, bool lenient);

/* Dies with status 3, because a logit is not finite. */
_Noreturn void sampler_diverged(void);

/* Texts or items that a model writes, until an error of the file. Each starts with `prompt`. Set
   all but `sampler`, `counts` and `diverged`.

   At most `count` characters continue the prompt of a text, up to the first occurrence of `stop`.
   Without a prompt it continues a newline, or the vocabulary's first character, which is not
   written. Lines of --- separate texts. An item is a line; it ends before the end marker, or after
   a block. If `known` is not NULL, its line starts with "known  " for an item of the training
   split, else with "new    ". */
struct sampling {
    struct sampler sampler;
    const struct vocabulary *vocabulary;
    FILE *file;
    const char *prompt, *stop; // or NULL
    size_t texts, count;       // count: characters of a text
    bool lenient;              // ends where a logit is not finite, instead of dying
    bool diverged;             // it did
    bool exact;                // bytes that are not UTF-8 are written as they are (vocabulary.h)
    bool items;                // writes `count` items, not texts
    const struct corpus *known;
    /* The number of items, and of those that are in the training split, only in the validation
       split, or cut at the end of a block. */
    struct item_counts {
        size_t items, known, validate, cut;
    } counts;
};

/* Dies with status 2 if prompt or stop is not UTF-8 or has a character that is not in the
   vocabulary, or no item can start with the prompt. */
void sample_write(struct sampling *sampling, struct model *model, struct sample_options options,
                  uint64_t seed);

/* An index, sampled from softmax(logits / temperature) over those of V logits that the options
   leave; u is uniform in [0, 1). */
int32_t sample_index(size_t V, const real *logits, struct sample_options options, double u);
