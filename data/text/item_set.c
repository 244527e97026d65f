#include "data/text/item_set.h"
#include "data/die.h"
#include "data/random.h"
#include <stdlib.h>

/* The slot of the item with these targets, or the free slot where it belongs. */
static size_t slot_of(const struct item_set *set, const int32_t *targets, size_t count) {
    const struct corpus *corpus = set->corpus;
    const struct item *items = items_of(corpus)->item;
    uint64_t hash = 0;
    for (size_t i = 0; i < count; i++) hash = random_mix(hash + (uint64_t)targets[i] + 1);
    for (size_t at = hash & (set->slots - 1);; at = (at + 1) & (set->slots - 1)) {
        if (!set->slot[at]) return at;
        const struct item *item = &items[set->slot[at] - 1];
        size_t tokens = item->tokens < set->T ? item->tokens : set->T;
        size_t same = 0;
        while (same < count && tokens == count &&
               ids_at(&corpus->ids, item->start + 1 + same) == targets[same])
            same++;
        if (tokens == count && same == count) return at;
    }
}

void item_set_make(struct item_set *set, const struct corpus *corpus, size_t T) {
    const struct item *items = items_of(corpus)->item;
    *set = (struct item_set){.corpus = corpus, .T = T, .slots = 2};
    while (set->slots < 2 * corpus->end) set->slots *= 2;
    set->slot = memory_take(set->slots, sizeof *set->slot, "the set of items");
    int32_t *targets = memory_take(T, sizeof *targets, "the set of items");
    for (size_t i = corpus->end; i-- > 0;) { // training items come last and replace the same ones
        size_t tokens = items[i].tokens < T ? items[i].tokens : T;
        ids_get(&corpus->ids, items[i].start + 1, tokens, targets);
        set->slot[slot_of(set, targets, tokens)] = i + 1;
    }
    free(targets);
}

void item_set_free(struct item_set *set) {
    free(set->slot);
    *set = (struct item_set){0};
}

enum item_place item_set_find(const struct item_set *set, const int32_t *targets, size_t count) {
    size_t found = set->slot[slot_of(set, targets, count)];
    if (!found) return ITEM_NEW;
    return found - 1 < set->corpus->train ? ITEM_KNOWN : ITEM_VALIDATES;
}
