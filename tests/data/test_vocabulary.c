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
    char every[2048] = "0", *end = every + 1;
    for (int i = 1; i < 256; i++) end += snprintf(end, sizeof " 255", " %d", i);
    expect_vocabulary(LEVEL_BYTE, every, 256, 255);
}

Test(vocabulary, texts_that_are_none) {
    static const char *const texts[] = {"",   "1 ", "1  2", "1\n2",    "2 1",   "1 1",       "-1",
                                        "+1", "x",  "1x",   "1114112", "55296", "4294967297"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct vocabulary vocabulary;
        cr_expect(!vocabulary_parse(&vocabulary, LEVEL_CHAR, texts[i]), "\"%s\" is one", texts[i]);
        cr_expect(!vocabulary.symbols && !vocabulary.V); // nothing to free
        cr_expect(!vocabulary_parse(&vocabulary, LEVEL_BYTE, texts[i]), "\"%s\" is one", texts[i]);
    }
    struct vocabulary bytes;
    cr_expect(!vocabulary_parse(&bytes, LEVEL_BYTE, "10 256"));
}

Test(vocabulary, names) {
    cr_expect_str_eq(vocabulary_name(LEVEL_CHAR, 0xe9), "U+00E9 (\u00e9)");
    cr_expect_str_eq(vocabulary_name(LEVEL_CHAR, 0x1f600), "U+1F600 (\U0001f600)");
    cr_expect_str_eq(vocabulary_name(LEVEL_CHAR, '\n'), "U+000A");
    cr_expect_str_eq(vocabulary_name(LEVEL_CHAR, ' '), "U+0020");
    cr_expect_str_eq(vocabulary_name(LEVEL_CHAR, 0x9b), "U+009B"); // it would begin a command
    cr_expect_str_eq(vocabulary_name(LEVEL_BYTE, 0xff), "byte 0xff");
}

/* U+FFFD replaces each byte that is not part of a character. What may become a character is held
   back, up to four bytes. */
Test(vocabulary, bytes_are_written_as_utf_8) {
    static const struct {
        const char *bytes, *want, *at_end;
    } some[] = {{"\u00e9\u20ac\U0001f600", "\u00e9\u20ac\U0001f600", ""},
                {"\xff-", "", "\ufffd-"},
                {"\x80\x80-", "", "\ufffd\ufffd-"},
                {"a\xe2\x82", "a", "\ufffd\ufffd"},
                {"\xf0\x9f\x98", "", "\ufffd\ufffd\ufffd"},
                {"\xe2\x82z", "", "\ufffd\ufffdz"}, // broken off
                {"\xf0\x9f\xe2\x82\xac", "\ufffd\ufffd\u20ac", ""},
                {"\xc0\xaf-", "", "\ufffd\ufffd-"},                     // overlong
                {"\xed\xa0\x80-", "\ufffd", "\ufffd\ufffd-"},           // a surrogate
                {"\xf4\x90\x80\x80-", "\ufffd\ufffd", "\ufffd\ufffd-"}, // too high
                {"\xf8\x88\x80-", "\ufffd", "\ufffd\ufffd-"}};
    uint32_t identity[256];
    for (uint32_t i = 0; i < 256; i++) identity[i] = i;
    struct vocabulary vocabulary = {LEVEL_BYTE, 256, identity};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        char *text = NULL;
        size_t size = 0, length = strlen(some[i].want);
        struct writer writer = {.vocabulary = &vocabulary, .file = open_memstream(&text, &size)};
        for (const char *c = some[i].bytes; *c; c++) writer_put(&writer, (unsigned char)*c);
        fflush(writer.file);
        cr_expect_str_eq(text, some[i].want);
        writer_flush(&writer, true);
        fclose(writer.file);
        cr_expect_str_eq(text + length, some[i].at_end);
        free(text);
    }
}
