/* Models of other programs: the types of their numbers, and files as other writers lay them out. */
#include "data/die.h"
#include "tests/cli/foreign.h"
#include "tests/command.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The value of half-precision bits: exponent 0 means 2^-15 where a float's means 2^-127. */
static float half_of(uint32_t bits) {
    uint32_t sign = bits >> 15 << 31, exponent = bits >> 10 & 31, fraction = bits & 1023;
    if (exponent == 31) return float_of(sign | 0x7f800000 | fraction << 13);
    if (exponent) return float_of(sign | (exponent + 127 - 15) << 23 | fraction << 13);
    return (sign ? -1.0F : 1.0F) * (float)fraction * 0x1p-24F;
}

Test(exchange, every_number_of_16_bits) {
    enum { COUNT = 1 << 16 };
    uint16_t *bits = malloc(COUNT * sizeof *bits);
    float *got = malloc(COUNT * sizeof *got);
    double *wide = malloc(COUNT * sizeof *wide);
    for (uint32_t i = 0; i < COUNT; i++) bits[i] = (uint16_t)i;
    for (int type = STORED_F16; type <= STORED_BF16; type++) {
        struct stored array = {
            .name = "all", .type = type, .dimensions = 1, .shape = {COUNT}, .data = bits};
        FILE *stream = fopen("all.st", "wb");
        safetensors_write(stream, NULL, 0, &array, 1);
        fclose(stream);
        struct safetensors file;
        safetensors_open(&file, "all.st");
        safetensors_read(&file, &file.arrays[0], STORED_F32, got);
        safetensors_read(&file, &file.arrays[0], STORED_F64, wide);
        safetensors_close(&file);
        size_t wrong = 0;
        for (uint32_t i = 0; i < COUNT; i++) {
            float want = type == STORED_F16 ? half_of(i) : float_of(i << 16);
            bool same = isnan(want) ? isnan(got[i]) && isnan(wide[i])
                                    : bits_of(got[i]) == bits_of(want) && wide[i] == (double)want;
            wrong += !same;
        }
        cr_expect(wrong == 0, "%zu of type %d", wrong, type);
    }
    free(bits);
    free(got);
    free(wide);
}

/* The nearest half-precision number towards 0. */
static uint16_t half_below(float value) {
    uint32_t bits = bits_of(value), exponent = bits >> 23 & 255, sign = bits >> 31 << 15;
    cr_assert(exponent < 127 + 15, "too large a weight for the test");
    if (exponent < 127 - 14) return (uint16_t)(sign | (uint32_t)(fabsf(value) * 0x1p24F));
    return (uint16_t)(sign | (exponent - 127 + 15) << 10 | (bits >> 13 & 1023));
}

/* Rounded weights give the same results, whether the file holds them in 16, 32 or 64 bits. */
Test(exchange, half_and_double_precision) {
    static uint16_t half[FOREIGN_ARRAYS][FOREIGN_VALUES];
    static double wide[FOREIGN_ARRAYS][FOREIGN_VALUES];
    char rounded[2][256], *before;
    for (int type = STORED_F16; type <= STORED_BF16; type++) {
        for (size_t i = 0; i < foreign.count; i++)
            for (size_t k = 0; k < stored_count(&foreign.array[i]); k++) {
                float *value = &foreign.value[i][k];
                half[i][k] =
                    type == STORED_F16 ? half_below(*value) : (uint16_t)(bits_of(*value) >> 16);
                *value =
                    type == STORED_F16 ? half_of(half[i][k]) : float_of((uint32_t)half[i][k] << 16);
                wide[i][k] = (double)*value;
            }
        foreign_put("other.st");
        char *want =
            strcpy(rounded[type - STORED_F16], foreign_output("--evaluate=other.st" MEASURE, SAID));
        for (size_t i = 0; i < foreign.count; i++) {
            foreign.array[i].type = type;
            foreign.array[i].data = half[i];
        }
        foreign_put("half.st");
        cr_expect_str_eq(foreign_output("--evaluate=half.st" MEASURE, SAID), want);
        for (size_t i = 0; i < foreign.count; i++) {
            foreign.array[i].type = STORED_F64;
            foreign.array[i].data = wide[i];
        }
        foreign_put("wide.st");
        cr_expect_str_eq(foreign_output("--evaluate=wide.st" MEASURE, SAID), want);
        for (size_t i = 0; i < foreign.count; i++) {
            foreign.array[i].type = STORED_F32;
            foreign.array[i].data = foreign.value[i];
        }
    }
    before = foreign_output("--evaluate=out" MEASURE, "");
    cr_expect_str_neq(rounded[0], before, "rounding makes no difference");
    cr_expect_str_neq(rounded[1], rounded[0], "rounding makes no difference");
}

/* A file as the format allows it but safetensors_write() never writes it: blanks, escapes, members
   and arrays in another order than the numbers, the texts last, no padding, no checksum. */
static void put_otherwise(const char *path) {
    size_t length, at = 0, begin[FOREIGN_ARRAYS];
    char *header;
    FILE *json = open_memstream(&header, &length), *file = fopen(path, "wb");
    for (size_t i = foreign.count; i-- > 0;) {
        begin[i] = at;
        at += 4 * stored_count(&foreign.array[i]);
    }
    fputc('{', json);
    for (size_t i = 0; i < foreign.count; i++) {
        const struct stored *array = &foreign.array[i];
        fprintf(json, "\n \"\\u00%02x%s\" : { \"data_offsets\": [%zu , %zu], \"shape\": [",
                *array->name, array->name + 1, begin[i], begin[i] + 4 * stored_count(array));
        for (int d = 0; d < array->dimensions; d++)
            fprintf(json, "%s %zu", d ? "," : "", array->shape[d]);
        fprintf(json, "]\t, \"dtype\":\"F32\"},");
    }
    fprintf(json, "\"__metadata__\": {\"n-head\": \"\\u0032\", \"made by\": \"\\ud83d\\ude01\"}}");
    fclose(json);
    while (length % 8 == 0) header[length - 1] = ' ', header[length++] = '}';
    for (int i = 0; i < 8; i++) fputc((int)(length >> 8 * i & 255), file);
    fwrite(header, 1, length, file);
    for (size_t i = foreign.count; i-- > 0;)
        fwrite(foreign.value[i], 4, stored_count(&foreign.array[i]), file);
    cr_assert(!fclose(file));
    free(header);
}

Test(exchange, a_file_of_another_writer) {
    put_otherwise("other.st");
    foreign_expect_same("--vocabulary=text.txt");
}

/* In a run's folder, a header without a checksum could be a damaged header of the run. */
Test(exchange, a_folder_holds_runs) {
    cr_assert(!mkdir("folder", 0777));
    put_otherwise("folder/model.safetensors");
    train_refuses(STATUS_MACHINE, "its header has no checksum, so a run did not write it",
                  "--generate=folder --vocabulary=text.txt");
    struct ending ending =
        train("--generate=folder/model.safetensors --vocabulary=text.txt --num-chars=3");
    cr_expect(ending.status == 0 && strlen(ending.out) == 4, "%s", ending.err);
}
