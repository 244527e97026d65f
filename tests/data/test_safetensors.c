/* The safetensors format: what is written and what can be read. Files that each break one rule,
   with their messages, are in test_fuzz.c. */
#include "tests/command.h"
#include "tests/data/stored_file.h"
#include "tests/json.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(safetensors, .init = folder_enter, .fini = folder_leave);

/* The header's text, ended with a NUL for the functions of json.h. The caller frees it. */
static char *stored_header(const char *bytes, uint64_t length) {
    char *text = calloc(length + 1, 1);
    memcpy(text, bytes + 8, length);
    cr_expect(json_valid(text), "%s", text);
    return text;
}

Test(safetensors, a_file_can_be_read_back) {
    const float matrix[] = {1, -2.5f, 3e-8f, 4, 5, 6};
    const double vector[] = {1 / 3.0, -1e300, 0};
    const int64_t scalar = -1234567890123;
    const struct stored arrays[] = {{"a.weight", STORED_F32, 2, {2, 3}, matrix, 0, 0},
                                    {"b \"quoted\"", STORED_F64, 1, {3}, vector, 0, 0},
                                    {"count", STORED_I64, 0, {0}, &scalar, 0, 0}};
    const struct stored_text texts[] = {{"format", "pt"}, {"vocabulary", "10 \"32\" \\"}};
    uint64_t length;
    size_t size;
    char *bytes = stored_write(texts, 2, arrays, 3, &length, &size),
         *header = stored_header(bytes, length);

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
    const char *data = bytes + 8 + length;
    for (int i = 0; i < 3; data += want[i++].size) {
        const char *entry = json_member(header, want[i].name);
        cr_assert(entry, "no %s in %s", want[i].name, header);
        cr_expect(json_is(json_member(entry, "dtype"), want[i].type));
        const char *shape = strstr(entry, "\"shape\"");
        cr_expect(shape && !strncmp(shape, want[i].rest, strlen(want[i].rest)), "%s", entry);
        cr_expect(!memcmp(data, arrays[i].data, want[i].size), "%s", want[i].name);
    }
    cr_expect(data == bytes + size, "the arrays do not fill the file");
    free(header);
}

Test(safetensors, padding_at_every_length) {
    const float one = 1;
    for (int less = 0; less < 8; less++) {
        const struct stored_text text = {"t", &"xxxxxxxx"[less]};
        const struct stored array = {"a", STORED_F32, 1, {1}, &one, 0, 0};
        uint64_t length;
        size_t size;
        char *bytes = stored_write(&text, 1, &array, 1, &length, &size);
        free(stored_header(bytes, length));
        cr_expect(size == 8 + length + 4);
        cr_expect(strspn(bytes + 8 + length - 8, " ") <= 7);
        cr_expect(!memcmp(bytes + 8 + length, &one, 4));
    }
}

Test(safetensors, a_file_of_nothing) {
    uint64_t length;
    size_t size;
    char *bytes = stored_write(NULL, 0, NULL, 0, &length, &size);
    free(stored_header(bytes, length));
    cr_expect(size == 8 + length);
}

/* Opens a file of this header, preceded by its length, and `size` bytes of data. */
static struct safetensors opening_of(const char *header, const void *data, size_t size) {
    static char bytes[4096];
    size_t length = strlen(header);
    cr_assert(8 + length + size <= sizeof bytes);
    memset(bytes, 0, 8);
    bytes[0] = (char)(length & 255), bytes[1] = (char)(length >> 8);
    memcpy(bytes + 8, header, length);
    if (size) memcpy(bytes + 8 + length, data, size);
    struct opening opening = {.bytes = bytes, .size = 8 + length + size};
    const char *problem = opening_problem(&opening);
    cr_assert(!problem, "%s: %s", header, problem);
    return opening.file;
}

Test(safetensors, texts_and_names_come_back) {
    static const char *const texts[][2] = {{"\" \\ / \b \f \n \r \t \x01 \x1f \x7f", ""},
                                           {"", "\u00e9 \u20ac \U0001f600 \u2028"},
                                           {"latin-1 \xe9", "\xe9 cut \xe2\x82"}};
    static const char *const replaced[2] = {"latin-1 \ufffd", "\ufffd cut \ufffd\ufffd"};
    struct stored_text list[3];
    for (int i = 0; i < 3; i++) list[i] = (struct stored_text){texts[i][0], texts[i][1]};
    const float one = 1;
    const struct stored array = {"a\"\n\U0001f600", STORED_F32, 0, {0}, &one, 0, 0};
    uint64_t length;
    size_t size;
    struct opening opening = {.bytes = stored_write(list, 3, &array, 1, &length, &size)};
    opening.size = size;
    const char *problem = opening_problem(&opening);
    cr_assert(!problem, "%s", problem);
    for (int i = 0; i < 3; i++) {
        const char *const *want = i < 2 ? texts[i] : replaced;
        const char *text = safetensors_text(&opening.file, want[0]);
        cr_assert(text, "no %s", want[0]);
        cr_expect_str_eq(text, want[1]);
    }
    cr_expect(safetensors_find(&opening.file, array.name) && opening.file.header_checked);
    cr_expect(!safetensors_text(&opening.file, "x") && !safetensors_find(&opening.file, "x"));
    safetensors_close(&opening.file);
}

Test(safetensors, arrays_by_offset_whatever_their_order) {
    const float data[] = {1, 2, 3};
    struct safetensors file =
        opening_of("{\"c\":{\"data_offsets\":[8,12],\"shape\":[1,1],\"dtype\":\"F32\"},"
                   "\"empty\":{\"dtype\":\"I64\",\"shape\":[3,0],\"data_offsets\":[8,8]},"
                   "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}   ",
                   data, sizeof data);
    cr_assert(file.array_count == 3 && !file.text_count && !file.header_checked);
    cr_expect_str_eq(file.arrays[0].name, "a");
    cr_expect_str_eq(file.arrays[1].name, "empty");
    const struct stored *c = safetensors_find(&file, "c"),
                        *empty = safetensors_find(&file, "empty");
    float value[2] = {0, -7};
    safetensors_read(&file, c, STORED_F32, value);
    cr_expect(c->dimensions == 2 && value[0] == 3 && value[1] == -7);
    safetensors_read(&file, empty, STORED_F32, value + 1);
    cr_expect(stored_count(empty) == 0 && empty->shape[0] == 3 && value[1] == -7);
    safetensors_close(&file);
}

Test(safetensors, types_that_are_no_numbers_here) {
    static const char *const names[] = {"BOOL", "U8",  "I8",  "U16",     "I16",    "U32",
                                        "I32",  "U64", "C64", "F8_E4M3", "F8_E5M2"};
    static const size_t sizes[] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 1, 1};
    for (int i = 0; i < 11; i++) {
        char header[128];
        snprintf(header, sizeof header,
                 "{\"a\":{\"dtype\":\"%s\",\"shape\":[2],\"data_offsets\":[0,%zu]}}", names[i],
                 2 * sizes[i]);
        struct safetensors file = opening_of(header, "0123456789abcdef", 2 * sizes[i]);
        cr_expect(!stored_is_numeric(file.arrays));
        cr_expect_str_eq(stored_type_name(file.arrays), names[i]);
        safetensors_close(&file);
    }
}
