#include "tests/model/golden.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void golden_read(const char *path, const char *key, size_t count, real *values) {
    FILE *file = fopen(path, "r");
    cr_assert(file != NULL, "%s is missing: make it with scripts/pytorch/make_golden.py", path);
    char *line = NULL;
    size_t size = 0;
    bool found = false;
    while (!found && getline(&line, &size, file) >= 0) {
        char *at = line, *word = strsep(&at, " ");
        if (strcmp(word, key) != 0 || !at) continue;
        found = true;
        cr_assert_eq((size_t)strtoull(at, &at, 10), count, "%s: %s has another size", path, key);
        for (size_t i = 0; i < count; i++) {
            char *end;
            values[i] = (real)strtod(at, &end);
            cr_assert(end != at, "%s: %s is cut", path, key);
            at = end;
        }
    }
    free(line);
    fclose(file);
    cr_assert(found, "%s: no %s", path, key);
}

void golden_expect(const char *path, const char *key, size_t count, const real *got,
                   double tolerance, double typical) {
    real *want = hold(count * sizeof(real));
    golden_read(path, key, count, want);
    double error = difference(count, got, want), scale = fmax(largest(count, want), typical);
    cr_expect(error <= tolerance * scale, "%s: %s: off by %g where the largest is %g", path, key,
              error, scale);
}

void golden_expect_results(const char *path, const char *prefix, int k, size_t count,
                           const struct golden_result *results) {
    for (size_t i = 0; i < count; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s%s:%d", prefix, results[i].key, k);
        golden_expect(path, key, results[i].count, results[i].values, in_double() ? 1e-8 : 1e-5, 0);
    }
}

void golden_start(struct tensor_list *list) {
    for (size_t k = 0; k < list->count; k++) {
        const struct tensor *t = &list->tensor[k];
        int sum = 0;
        for (const char *c = t->name; *c; c++) sum += (unsigned char)*c;
        bool norm = strstr(t->name, "ln_") || strstr(t->name, "norm");
        double more = norm && strstr(t->name, "weight") ? 1 : 0;
        for (size_t i = 0; i < t->size; i++)
            list->value[t->offset + i] = (real)(more + 0.4 * sin(1.3 * (double)i + sum));
    }
}

struct batch golden_batch(int k) {
    struct batch batch = make_batch(GOLDEN_B, GOLDEN_T, GOLDEN_V, 1);
    for (int b = 0; b < GOLDEN_B; b++)
        for (int t = 0; t < GOLDEN_T; t++) {
            int x = (3 * b + 2 * t + b * t + k) % GOLDEN_V;
            batch.ids[b * GOLDEN_T + t] = x;
            batch.targets[b * GOLDEN_T + t] = (5 * x + t + 1) % GOLDEN_V;
        }
    return batch;
}

void golden_dots(size_t count, const real *x, real dots[2]) {
    double sums[2] = {0, 0};
    for (size_t i = 0; i < count; i++) {
        sums[0] += (double)x[i] * cos(0.7 * (double)i);
        sums[1] += (double)x[i] * sin(0.7 * (double)i);
    }
    dots[0] = (real)sums[0], dots[1] = (real)sums[1];
}
