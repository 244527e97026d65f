/* The characters that a model knows: as text in its file, by name in messages, and in its
   output. */
#include "data/text/vocabulary.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct vocabulary vocabulary_of(int level, const char *text) {
    struct vocabulary vocabulary;
    cr_assert(vocabulary_parse(&vocabulary, level, text), "%s: is none", text);
    return vocabulary;
}

static void expect_vocabulary(int level, const char *text, size_t V, uint32_t last) {
    struct vocabulary vocabulary = vocabulary_of(level, text);
    cr_expect(vocabulary.level == level && vocabulary.V == V, "%s: %zu", text, vocabulary.V);
    cr_expect(vocabulary.symbols[V - 1] == last, "%s: %u", text, vocabulary.symbols[V - 1]);
    char *back = vocabulary_text(&vocabulary);
    cr_expect_str_eq(back, text);
    free(back);
    vocabulary_free(&vocabulary);
    cr_expect(!vocabulary.symbols && !vocabulary.V);
}

Test(vocabulary, texts_that_are_one) {
    expect_vocabulary(LEVEL_CHAR, "0", 1, 0);
    expect_vocabulary(LEVEL_CHAR, "10 32 97", 3, 97);
    expect_vocabulary(LEVEL_CHAR, "55295 57344 1114111", 3, 1114111);
    expect_vocabulary(LEVEL_BYTE, "0 10 255", 3, 255);
    char every[2048] = "0";
    for (int i = 1; i < 256; i++) sprintf(every + strlen(every), " %d", i);
    expect_vocabulary(LEVEL_BYTE, every, 256, 255);
}

Test(vocabulary, texts_that_are_none) {
    static const char *const texts[] = {
        "",     " ",    "1 ",      " 1",    "1  2",  "1,2",        "1\n2",
        "2 1",  "1 1",  "-1",      "+1",    "x",     "1x",         "1 x",
        "0x20", "1.5",  "1114112", "55296", "57343", "4294967297", "99999999999999999999",
        "1 2-", "1 2 ", "\xd9\xa1" /* an Arabic digit */};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct vocabulary vocabulary;
        cr_expect(!vocabulary_parse(&vocabulary, LEVEL_CHAR, texts[i]), "\"%s\" is one", texts[i]);
        cr_expect(!vocabulary.symbols && !vocabulary.V); // nothing to free
        cr_expect(!vocabulary_parse(&vocabulary, LEVEL_BYTE, texts[i]), "\"%s\" is one", texts[i]);
    }
    struct vocabulary bytes;
    cr_expect(!vocabulary_parse(&bytes, LEVEL_BYTE, "10 256"));
}

Test(vocabulary, ids) {
    struct vocabulary vocabulary = vocabulary_of(LEVEL_CHAR, "10 32 233 128512");
    static const uint32_t symbols[] = {10, 32, 233, 128512}, strange[] = {0, 11, 232, 128513, ~0u};
    for (int i = 0; i < 4; i++) cr_expect(vocabulary_id(&vocabulary, symbols[i]) == i);
    for (int i = 0; i < 5; i++) cr_expect(vocabulary_id(&vocabulary, strange[i]) == -1);
    vocabulary_free(&vocabulary);
}

Test(vocabulary, names) {
    cr_expect_str_eq(vocabulary_name(LEVEL_CHAR, 0xe9), "U+00E9 (\u00e9)");
    cr_expect_str_eq(vocabulary_name(LEVEL_CHAR, 'a'), "U+0061 (a)");
    cr_expect_str_eq(vocabulary_name(LEVEL_CHAR, 0x1f600), "U+1F600 (\U0001f600)");
    cr_expect_str_eq(vocabulary_name(LEVEL_CHAR, '\n'), "U+000A");
    cr_expect_str_eq(vocabulary_name(LEVEL_CHAR, ' '), "U+0020");
    cr_expect_str_eq(vocabulary_name(LEVEL_CHAR, 0x7f), "U+007F");
    cr_expect_str_eq(vocabulary_name(LEVEL_CHAR, 0x9b), "U+009B"); // it would begin a command
    cr_expect_str_eq(vocabulary_name(LEVEL_BYTE, 'a'), "byte 0x61");
    cr_expect_str_eq(vocabulary_name(LEVEL_BYTE, 0xff), "byte 0xff");
}

