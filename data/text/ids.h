/* Ids of a long text, stored in 1, 2 or 4 bytes each, as few as the largest id needs. Batches and
   callers get them as int32_t. */
#ifndef IDS_H
#define IDS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct ids {
    void *data;   // uint8_t, uint16_t or int32_t
    size_t width; // bytes of an id
};

static inline int32_t ids_at(const struct ids *ids, size_t i) {
    if (ids->width == 1) return ((const uint8_t *)ids->data)[i];
    if (ids->width == 2) return ((const uint16_t *)ids->data)[i];
    return ((const int32_t *)ids->data)[i];
}

static inline void ids_put(struct ids *ids, size_t i, int32_t id) {
    memcpy((char *)ids->data + i * ids->width, &id, ids->width); // the low bytes: little-endian
}

/* Reads ids first .. first + count - 1. */
static inline void ids_get(const struct ids *ids, size_t first, size_t count,
                           int32_t *restrict to) {
    const struct ids from = *ids;
    for (size_t i = 0; i < count; i++) to[i] = ids_at(&from, first + i);
}

#endif
