/* The safetensors format: what is written and what can be read; numbers of every type, and every
   pattern of 16 bits. Files that each break one rule, with their messages, are in
   tests/fuzz/cases.c. */
#include "tests/command.h"
#include "tests/runs.h"
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

TestSuite(safetensors, .init = folder_enter, .fini = folder_leave);

Test(safetensors, a_file_can_be_read_back) {
    const float matrix[] = {1, -2.5f, 3e-8f, 4, 5, 6};
    const double vector[] = {1 / 3.0, -1e300, 0};
    const int64_t scalar = -1234567890123;
    const struct stored arrays[] = {{"a.weight", STORED_F32, 2, {2, 3}, matrix, 0, 0},
                                    {"b \"quoted\"", STORED_F64, 1, {3}, vector, 0, 0},
                                    {"count", STORED_I64, 0, {0}, &scalar, 0, 0}};
    const struct stored_text texts[] = {{"format", "pt"}, {"vocabulary", "10 \"32\" \\"}};
    uint64_t length = 0;
    size_t size;
    stored_write("model", texts, 2, arrays, 3);
    const char *bytes = file_text("model", &size), *header = bytes + 8;
    for (int i = 0; i < 8; i++) length |= (uint64_t)(unsigned char)bytes[i] << 8 * i;
    cr_assert(length % 8 == 0 && length <= size - 8 && *header == '{');

    const char *about = json_member(header, "__metadata__");
    cr_expect(json_is(json_member(about, "format"), "pt"));
    cr_expect(json_is(json_member(about, "vocabulary"), "10 \\\"32\\\" \\\\"));
    static const struct {
        const char *name, *type, *rest;
        size_t size;
    } want[] = {
        {"a.weight", "F32", "\"shape\":[2,3],\"data_offsets\":[0,24]}", sizeof matrix},
        {"b \\\"quoted\\\"", "F64", "\"shape\":[3],\"data_offsets\":[24,48]}", sizeof vector},
        {"count", "I64", "\"shape\":[],\"data_offsets\":[48,56]}", sizeof scalar}};
    const char *data = header + length;
    for (int i = 0; i < 3; data += want[i++].size) {
        const char *entry = json_member(header, want[i].name);
        cr_assert(entry, "no %s in %s", want[i].name, header);
        cr_expect(json_is(json_member(entry, "dtype"), want[i].type));
        const char *shape = strstr(entry, "\"shape\"");
        cr_expect(shape && !strncmp(shape, want[i].rest, strlen(want[i].rest)), "%s", entry);
        cr_expect(!memcmp(data, arrays[i].data, want[i].size), "%s", want[i].name);
    }
    cr_expect(data == bytes + size, "the arrays do not fill the file");
}

Test(safetensors, texts_and_names_come_back) {
    static const struct stored_text list[] = {{"\" \\ / \n \x01 \x7f", ""},
                                              {"", "\u00e9 \u20ac \U0001f600 \u2028"},
                                              {"latin-1 \xe9", "\xe9 cut \xe2\x82"}};
    static const struct stored_text replaced = {"latin-1 \ufffd", "\ufffd cut \ufffd\ufffd"};
    const float one = 1;
    const struct stored array = {"a\"\n\U0001f600", STORED_F32, 0, {0}, &one, 0, 0};
    struct safetensors file;
    stored_write("model", list, 3, &array, 1);
    safetensors_open(&file, "model");
    for (int i = 0; i < 3; i++) {
        const struct stored_text *want = i < 2 ? &list[i] : &replaced;
        const char *text = safetensors_text(&file, want->name);
        cr_assert(text, "no %s", want->name);
        cr_expect_str_eq(text, want->text);
    }
    cr_expect(safetensors_find(&file, array.name) && file.header_checked);
    cr_expect(!safetensors_text(&file, "x") && !safetensors_find(&file, "x"));
    safetensors_close(&file);
}

Test(safetensors, arrays_by_name_whatever_their_order) {
    static const char header[] =
        "{\"c\":{\"data_offsets\":[8,12],\"shape\":[1,1],\"dtype\":\"F32\"},"
        "\"empty\":{\"dtype\":\"I64\",\"shape\":[3,0],\"data_offsets\":[8,8]},"
        "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}   ";
    const float data[] = {1, 2, 3};
    char bytes[8 + sizeof header - 1 + sizeof data] = {(char)(sizeof header - 1)};
    memcpy(bytes + 8, header, sizeof header - 1);
    memcpy(bytes + sizeof bytes - sizeof data, data, sizeof data);
    struct safetensors file;
    file_put("model", bytes, sizeof bytes);
    safetensors_open(&file, "model");
    cr_assert(file.array_count == 3 && !file.text_count && !file.header_checked);
    cr_expect_str_eq(file.arrays[0].name, "a");
    cr_expect_str_eq(file.arrays[2].name, "empty");
    const struct stored *c = safetensors_find(&file, "c"),
                        *empty = safetensors_find(&file, "empty");
    float value[2] = {0, -7};
    safetensors_read(&file, c, STORED_F32, value);
    cr_expect(c->dimensions == 2 && value[0] == 3 && value[1] == -7);
    safetensors_read(&file, empty, STORED_F32, value + 1);
    cr_expect(stored_count(empty) == 0 && empty->shape[0] == 3 && value[1] == -7);
    safetensors_close(&file);
}

/* Writes one array, and reads it as doubles and as floats. */
static void written_and_read(enum stored_type type, size_t count, const void *data, double *as_f64,
                             float *as_f32) {
    const struct stored array = {"a", type, 1, {count}, data, 0, 0};
    struct safetensors file;
    stored_write("model", NULL, 0, &array, 1);
    safetensors_open(&file, "model");
    const struct stored *found = safetensors_find(&file, "a");
    cr_assert(found && stored_count(found) == count);
    cr_expect(found->type == (int)type && found->dimensions == 1 && found->shape[0] == count);
    safetensors_read(&file, found, STORED_F64, as_f64);
    safetensors_read(&file, found, STORED_F32, as_f32);
    safetensors_close(&file);
}

Test(safetensors, wide_numbers_keep_every_bit) {
    enum { COUNT = 10000 };
    static uint32_t bits[COUNT] = {0, 0x80000000, 1, 0x007fffff, 0x7f7fffff, 0x7f800000};
    static const double doubles[] = {1 / 3.0, 0x1p-1074, 1e300, NAN};
    static const int64_t integers[] = {-1, 16777217, 1ll << 53, INT64_MIN};
    static double as_f64[COUNT];
    static float as_f32[COUNT];
    float value;
    for (uint32_t i = 6; i < COUNT; i++) bits[i] = 0x01000193 * i & 0xbf7fffff; // no nan
    written_and_read(STORED_F32, COUNT, bits, as_f64, as_f32);
    cr_expect(!memcmp(as_f32, bits, sizeof bits));
    for (int i = 0; i < COUNT; i++) {
        memcpy(&value, &bits[i], sizeof value);
        cr_assert(as_f64[i] == (double)value && !signbit(as_f64[i]) == !signbit(value), "%08x",
                  bits[i]);
    }
    written_and_read(STORED_F64, 4, doubles, as_f64, as_f32);
    cr_expect(!memcmp(as_f64, doubles, sizeof doubles));
    cr_expect(as_f32[0] == 1 / 3.0f && as_f32[1] == 0 && isinf(as_f32[2]) && isnan(as_f32[3]));
    written_and_read(STORED_I64, 4, integers, as_f64, as_f32);
    for (int i = 0; i < 4; i++)
        cr_expect(as_f64[i] == (double)integers[i] && as_f32[i] == (float)integers[i]);
}
