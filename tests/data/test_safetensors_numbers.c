/* The numbers in safetensors files: every type, and every pattern of 16 bits. */
#include "tests/data/stored_file.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Writes one array, and reads it as doubles and as floats. */
static void written_and_read(enum stored_type type, size_t count, const void *data, double *as_f64,
                             float *as_f32) {
    const struct stored array = {"a", type, 1, {count}, data, 0, 0};
    uint64_t length;
    size_t size;
    struct opening opening = {.bytes = stored_write(NULL, 0, &array, 1, &length, &size)};
    opening.size = size;
    const char *problem = opening_problem(&opening);
    cr_assert(!problem, "%s", problem);
    const struct stored *found = safetensors_find(&opening.file, "a");
    cr_assert(found && stored_is_numeric(found) && stored_count(found) == count);
    cr_expect(found->type == (int)type && found->dimensions == 1 && found->shape[0] == count);
    safetensors_read(&opening.file, found, STORED_F64, as_f64);
    safetensors_read(&opening.file, found, STORED_F32, as_f32);
    safetensors_close(&opening.file);
}

Test(safetensors, floats_keep_every_bit) {
    enum { COUNT = 10000 }; // more than one piece of the reader
    uint32_t *bits = calloc(COUNT, sizeof *bits);
    static const uint32_t edge[] = {0,          0x80000000, 1,          0x80000001, 0x007fffff,
                                    0x00800000, 0x3f800000, 0x7f7fffff, 0x7f800000, 0xff800000};
    for (uint32_t i = 0; i < COUNT; i++) bits[i] = 0x01000193 * i & 0xbf7fffff; // no nan
    memcpy(bits, edge, sizeof edge);
    double *as_f64 = calloc(COUNT, sizeof *as_f64);
    float *as_f32 = calloc(COUNT, sizeof *as_f32), value;
    written_and_read(STORED_F32, COUNT, bits, as_f64, as_f32);
    cr_expect(!memcmp(as_f32, bits, COUNT * sizeof *bits));
    for (int i = 0; i < COUNT; i++) {
        memcpy(&value, &bits[i], sizeof value);
        cr_assert(as_f64[i] == (double)value && !signbit(as_f64[i]) == !signbit(value), "%08x",
                  bits[i]);
    }
    static const uint32_t nan_bits[] = {0x7fc00000, 0x7f800001, 0xffffffff};
    written_and_read(STORED_F32, 3, nan_bits, as_f64, as_f32);
    for (int i = 0; i < 3; i++) cr_expect(isnan(as_f64[i]) && isnan(as_f32[i]));
    free(bits);
    free(as_f64);
    free(as_f32);
}

Test(safetensors, doubles_keep_every_bit) {
    static const uint64_t bits[] = {0,
                                    1ull << 63,
                                    1,
                                    0x000fffffffffffff,
                                    0x0010000000000000,
                                    0x3fd5555555555555,
                                    0x7fefffffffffffff,
                                    0x7ff0000000000000,
                                    0xfff0000000000000,
                                    0x7ff8000000000001};
    double as_f64[10];
    float as_f32[10];
    written_and_read(STORED_F64, 10, bits, as_f64, as_f32);
    cr_expect(!memcmp(as_f64, bits, sizeof bits));
    cr_expect(as_f32[5] == 1 / 3.0f && isinf(as_f32[6]) && isnan(as_f32[9]) && as_f32[3] == 0);
}

Test(safetensors, whole_numbers) {
    static const int64_t whole[] = {0, 1, -1, 16777217, 1ll << 53, -(1ll << 53), INT64_MIN};
    double as_f64[7];
    float as_f32[7];
    written_and_read(STORED_I64, 7, whole, as_f64, as_f32);
    for (int i = 0; i < 7; i++)
        cr_expect(as_f64[i] == (double)whole[i] && as_f32[i] == (float)whole[i]);
}

/* Every pattern of 16 bits: some known values, and from each value to the next one step of its
   binade. */
static void expect_halves(enum stored_type type, const uint16_t *bits, const double *want,
                          int known, int infinity, double smallest, int fraction_bits) {
    enum { ALL = 1 << 16, SIGN = 1 << 15 };
    uint16_t *all = calloc(ALL, sizeof *all);
    double *as_f64 = calloc(ALL, sizeof *as_f64);
    float *as_f32 = calloc(ALL, sizeof *as_f32);
    for (int i = 0; i < ALL; i++) all[i] = (uint16_t)i;
    written_and_read(type, ALL, all, as_f64, as_f32);
    for (int i = 0; i < known; i++)
        cr_expect(as_f64[bits[i]] == want[i], "%04x: %g, not %g", bits[i], as_f64[bits[i]],
                  want[i]);
    for (int i = 0; i < infinity; i++) {
        int exponent = i >> fraction_bits;
        double step = ldexp(smallest, exponent ? exponent - 1 : 0);
        if (i + 1 < infinity) cr_assert(as_f64[i + 1] - as_f64[i] == step, "%04x", i);
        cr_assert(as_f64[i | SIGN] == -as_f64[i] && signbit(as_f64[i | SIGN]), "%04x", i | SIGN);
        cr_assert((double)as_f32[i] == as_f64[i], "%04x", i);
    }
    cr_expect(as_f64[infinity] == HUGE_VAL && as_f64[infinity | SIGN] == -HUGE_VAL);
    for (int i = infinity + 1; i < SIGN; i++)
        cr_assert(isnan(as_f64[i]) && isnan(as_f32[i]) && isnan(as_f64[i | SIGN]), "%04x", i);
    free(all);
    free(as_f64);
    free(as_f32);
}

Test(safetensors, halves) {
    static const uint16_t bits[] = {0, 1, 0x3ff, 0x400, 0x3c00, 0x3555, 0x7bff, 0xc000};
    static const double want[] = {0, 0x1p-24, 0x3ffp-24, 0x1p-14, 1, 0.333251953125, 65504, -2};
    expect_halves(STORED_F16, bits, want, 8, 0x7c00, 0x1p-24, 10);
}

Test(safetensors, bfloats) {
    static const uint16_t bits[] = {0, 1, 0x80, 0x3f80, 0x4049, 0x7f7f, 0xc000};
    static const double want[] = {0, 0x1p-133, 0x1p-126, 1, 3.140625, 0x1.fep127, -2};
    expect_halves(STORED_BF16, bits, want, 7, 0x7f80, 0x1p-133, 7);
}
