/* A corpus of items: each line of the text is a sequence of its own, such as a name, a word, a
   verse. Blank lines (of blanks and tabs) are none; a line's end is \n, \r\n or the text's end.

   The newline is the end marker: an item never holds one, so it is a character of the vocabulary
   like any other, first input and last target of each item. With T the block, the item "abc" is

     ids      \n a  b  c     targets  a  b  c  \n

   and one that is longer than a block is cut: its first T characters are predicted, its end is not.
   Behind an item its sequence holds pads: the marker as id, no target, `valid` 0.

   Items stand in a random order that is the same for every seed, so that a sorted list can be
   split: its end validates. */
#ifndef ITEMS_H
#define ITEMS_H

#include "data/text/corpus.h"

enum { END_MARKER = '\n', ITEM_MARKERS = 2 }; // a text may need so many markers more than it has

/* ids[begin] and ids[begin + tokens] of the corpus are markers, in between is the item. */
struct item {
    size_t begin, tokens; // tokens: inputs, or targets
};

/* What the functions of corpus.h do where there are items. items_make() makes items of corpus->ids,
   the text as symbols; a text without items dies with status 1. */
void items_make(struct corpus *corpus, const struct corpus_options *options);
void items_free(struct corpus *corpus);
void items_check(const struct corpus *corpus);

/* Training items in an order that depends on the seed alone: in each epoch every item once, a
   batch's most_B after the other. As long as the longest of them, or as a block. With `bucket` the
   items of POOL_BATCHES batches are sorted by length before they are cut into batches, which then
   come in a random order. */
void items_sample(const struct corpus *corpus, uint64_t seed, uint64_t count, struct batch *batch);

/* Likewise batch number first / B of the validation items. */
void items_validation(const struct corpus *corpus, size_t first, size_t B, struct batch *batch);

/* Items first, first + 1, ... of a slice of `count` training items: see corpus_slice(). */
void items_slice(const struct corpus *corpus, size_t count, size_t first, size_t B,
                 struct batch *batch);

/* How long the longest item is, in characters, and how many do not fit in a block of T. */
size_t items_longest(const struct corpus *corpus);
size_t items_cut(const struct corpus *corpus, size_t T);

/* Items that can be found by what a block of T predicts of them: their first T characters, or all
   and the marker. */
struct item_set {
    const struct corpus *corpus;
    size_t T, slots; // a power of two
    size_t *slot;    // (slots) 1 + an item, 0: free; by linear probing
};

void item_set_make(struct item_set *set, const struct corpus *corpus, size_t T);
void item_set_free(struct item_set *set);

/* Where an item of these targets stands: in the training part, or only in the other one. */
enum item_place { ITEM_NEW, ITEM_VALIDATES, ITEM_KNOWN };
enum item_place item_set_find(const struct item_set *set, const int32_t *targets, size_t count);

/* What corpora take their memory by; dies with status 1 where there is none. */
void *corpus_memory(size_t count, size_t size);

#endif
