#include "tests/model/golden.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void golden_read(const char *path, const char *key, size_t count, real *values) {
    FILE *file = fopen(path, "r");
    cr_assert(file != NULL, "%s is missing: make it with scripts/make_golden.py", path);
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
    real *want = malloc(count * sizeof(real));
    golden_read(path, key, count, want);
    double error = difference(count, got, want), scale = fmax(largest(count, want), typical);
    cr_expect(error <= tolerance * scale, "%s: %s: off by %g where the largest is %g", path, key,
              error, scale);
    free(want);
}

void golden_expect_results(const char *path, const char *prefix, int k, size_t count,
                           const struct golden_result *results) {
    for (size_t i = 0; i < count; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s%s:%d", prefix, results[i].key, k);
        golden_expect(path, key, results[i].count, results[i].values, in_double() ? 1e-8 : 1e-5, 0);
    }
}
