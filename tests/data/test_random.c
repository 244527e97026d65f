/* The random numbers of data/random.h: their distributions, and the independence of streams. Bounds
   are at five standard deviations or more. */
#include "data/random.h"
#include <criterion/criterion.h>

enum { COUNT = 200000 };

Test(random, split_mix_64) {
    // The first numbers of the published generator, started from state 0.
    cr_expect(random_bits(0, 0) == 0xe220a8397b1dcdaf);
    cr_expect(random_bits(0, 1) == 0x6e789e6aa1b965f4);
    cr_expect(random_bits(0, 2) == 0x06c45d188009454f);
    cr_expect(random_uniform(0, 0) == (double)(0xe220a8397b1dcdaf >> 11) * 0x1p-53);
}

/* Every carry between the four products of halves. (2^64 - 1)^2 = 2^128 - 2 2^64 + 1. */
Test(random, high_product) {
    static const uint64_t cases[][3] = {
        {UINT64_MAX, UINT64_MAX, UINT64_MAX - 1},
        {UINT64_MAX, 2, 1},
        {UINT64_MAX, 1, 0},
        {0, UINT64_MAX, 0},
        {(uint64_t)1 << 32, (uint64_t)1 << 32, 1},
        {(uint64_t)1 << 63, 6, 3},
        {0xffffffff, UINT64_MAX, 0xfffffffe},
        {0x123456789abcdef0, 0xfedcba9876543210, 0x121fa00ad77d7422},
        {0x00000001ffffffff, 0x80000000ffffffff, 0x0000000100000001}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint64_t *a = cases[i];
        cr_expect(random_high_product(a[0], a[1]) == a[2], "case %zu", i);
        cr_expect(random_high_product(a[1], a[0]) == a[2], "case %zu, exchanged", i);
    }
}

Test(random, below) {
    static const uint64_t sides[] = {1, 2, 3, 10, 97, 256};
    for (size_t s = 0; s < sizeof sides / sizeof *sides; s++) {
        uint64_t n = sides[s];
        int times[256] = {0};
        for (uint64_t i = 0; i < COUNT; i++) {
            uint64_t k = random_below(random_key(1, "dice", n), i, n);
            cr_assert(k < n);
            times[k]++;
        }
        double mean = (double)COUNT / (double)n, squares = 0;
        for (uint64_t k = 0; k < n; k++) squares += pow(times[k] - mean, 2) / mean;
        double freedom = (double)n - 1; // chi-squared: the variance is twice the mean
        cr_expect(squares <= freedom + 6 * sqrt(2 * freedom) + 6, "%d sides: %g", (int)n, squares);
    }
    cr_expect(random_below(1, 1, UINT64_MAX) > 0);
}

Test(random, normal) {
    double power[5] = {0};
    int beyond = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        double x = random_normal(5, i);
        cr_assert(isfinite(x));
        for (int p = 1; p <= 4; p++) power[p] += pow(x, p) / COUNT;
        beyond += fabs(x) > 1.959964;
    }
    cr_expect(fabs(power[1]) < 5 * sqrt(1.0 / COUNT), "mean %g", power[1]);
    cr_expect(fabs(power[2] - 1) < 5 * sqrt(2.0 / COUNT), "variance %g", power[2]);
    cr_expect(fabs(power[3]) < 5 * sqrt(15.0 / COUNT), "skewness %g", power[3]);
    cr_expect(fabs(power[4] - 3) < 5 * sqrt(96.0 / COUNT), "fourth moment %g", power[4]);
    cr_expect(fabs(beyond - 0.05 * COUNT) < 5 * sqrt(0.05 * 0.95 * COUNT), "tails %d", beyond);
}

/* The correlation of two streams of uniform numbers. */
static double correlation(uint64_t a, uint64_t b) {
    double sum = 0;
    for (uint64_t i = 0; i < COUNT; i++)
        sum += 12 * (random_uniform(a, i) - 0.5) * (random_uniform(b, i) - 0.5);
    return sum / COUNT;
}

Test(random, streams_differ_by_seed_purpose_and_index) {
    uint64_t key = random_key(1, "batch", 0);
    const uint64_t others[] = {random_key(2, "batch", 0), random_key(1, "batch", 1),
                               random_key(1, "batc", 0), random_key(0, "batch", 1),
                               random_key(1, "hctab", 0)};
    cr_expect(fabs(correlation(key, key + 1)) < 5 / sqrt(COUNT), "neighbours");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        cr_expect(others[i] != key, "stream %zu", i);
        for (size_t j = 0; j < i; j++) cr_expect(others[i] != others[j], "%zu and %zu", i, j);
        cr_expect(fabs(correlation(key, others[i])) < 5 / sqrt(COUNT), "stream %zu", i);
    }
}

Test(random, permuted_is_a_permutation_that_depends_on_the_key) {
    for (uint64_t n = 1; n < 300; n++) {
        bool taken[300] = {0};
        uint64_t moved = 0, other = 0;
        for (uint64_t i = 0; i < n; i++) {
            uint64_t to = random_permuted(5, i, n);
            cr_assert(to < n && !taken[to], "%llu of %llu", (unsigned long long)i,
                      (unsigned long long)n);
            taken[to] = true;
            moved += to != i;
            other += to != random_permuted(6, i, n);
        }
        if (n > 20) cr_expect(moved > n / 2 && other > n / 2, "n %llu", (unsigned long long)n);
    }
}
