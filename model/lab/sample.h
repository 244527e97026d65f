/* Text made by the model, one character at a time. */
#ifndef SAMPLE_H
#define SAMPLE_H

#include "data/text/item_set.h"
#include "model/model.h"

struct sample_options {
    double temperature; // logits are divided by it; 0: always the likeliest
    int64_t top_k;      // only so many likeliest characters; 0: all
};

/* A text that grows, in evaluation (bn by its running statistics). The model sees a window of it:
   all, until block_size characters stand there; the next one then pushes the older half out, since
   positions are counted from the window's begin. So it sees at least half a block and costs one
   token a character, a forward of half a block each time that the window moves. */
struct sampler {
    struct model *model;
    struct sample_options options;
    uint64_t key;  // of the stream of its draws,
    uint64_t draw; // the next one's number
    int32_t *window;
    size_t length; // of the window, <= model->T
    size_t known;  // of these the model holds the activations
};

/* The model serves no other purpose, and keeps its weights, until sampler_free(). */
void sampler_init(struct sampler *sampler, struct model *model, struct sample_options options,
                  uint64_t key);
void sampler_free(struct sampler *sampler);

/* The text goes on with this character. */
void sampler_add(struct sampler *sampler, int32_t id);

/* Draws the next character of a text that has begun, and adds it. A model whose logits are no
   numbers dies with status 3. */
int32_t sampler_next(struct sampler *sampler);

/* The prompt and `count` characters that go on from it, as they are made, into one or two files
   (the second may be NULL); one that cannot be written gets no more. Without a prompt (NULL) they
   go on from a newline, or the vocabulary's first character, which is not shown. A prompt that is
   not UTF-8, or has a character that the vocabulary lacks, dies with status 2. */
void sample_text(struct model *model, const struct vocabulary *vocabulary,
                 struct sample_options options, uint64_t key, const char *prompt, size_t count,
                 FILE *const files[2]);

/* What became of items: how many are in the training part, are only in the other one, and came to
   the block's end without an end of their own. */
struct item_counts {
    size_t items, known, validate, cut;
};

/* `count` items, each a line, into files as above: what the model draws behind the end marker and
   the prompt until the marker comes again, at most a block. With `known` not NULL each line begins
   with "known  ", an item of the training part, or "new    ". A prompt that is no begin of an item
   dies with status 2. */
struct item_counts sample_items(struct model *model, const struct vocabulary *vocabulary,
                                struct sample_options options, uint64_t key, const char *prompt,
                                size_t count, const struct item_set *known, FILE *const files[2]);

/* One draw from softmax(logits / temperature) over the top_k of V logits; u is uniform in [0, 1).
 */
int32_t sample_draw(size_t V, const real *logits, struct sample_options options, double u);

#endif
