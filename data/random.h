/* Counter-based random numbers: number `counter` of the stream `key`. There is no state.

   A stream is keyed by its purpose: seed + tensor name for an initial weight, seed + epoch for the
   order of the text's blocks or items, seed + step + sub-layer for a dropout mask. So changing the
   norm changes neither the initial values of other weights nor the data; the backward pass can
   compute any value again; and nothing depends on the number of threads.

   The generator is SplitMix64 (Steele, Lea and Flood 2014), read at any position:

     mix(key + (counter + 1) g),   g the odd integer nearest to 2^64 / golden ratio. */
#pragma once

#include <math.h>
#include <stdint.h>

/* The finalizer of SplitMix64: a bijection of 64-bit words in which every input bit reaches every
   output bit. */
static inline uint64_t random_mix(uint64_t z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* 64 random bits: number `counter` of stream `key`. */
static inline uint64_t random_bits(uint64_t key, uint64_t counter) {
    return random_mix(key + (counter + 1) * 0x9e3779b97f4a7c15u);
}

/* The key of the stream for a `purpose` (a tensor's name, "epoch", ...) and an `index` (a step,
   ...). Each combination of seed, purpose and index has its own. */
static inline uint64_t random_key(uint64_t seed, const char *purpose, uint64_t index) {
    uint64_t key = random_mix(seed + 0x9e3779b97f4a7c15u);
    for (; *purpose; purpose++) key = random_mix(key ^ (unsigned char)*purpose);
    return random_mix(key ^ random_mix(index));
}

/* Uniform in [0, 1), 53 bits. */
static inline double random_uniform(uint64_t key, uint64_t counter) {
    return (double)(random_bits(key, counter) >> 11) * 0x1p-53;
}

/* Standard normal (Box and Muller 1958), from two numbers of the stream that no other counter
   uses. */
static inline double random_normal(uint64_t key, uint64_t counter) {
    double radius = sqrt(-2 * log(1 - random_uniform(key, 2 * counter)));
    return radius * cos(6.283185307179586 * random_uniform(key, 2 * counter + 1));
}

/* The high word of the product a b, from products of halves, as 32-bit machines have no 128-bit
   integers. No sum overflows: (2^32 - 1)^2 + 2 (2^32 - 1) = 2^64 - 1.

     a b = high 2^64 + (middle + other) 2^32 + low */
static inline uint64_t random_high_product(uint64_t a, uint64_t b) {
    const uint64_t half = 0xffffffff, low = (a & half) * (b & half);
    const uint64_t middle = (a >> 32) * (b & half) + (low >> 32);
    const uint64_t other = (a & half) * (b >> 32) + (middle & half);
    return (a >> 32) * (b >> 32) + (middle >> 32) + (other >> 32);
}

/* Uniform integer in [0, n), n > 0: the high word of a 64 x 64 bit product (bias below n /
   2^64). */
static inline uint64_t random_below(uint64_t key, uint64_t counter, uint64_t n) {
    return random_high_product(random_bits(key, counter), n);
}

/* The image of i < n under a random permutation of 0 .. n-1, one for each key: a Feistel network of
   four rounds (Luby and Rackoff 1988) on the smallest even number of bits that can represent n - 1,
   applied repeatedly until the result is below n ("cycle walking", Black and Rogaway 2002). */
static inline uint64_t random_permuted(uint64_t key, uint64_t i, uint64_t n) {
    unsigned half = 1;
    while (half < 32 && n > (uint64_t)1 << 2 * half) half++;
    const uint64_t mask = ((uint64_t)1 << half) - 1;
    do {
        uint64_t left = i >> half, right = i & mask;
        for (uint64_t round = 0; round < 4; round++) {
            uint64_t mixed = left ^ (random_bits(key + round, right) & mask);
            left = right;
            right = mixed;
        }
        i = left << half | right;
    } while (i >= n);
    return i;
}
