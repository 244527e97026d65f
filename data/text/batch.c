/* Takes memory for a batch, and makes a part of a batch, which shares this memory. */
#include "data/text/batch.h"
#include "data/die.h"
#include <stdlib.h>

struct batch batch_make(size_t B, size_t T) {
    size_t count;
    if (__builtin_mul_overflow(B, T, &count)) count = SIZE_MAX;
    return (struct batch){.B = B,
                          .T = T,
                          .B_max = B,
                          .T_max = T,
                          .ids = memory_take(count, sizeof(int32_t), "a batch"),
                          .targets = memory_take(count, sizeof(int32_t), "a batch"),
                          .marks = memory_take(count, 1, "a batch")};
}

void batch_free(struct batch *batch) {
    free(batch->ids);
    free(batch->targets);
    free(batch->marks);
    *batch = (struct batch){0};
}

size_t batch_targets(const struct batch *batch) {
    size_t targets = 0;
    for (size_t n = 0; n < batch->B * batch->T; n++) targets += batch->targets[n] >= 0;
    return targets;
}

struct batch batch_part(const struct batch *batch, size_t first, size_t B) {
    struct batch part = *batch;
    size_t n = first * batch->T;
    part.B = B;
    part.first += first;
    part.ids += n;
    part.targets += n;
    if (part.valid) part.valid += n;
    return part;
}
