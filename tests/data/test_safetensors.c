/* The safetensors format: what is written, what can be read, and that damage is seen. Files that
   break a rule each, with their messages, are in test_fuzz.c. */
#include "data/die.h"
#include "data/files/safetensors.h"
#include "tests/command.h"
#include "tests/death.h"
#include "tests/json.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(safetensors, .init = folder_enter, .fini = folder_leave);

/* Header and bytes of a file written from these. */
static char *written(const struct stored_text *texts, size_t text_count,
                     const struct stored *arrays, size_t array_count, uint64_t *header,
                     size_t *size) {
    FILE *file = fopen("model", "wb");
    safetensors_write(file, texts, text_count, arrays, array_count);
    cr_assert(fclose(file) == 0);
    char *bytes = file_text("model", size);
    cr_assert(*size >= 8);
    *header = 0;
    for (int i = 0; i < 8; i++) *header |= (uint64_t)(unsigned char)bytes[i] << 8 * i;
    cr_assert(*header <= *size - 8, "the header is longer than the file");
    cr_expect(*header % 8 == 0 && bytes[8] == '{');
    return bytes;
}

/* The header's text with a 0 behind, for the functions of json.h; the caller frees it. */
static char *header_of(const char *bytes, uint64_t length) {
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
    char *bytes = written(texts, 2, arrays, 3, &length, &size), *header = header_of(bytes, length);

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
        char *bytes = written(&text, 1, &array, 1, &length, &size);
        free(header_of(bytes, length));
        cr_expect(size == 8 + length + 4);
        cr_expect(strspn(bytes + 8 + length - 8, " ") <= 7);
        cr_expect(!memcmp(bytes + 8 + length, &one, 4));
    }
}

Test(safetensors, a_file_of_nothing) {
    uint64_t length;
    size_t size;
    char *bytes = written(NULL, 0, NULL, 0, &length, &size);
    free(header_of(bytes, length));
    cr_expect(size == 8 + length);
}

/* A file in memory, open. */
struct opening {
    const char *bytes;
    size_t size;
    struct safetensors file;
};

static void open_bytes(void *context) {
    struct opening *opening = context;
    FILE *stream = fmemopen((char *)opening->bytes, opening->size, "rb");
    cr_assert(stream, "no stream");
    safetensors_open_stream(&opening->file, "it", stream);
}

/* Opens it, or says why it cannot be; then all is closed. */
static const char *problem_of(struct opening *opening) {
    const struct death *death = caught(open_bytes, opening);
    if (!death->status) return NULL;
    cr_expect(death->status == STATUS_MACHINE, "status %d: %s", death->status, death->line);
    safetensors_close(&opening->file);
    return death->line;
}

/* Opens a header, its length before it, and `size` bytes of data behind it. */
static struct safetensors opened(const char *header, const void *data, size_t size) {
    static char bytes[4096];
    size_t length = strlen(header);
    cr_assert(8 + length + size <= sizeof bytes);
    memset(bytes, 0, 8);
    bytes[0] = (char)(length & 255), bytes[1] = (char)(length >> 8);
    memcpy(bytes + 8, header, length);
    if (size) memcpy(bytes + 8 + length, data, size);
    struct opening opening = {.bytes = bytes, .size = 8 + length + size};
    const char *problem = problem_of(&opening);
    cr_assert(!problem, "%s: %s", header, problem);
    return opening.file;
}

/* Writes one array, and reads it as doubles and as floats. */
static void written_and_read(enum stored_type type, size_t count, const void *data, double *as_f64,
                             float *as_f32) {
    const struct stored array = {"a", type, 1, {count}, data, 0, 0};
    uint64_t length;
    size_t size;
    struct opening opening = {.bytes = written(NULL, 0, &array, 1, &length, &size)};
    opening.size = size;
    const char *problem = problem_of(&opening);
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

/* Every pattern of 16 bits: known ones, and from each to the next one step of its binade. */
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
    struct opening opening = {.bytes = written(list, 3, &array, 1, &length, &size)};
    opening.size = size;
    const char *problem = problem_of(&opening);
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
        opened("{\"c\":{\"data_offsets\":[8,12],\"shape\":[1,1],\"dtype\":\"F32\"},"
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
        struct safetensors file = opened(header, "0123456789abcdef", 2 * sizes[i]);
        cr_expect(!stored_is_numeric(file.arrays));
        cr_expect_str_eq(stored_type_name(file.arrays), names[i]);
        safetensors_close(&file);
    }
}

enum { MANY = 100000 }; // more than a stream reads ahead
static float many[MANY];

static void read_many(void *context) {
    struct safetensors *file = context;
    safetensors_read(file, file->arrays, STORED_F32, many);
}