/* What becomes of the bytes (or, at LEVEL_CHAR, the code points) of `from`, each of which is its
   own id. The caller frees it. */
static char *put(int level, const uint32_t *from, int count) {
    uint32_t identity[256];
    for (uint32_t i = 0; i < 256; i++) identity[i] = i;
    struct vocabulary vocabulary = {level, 256, identity};
    char *text = NULL;
    size_t size = 0;
    struct writer writer = {.vocabulary = &vocabulary, .file = open_memstream(&text, &size)};
    for (int i = 0; i < count; i++) writer_put(&writer, (int32_t)from[i]);
    writer_end(&writer);
    cr_expect(!writer.count, "%d bytes wait", writer.count);
    fclose(writer.file);
    return text;
}

/* U+FFFD replaces each byte that is not part of a character. */
Test(vocabulary, bytes_are_written_as_utf_8) {
    static const struct {
        const char *bytes, *want;
    } some[] = {{"plain", "plain"},
                {"\u00e9\u20ac\U0001f600", "\u00e9\u20ac\U0001f600"},
                {"a\xff"
                 "b",
                 "a\ufffd"
                 "b"},
                {"\x80\x80", "\ufffd\ufffd"},
                {"\xc3", "\ufffd"}, // at the end, incomplete
                {"a\xe2\x82", "a\ufffd\ufffd"},
                {"\xf0\x9f\x98", "\ufffd\ufffd\ufffd"},
                {"\xe2\x82z", "\ufffd\ufffdz"}, // broken off
                {"\xe2\u00e9", "\ufffd\u00e9"},
                {"\xf0\x9f\xe2\x82\xac", "\ufffd\ufffd\u20ac"},
                {"\xf0\xf0\xf0\xf0\xf0", "\ufffd\ufffd\ufffd\ufffd\ufffd"},
                {"\xc0\xaf", "\ufffd\ufffd"},                     // overlong
                {"\xed\xa0\x80", "\ufffd\ufffd\ufffd"},           // a surrogate
                {"\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd"}, // too high
                {"\xf8\x88\x80\x80\x80", "\ufffd\ufffd\ufffd\ufffd\ufffd"}};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        uint32_t bytes[16];
        int count = 0;
        for (const char *c = some[i].bytes; *c; c++) bytes[count++] = (unsigned char)*c;
        char *text = put(LEVEL_BYTE, bytes, count);
        cr_expect(!strcmp(text, some[i].want), "%zu: %s, not %s", i, text, some[i].want);
        free(text);
    }
}

Test(vocabulary, characters_appear_as_soon_as_they_are_whole) {
    uint32_t identity[256];
    for (uint32_t i = 0; i < 256; i++) identity[i] = i;
    struct vocabulary vocabulary = {LEVEL_BYTE, 256, identity};
    static const struct {
        unsigned char byte;
        const char *so_far;
    } step[] = {{'a', "a"}, {0xe2, "a"}, {0x82, "a"}, {0xac, "a\u20ac"}, {'z', "a\u20acz"}};
    char *text = NULL;
    size_t size = 0;
    struct writer writer = {.vocabulary = &vocabulary, .file = open_memstream(&text, &size)};
    for (size_t i = 0; i < sizeof step / sizeof *step; i++) {
        writer_put(&writer, step[i].byte);
        fflush(writer.file);
        cr_expect_str_eq(text, step[i].so_far);
    }
    fclose(writer.file);
    free(text);
}
