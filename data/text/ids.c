#include "data/text/ids.h"
#include "data/die.h"
#include <stdlib.h>
#include <string.h>

void ids_get(const struct ids *ids, size_t first, size_t count, int32_t *restrict to) {
    if (ids->width == 1) {
        const uint8_t *from = (const uint8_t *)ids->data + first;
        for (size_t i = 0; i < count; i++) to[i] = from[i];
    } else if (ids->width == 2) {
        const uint16_t *from = (const uint16_t *)ids->data + first;
        for (size_t i = 0; i < count; i++) to[i] = from[i];
    } else {
        memcpy(to, (const int32_t *)ids->data + first, count * sizeof *to);
    }
}

void ids_put(struct ids *ids, size_t first, size_t count, const int32_t *restrict from) {
    if (ids->width == 1) {
        uint8_t *to = (uint8_t *)ids->data + first;
        for (size_t i = 0; i < count; i++) to[i] = (uint8_t)from[i];
    } else if (ids->width == 2) {
        uint16_t *to = (uint16_t *)ids->data + first;
        for (size_t i = 0; i < count; i++) to[i] = (uint16_t)from[i];
    } else {
        memcpy((int32_t *)ids->data + first, from, count * sizeof *from);
    }
}

size_t ids_find(const struct ids *ids, size_t first, size_t end, int32_t id) {
    if (ids->width == 1) {
        const char *from = ids->data, *found = memchr(from + first, id, end - first);
        return found ? (size_t)(found - from) : end;
    }
    while (first < end && ids_at(ids, first) != id) first++;
    return first;
}

void ids_move(struct ids *ids, size_t to, size_t from, size_t count) {
    char *data = ids->data;
    memmove(data + to * ids->width, data + from * ids->width, count * ids->width);
}

void ids_resize(struct ids *ids, size_t room) {
    if (!ids->width) ids->width = 1;
    ids->data = memory_grow(ids->data, room, ids->width, "the corpus");
    ids->room = room;
}

/* In place, piece by piece. Where ids become wider, the last piece comes first: piece k is written
   at or after its old place, over old places of pieces that are done. */
void ids_map(struct ids *ids, size_t count, const int32_t *map, size_t V) {
    enum { PIECE = 2048 };
    int32_t piece[PIECE];
    struct ids mapped = {.data = ids->data, .width = ids_width(V), .room = ids->room};
    size_t pieces = (count + PIECE - 1) / PIECE;
    if (mapped.width > ids->width) ids_resize(&mapped, ids->room);
    ids->data = mapped.data;
    for (size_t n = 0; n < pieces; n++) {
        size_t first = (mapped.width > ids->width ? pieces - 1 - n : n) * PIECE;
        size_t length = count - first < PIECE ? count - first : PIECE;
        ids_get(ids, first, length, piece);
        for (size_t i = 0; map && i < length; i++) piece[i] = map[piece[i]];
        ids_put(&mapped, first, length, piece);
    }
    *ids = mapped;
}

void ids_free(struct ids *ids) {
    free(ids->data);
    *ids = (struct ids){0};
}