Test(safetensors, a_file_that_gets_shorter_while_it_is_open) {
    const struct stored array = {"a", STORED_F32, 1, {MANY}, many, 0, 0};
    uint64_t length;
    size_t size;
    written(NULL, 0, &array, 1, &length, &size);
    struct safetensors file;
    safetensors_open(&file, "model");
    cr_assert(!truncate("model", (off_t)size - 1));
    const struct death *death = caught(read_many, &file);
    cr_expect_str_eq(death->line, "model: not a valid safetensors file: it is cut short");
    safetensors_close(&file);
}

static void open_path(void *path) {
    struct safetensors file;
    safetensors_open(&file, path);
}

static void expect_refused(const char *path, const char *line) {
    const struct death *death = caught(open_path, (void *)path);
    cr_expect(death->status == STATUS_MACHINE);
    cr_expect_str_eq(death->line, line);
}

Test(safetensors, what_is_no_file) {
    cr_assert(!mkdir("folder", 0777) && !mkfifo("fifo", 0666) && !symlink("loop", "loop"));
    expect_refused("missing", "missing: No such file or directory");
    expect_refused("folder", "folder: Is a directory");
    expect_refused("fifo", "fifo: is not a regular file");
    expect_refused("/dev/null", "/dev/null: is not a regular file");
    expect_refused("loop", "loop: Too many levels of symbolic links");
}

#if defined(__SANITIZE_ADDRESS__)
#    define LIMITED false // the sanitizer's own memory would not fit
#elif defined(__has_feature)
#    if __has_feature(address_sanitizer)
#        define LIMITED false
#    endif
#endif
#ifndef LIMITED
#    define LIMITED true
#endif

/* Lengths and shapes that promise more than there is, read where 99 MiB are too much. */
static void open_promises(void *unused) {
    (void)unused;
    unsigned long pages;
    FILE *own = fopen("/proc/self/statm", "r");
    if (!own || fscanf(own, "%lu", &pages) != 1) die(STATUS_MACHINE, "no /proc/self/statm");
    fclose(own);
    rlim_t most = pages * (size_t)sysconf(_SC_PAGESIZE) + (16 << 20);
    if (setrlimit(RLIMIT_AS, &(struct rlimit){most, most})) die(STATUS_MACHINE, "no limit");
    char *volatile memory = malloc(99 << 20);
    if (memory) die(STATUS_MACHINE, "the limit does not limit");
    static const struct {
        uint64_t length;
        const char *header, *problem;
    } promise[] = {{100000001, "{}", "its header would have more than 100000000 bytes"},
                   {1ull << 62, "{}", "its header would have more than 100000000 bytes"},
                   {UINT64_MAX, "{}", "its header would have more than 100000000 bytes"},
                   {100000000, "{}", "it is cut short"},
                   {0,
                    "{\"a\":{\"dtype\":\"F32\",\"shape\":[1000000000],"
                    "\"data_offsets\":[0,4000000000]}}",
                    "it is cut short"}};
    for (size_t i = 0; i < sizeof promise / sizeof *promise; i++) {
        char bytes[256], line[256];
        size_t header = strlen(promise[i].header);
        uint64_t length = promise[i].length ? promise[i].length : header;
        for (int b = 0; b < 8; b++) bytes[b] = (char)(length >> 8 * b & 255);
        memcpy(bytes + 8, promise[i].header, header);
        struct opening opening = {.bytes = bytes, .size = 8 + header};
        const char *problem = problem_of(&opening);
        snprintf(line, sizeof line, "it: not a valid safetensors file: %s", promise[i].problem);
        if (!problem || strcmp(problem, line) != 0)
            die(STATUS_MACHINE, "%s, not %s", problem ? problem : "none", line);
    }
}

Test(safetensors, nothing_is_allocated_on_a_promise) {
    if (!LIMITED || !file_there("/proc/self/statm")) cr_skip_test("memory cannot be limited here");
    struct ending ending = call(open_promises, NULL);
    cr_expect(ending.status == 0, "%s", ending.err);
}

Test(safetensors, the_longest_header) {
    const size_t longest = 100000000;
    char *bytes = malloc(8 + longest + 1);
    cr_assert(bytes);
    memset(bytes + 8, ' ', longest + 1);
    memcpy(bytes + 8, "{}", 2);
    for (size_t length = longest; length <= longest + 1; length++) {
        for (int i = 0; i < 8; i++) bytes[i] = (char)(length >> 8 * i & 255);
        struct opening opening = {.bytes = bytes, .size = 8 + length};
        const char *problem = problem_of(&opening);
        cr_expect(!problem == (length == longest), "%zu bytes: %s", length, problem);
        if (!problem) safetensors_close(&opening.file);
    }
    free(bytes);
}

/* --- a model's file, damaged ----------------------------------------------------------------- */

