#include "model/math/tensor.h"
#include "data/die.h"
#include "data/random.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

struct param tensor_take(struct tensor_list *list, const char *name, size_t rows, size_t columns,
                         double mean, double deviation) {
    const size_t step = 64 / sizeof(real);
    size_t size = rows ? rows : 1, offset = list->size;
    if (__builtin_mul_overflow(size, columns ? columns : 1, &size) ||
        __builtin_add_overflow(list->size, (size + step - 1) / step * step, &list->size))
        die(STATUS_USAGE, "model: tensor %s has more elements than can be counted", name);
    if (list->tensor) {
        struct tensor *t = &list->tensor[list->count];
        *t = (struct tensor){.shape = {rows, columns},
                             .dimensions = columns ? 2
                                           : rows  ? 1
                                                   : 0,
                             .offset = offset,
                             .size = size,
                             .decays = columns > 0,
                             .mean = mean,
                             .deviation = deviation};
        snprintf(t->name, sizeof t->name, "%s", name);
    }
    list->count++;
    return (struct param){list->value ? list->value + offset : NULL,
                          list->grad ? list->grad + offset : NULL, list->stride};
}

void tensor_decay(struct tensor_list *list, double target) {
    if (!list->tensor) return; // while counting
    struct tensor *t = &list->tensor[list->count - 1];
    t->decays = true;
    t->decay_target = target;
}

/* The declaration of a parameter of the list; NULL while counting. */
static struct tensor *tensor_of(struct tensor_list *list, struct param param) {
    struct tensor *t = list->tensor;
    while (t && list->value + t->offset != param.value) t++;
    return t;
}

void tensor_keep_unit(struct tensor_list *list, struct param matrix, enum tensor_unit unit) {
    struct tensor *t = tensor_of(list, matrix);
    if (t) t->unit = unit;
    list->units++;
}

void tensor_hidden(struct tensor_list *list, struct param weight,
                   const size_t rows[TENSOR_MATRICES]) {
    struct tensor *t = tensor_of(list, weight);
    if (t) memcpy(t->matrix_rows, rows, sizeof t->matrix_rows);
}

int64_t *tensor_take_count(struct tensor_list *list, const char *name) {
    real *value = tensor_take(list, name, 0, 0, 0, 0).value;
    _Static_assert(sizeof(int64_t) % sizeof(real) == 0, "an integer takes whole reals");
    if (list->tensor) {
        list->tensor[list->count - 1].size = sizeof(int64_t) / sizeof(real);
        list->tensor[list->count - 1].counts = true;
    }
    return (int64_t *)value; // aligned: each tensor starts at a multiple of 64 bytes
}

const struct tensor *tensor_nonfinite(const struct tensor_list *list, const real *values) {
    for (size_t i = 0; i < list->count; i++) {
        const struct tensor *t = &list->tensor[i];
        for (size_t j = 0; j < t->size && !t->counts; j++)
            if (!isfinite(values[t->offset + j])) return t;
    }
    return NULL;
}

void tensor_initialize(struct tensor_list *list, uint64_t seed) {
    list->version++;
    for (size_t i = 0; i < list->count; i++) {
        const struct tensor *t = &list->tensor[i];
        real *value = list->value + t->offset;
        if (t->counts) {
            memset(value, 0, sizeof(int64_t));
            continue;
        }
        uint64_t key = random_key(seed, t->name, 0);
#pragma omp parallel for
        for (size_t j = 0; j < t->size; j++)
            value[j] =
                (real)(t->deviation > 0 ? t->mean + t->deviation * random_normal(key, j) : t->mean);
    }
}
