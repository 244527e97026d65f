/* Ids of a long text, in as few bytes each as the largest one needs: 1, 2 or 4. Batches and callers
   see them as int32_t. */
#ifndef IDS_H
#define IDS_H

#include <stddef.h>
#include <stdint.h>

struct ids {
    void *data;   // uint8_t, uint16_t or int32_t, of which there is memory for `room`
    size_t width; // bytes of an id; 0: there is no memory yet
    size_t room;
};

/* The width of ids 0 .. V - 1. */
static inline size_t ids_width(size_t V) {
    return V <= 256 ? 1 : V <= 65536 ? 2 : 4;
}

static inline int32_t ids_at(const struct ids *ids, size_t i) {
    if (ids->width == 1) return ((const uint8_t *)ids->data)[i];
    if (ids->width == 2) return ((const uint16_t *)ids->data)[i];
    return ((const int32_t *)ids->data)[i];
}

/* Reads and writes ids first .. first + count - 1. What is written fits the width and the room. */
void ids_get(const struct ids *ids, size_t first, size_t count, int32_t *to);
void ids_put(struct ids *ids, size_t first, size_t count, const int32_t *from);

/* The first place of `id`, which fits the width, among ids first .. end - 1, or `end`. */
size_t ids_find(const struct ids *ids, size_t first, size_t end, int32_t id);

/* Moves `count` ids inside the array, as memmove() does. */
void ids_move(struct ids *ids, size_t to, size_t from, size_t count);

/* Gives the memory room for exactly `room` ids of the present width, initially of 1 byte. Dies
   with status 1 if there is not enough memory. */
void ids_resize(struct ids *ids, size_t room);

/* Replaces each of the first `count` ids by map[id], which is below V, and changes the width to
   that of V. map NULL: the ids stay as they are. */
void ids_map(struct ids *ids, size_t count, const int32_t *map, size_t V);

void ids_free(struct ids *ids);

#endif
