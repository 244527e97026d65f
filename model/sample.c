#include "sample.h"
#include <math.h>

/* How many logits are above z, an earlier index going before a later one of the same value. */
static size_t rank_of(size_t V, const real *logits, size_t v) {
    size_t above = 0;
    for (size_t i = 0; i < V; i++)
        above += logits[i] > logits[v] || (logits[i] == logits[v] && i < v);
    return above;
}

int32_t sample_draw(size_t V, const real *logits, struct sample_options options, double u) {
    size_t likeliest = 0;
    for (size_t v = 1; v < V; v++)
        if (logits[v] > logits[likeliest]) likeliest = v;
    if (options.temperature <= 0) return (int32_t)likeliest;
    bool limited = options.top_k > 0 && (size_t)options.top_k < V;
    double weight, total = 0;
    int32_t drawn = (int32_t)likeliest;
    for (int pass = 0; pass < 2; pass++) { // the sum first, then the place of u in it
        double sum = 0;
        for (size_t v = 0; v < V; v++) {
            if (limited && rank_of(V, logits, v) >= (size_t)options.top_k) continue;
            weight = exp(((double)logits[v] - (double)logits[likeliest]) / options.temperature);
            sum += weight;
            if (pass == 1) {
                drawn = (int32_t)v;
                if (u * total < sum) return drawn;
            }
        }
        total = sum;
    }
    return drawn;
}

void sample_ids(struct model *model, int32_t *ids, size_t count, size_t more,
                struct sample_options options, uint64_t key) {
    for (size_t i = 0; i < more; i++) {
        size_t length = count + i, T = length < model->T ? length : model->T;
        struct batch window = {.B = 1, .T = T, .ids = ids + length - T};
        model_forward(model, &window, false, 0);
        ids[length] =
            sample_draw(model->V, model_logits(model, T - 1), options, random_uniform(key, i));
    }
}
