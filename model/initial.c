#include "model/initial.h"
#include <math.h>

static double given(const struct initial *initial, size_t in, size_t out) {
    return initial->std;
}

static double glorot(const struct initial *initial, size_t in, size_t out) {
    return sqrt(2 / ((double)in + (double)out));
}

static double fan_in(const struct initial *initial, size_t in, size_t out) {
    return 1 / sqrt((double)in);
}

static double one(const struct initial *initial, size_t in, size_t out) {
    return 1;
}

static double embedding(const struct initial *initial, size_t in, size_t out) {
    return initial->embd_std > 0 ? initial->embd_std : initial->rule->matrix(initial, in, out);
}

const struct initial_rule initial_rules[] = {
    [INIT_GPT2] = {"gpt2", given, given, embedding, embedding, .by_depth = true},
    [INIT_XAVIER] = {"xavier", glorot, fan_in, fan_in, one, .by_depth = false},
    [INIT_WIDTH] = {"width", fan_in, fan_in, embedding, embedding, .by_depth = true},
    {0},
};