/* The model and the checkpoint of a run whose vocabulary is small. */
static char *trained(const char *name, size_t *size, size_t *header) {
    char path[64];
    if (!file_there("run")) {
        file_put("text.txt", "abababababababababababababababababababababababab", 48);
        struct ending ending = train(TINY "--norm=bn --n-embd=4 --quiet --out=run text.txt");
        cr_assert(ending.status == 0, "%s", ending.err);
    }
    snprintf(path, sizeof path, "run/%s.safetensors", name);
    char *bytes = file_text(path, size);
    cr_assert(bytes && *size > 8);
    *header = (unsigned char)bytes[0] | (size_t)(unsigned char)bytes[1] << 8;
    struct opening opening = {.bytes = bytes, .size = *size};
    const char *problem = problem_of(&opening);
    cr_assert(!problem && opening.file.header_checked, "%s", problem);
    safetensors_close(&opening.file);
    return bytes;
}

Test(safetensors, a_model_cut_short_anywhere) {
    size_t size, header;
    const char *bytes = trained("model", &size, &header);
    for (size_t length = 1; length < size; length++) { // fmemopen() has no empty file
        char *part = malloc(length); // so that a sanitizer sees what lies behind it
        memcpy(part, bytes, length);
        struct opening opening = {.bytes = part, .size = length};
        const char *problem = problem_of(&opening);
        cr_assert(problem, "%zu bytes of %zu are enough", length, size);
        cr_assert_str_eq(problem,
                         length < 8 ? "it: not a valid safetensors file: it is shorter than 8 bytes"
                                    : "it: not a valid safetensors file: it is cut short");
        free(part);
    }
    static const char *const uses[] = {"--generate=run", "--evaluate=run"};
    for (size_t length = 0; length < size; length += size / 7) {
        file_put("run/model.safetensors", bytes, length);
        for (int i = 0; i < 2; i++) {
            struct ending ending = train("%s", uses[i]);
            expect_refusal(&ending, STATUS_MACHINE,
                           "train: run/model.safetensors: not a valid safetensors file: it is ");
        }
    }
}

Test(safetensors, a_checkpoint_cut_short) {
    size_t size, header;
    const char *bytes = trained("checkpoint", &size, &header);
    const char *log = file_text("run/log.csv", NULL);
    for (size_t length = 0; length < size; length += size / 7) {
        file_put("run/checkpoint.safetensors", bytes, length);
        struct ending ending = train("--resume=run");
        expect_refusal(&ending, STATUS_MACHINE,
                       "train: run/checkpoint.safetensors: not a valid safetensors file: it is ");
    }
    cr_expect_str_eq(file_text("run/log.csv", NULL), log);
    cr_expect(file_there("run/summary.json"));
}

/* Every bit of the length and of the header: one in the name of the seal takes the seal away, any
   other is seen. */
Test(safetensors, a_bit_of_the_header_flipped) {
    size_t size, header;
    char *bytes = trained("model", &size, &header);
    const char *name = strstr(bytes + 8, "header_crc32");
    cr_assert(name);
    size_t first = (size_t)(name - bytes), unsealed = 0;
    for (size_t bit = 0; bit < 8 * (8 + header); bit++) {
        size_t at = bit / 8;
        bytes[at] = (char)(bytes[at] ^ 1 << bit % 8);
        struct opening opening = {.bytes = bytes, .size = size};
        const char *problem = problem_of(&opening);
        if (!problem) {
            bool of_name = at >= first && at < first + strlen("header_crc32");
            cr_assert(of_name && !opening.file.header_checked, "byte %zu, bit %zu", at, bit % 8);
            safetensors_close(&opening.file);
            if (unsealed++ % 20 == 0) {
                file_put("run/model.safetensors", bytes, size);
                struct ending ending = train("--generate=run");
                expect_refusal(&ending, STATUS_MACHINE, "its header has no checksum");
            }
        }
        bytes[at] = (char)(bytes[at] ^ 1 << bit % 8);
    }
    cr_expect(unsealed > 50, "only %zu", unsealed);
}

Test(safetensors, a_checkpoint_without_its_seal) {
    size_t size, header;
    char *bytes = trained("checkpoint", &size, &header);
    char *name = strstr(bytes + 8, "header_crc32");
    name[11] ^= 1;
    file_put("run/checkpoint.safetensors", bytes, size);
    struct ending ending = train("--resume=run");
    expect_refusal(&ending, STATUS_MACHINE,
                   "run/checkpoint.safetensors: its header has no checksum");
    name[11] ^= 1;
    name[20] ^= 1; // a digit
    file_put("run/checkpoint.safetensors", bytes, size);
    ending = train("--resume=run");
    expect_refusal(
        &ending, STATUS_MACHINE,
        "run/checkpoint.safetensors: not a valid safetensors file: its header was changed");
}
