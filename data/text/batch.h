/* What a corpus hands to a model: B sequences of T character ids, and the id that follows each. */
#ifndef BATCH_H
#define BATCH_H

#include <stddef.h>
#include <stdint.h>

struct batch {
    size_t B, T;
    size_t most_B, most_T; // for so much there is room
    int32_t *ids;          // (B,T)
    int32_t *targets;      // (B,T), -1 where there is nothing to predict
    unsigned char *valid;  // (B,T), 0 marks a pad; NULL: no pads
};

#endif
