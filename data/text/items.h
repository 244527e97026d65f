/* The kind of corpus that is a list of items: each line of the text is a sequence of its own, such
   as a name, a word or a verse. Lines that are empty or contain only blanks and tabs are skipped. A
   line ends with \n, with \r\n or at the end of the text.

   The newline is the end marker. No item contains one, so it is a character of the vocabulary like
   any other: the first input and the last target of each item. The item "abc" is

     ids      \n a  b  c     targets  a  b  c  \n

   An item that does not fit in a block of T is cut: its first T characters are predicted, its end
   is not. After the end of an item its sequence is filled with pads: the marker as id, no target,
   `valid` 0.

   The items are shuffled before they are split, so that a sorted list can be used. The
   order is the same for every seed. */
#pragma once

#include "data/text/corpus.h"

enum { END_MARKER = '\n' };

/* The targets of an item are `tokens` ids of the corpus from `start` on: its characters, then the
   marker. */
struct item {
    size_t start, tokens;
};

/* The items in their shuffled order, (corpus->units); NULL if the corpus is of another kind. */
const struct item *items_of(const struct corpus *corpus);

/* Sizes of a corpus of items; all 0 if it is of another kind. */
struct items_size {
    size_t items, train; // the number of items
    size_t longest;      // characters of the longest one
    size_t cut;          // the number of those that do not fit in a block of T
};

struct items_size items_size_of(const struct corpus *corpus, size_t T);

/* The split that has the item with these targets, ids of the vocabulary: none, only the validation
   split, or the training split; to tell whether a model has written an item that it knows from
   training. Two items are the same if a model with blocks of T predicts the same of them: their
   first T characters, or all characters and the marker. */
enum item_place { ITEM_NEW, ITEM_VALIDATES, ITEM_KNOWN };
enum item_place item_find(const struct corpus *corpus, size_t T,
                          const struct vocabulary *vocabulary, const int32_t *targets,
                          size_t count);
