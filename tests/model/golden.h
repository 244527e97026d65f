/* Numbers computed with PyTorch, in tests/golden/, made by scripts/make_golden.py. The files hold
   results only: both sides compute the inputs from the same formula. */
#ifndef GOLDEN_H
#define GOLDEN_H

#include "tests/support.h"

/* Reads the `count` values of `key` from the golden file; fails if they are not there. */
void golden_read(const char *path, const char *key, size_t count, real *values);

/* Fails unless the values agree with the file's to within `tolerance` of the largest of these, or
   of `typical` if that is larger. */
void golden_expect(const char *path, const char *key, size_t count, const real *got,
                   double tolerance, double typical);

/* A result, and its name in a golden file. */
struct golden_result {
    const char *key;
    size_t count;
    const real *values;
};

/* Fails unless every result agrees with the file's values of key PREFIX KEY:k. */
void golden_expect_results(const char *path, const char *prefix, int k, size_t count,
                           const struct golden_result *results);

#endif
