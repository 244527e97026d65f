/* The items of a corpus as a set, in which an item is found by its targets: to tell whether a model
   has written an item that it knows from training. */
#ifndef ITEM_SET_H
#define ITEM_SET_H

#include "data/text/items.h"

/* Two items are the same if a model with blocks of T predicts the same of them: their first T
   characters, or all characters and the marker. */
struct item_set {
    const struct corpus *corpus; // a corpus of items, not owned
    size_t T, slots;             // slots: a power of two
    size_t *slot;                // (slots) 1 + the number of an item, 0: free; linear probing
};

void item_set_make(struct item_set *set, const struct corpus *corpus, size_t T);
void item_set_free(struct item_set *set);

/* Which part has the item with these targets: none, only the validation split, the training split. */
enum item_place { ITEM_NEW, ITEM_VALIDATES, ITEM_KNOWN };
enum item_place item_set_find(const struct item_set *set, const int32_t *targets, size_t count);

#endif
