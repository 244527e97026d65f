/* Text made by the model, one character at a time. */
#ifndef SAMPLE_H
#define SAMPLE_H

#include "model.h"

struct sample_options {
    double temperature; // logits are divided by it; 0: always the likeliest
    int64_t top_k;      // only so many likeliest characters; 0: all
};

/* ids[count] .. ids[count + more - 1] drawn one after the other, each from the model's prediction
   after the block_size ids before it (in evaluation: bn by its running statistics). ids holds
   `count` > 0 given ids first. The draws are the stream `key`. */
void sample_ids(struct model *model, int32_t *ids, size_t count, size_t more,
                struct sample_options options, uint64_t key);

/* One draw from softmax(logits / temperature) over the top_k of V logits; u is uniform in [0, 1).
 */
int32_t sample_draw(size_t V, const real *logits, struct sample_options options, double u);

#endif
