/* A text as ids, against a plain reference that decodes it. */
#include "data/crc32.h"
#include "data/die.h"
#include "data/files/file.h"
#include "data/random.h"
#include "data/text/corpus.h"
#include "data/text/utf8.h"
#include "tests/command.h"
#include "tests/death.h"
#include "tests/support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(utf8, .init = folder_enter, .fini = folder_leave);

struct text {
    unsigned char *in;
    size_t bytes;
    int level;
};

static struct corpus encode(const struct text *text) {
    struct corpus made;
    corpus_make(&made, "text", (const char *)text->in, text->bytes,
                &(struct corpus_options){.level = text->level});
    return made;
}

/* The same symbols, one after another, and a vocabulary without gaps, as the text has them. */
static void expect_same(const struct text *text, const struct corpus *made) {
    const struct vocabulary *vocabulary = &made->vocabulary;
    size_t offset = text->level == LEVEL_CHAR && !memcmp(text->in, "\xef\xbb\xbf", 3) ? 3 : 0;
    unsigned char *seen = calloc(vocabulary->V, 1);
    for (size_t i = 0; i < made->length; i++) {
        int32_t symbol = text->level == LEVEL_BYTE ? text->in[offset++]
                                                   : utf8_decode(text->in, text->bytes, &offset);
        int32_t id = ids_at(&made->ids, i);
        cr_assert(id >= 0 && (size_t)id < vocabulary->V &&
                      vocabulary->symbols[id] == (uint32_t)symbol,
                  "symbol %zu is not U+%04X", i, symbol);
        seen[id] = 1;
    }
    cr_assert(offset == text->bytes, "%zu of %zu bytes", offset, text->bytes);
    for (size_t id = 0; id < vocabulary->V; id++) {
        cr_assert(seen[id], "U+%04X does not occur", vocabulary->symbols[id]);
        cr_assert(!id || vocabulary->symbols[id - 1] < vocabulary->symbols[id]);
    }
    free(seen);
}

static void put(struct text *text, uint32_t code) {
    text->bytes += (size_t)utf8_encode(code, (char *)text->in + text->bytes);
}

/* Characters of every length in random order, with line ends of both kinds. */
static struct text mixed(size_t characters) {
    static const uint32_t some[] = {'a',    'b',    ' ',    '\n',    0xe9,    0x7ff,    0x800,
                                    0xfeff, 0x20ac, 0xffff, 0x10000, 0x1f600, 0x10ffff, 0x80};
    struct text text = {.in = malloc(4 * characters + 8), .level = LEVEL_CHAR};
    for (size_t i = 0; i < characters; i++) {
        uint64_t kind = random_below(1, i, 20);
        put(&text, kind < 14 ? some[kind] : '\r');
        if (kind >= 14) put(&text, '\n');
    }
    return text;
}

Test(utf8, characters_of_every_length) {
    struct text text = mixed(500);
    for (int mark = 0; mark < 2; mark++) {
        for (text.level = LEVEL_CHAR; text.level <= LEVEL_BYTE; text.level++) {
            struct corpus made = encode(&text);
            expect_same(&text, &made);
            corpus_free(&made);
        }
        memmove(text.in + 3, text.in, text.bytes);
        memcpy(text.in, "\xef\xbb\xbf", 3);
        text.bytes += 3;
    }
    free(text.in);
}

static void encode_again(void *text) {
    encode(text);
}

/* Prints what the text should have been refused with, unless it was. */
static void print_unless_refused(struct text text, const char *want) {
    const struct death *death = caught(encode_again, &text);
    if (death->status != STATUS_MACHINE || !strstr(death->line, want))
        printf("%s is not: %s\n", want, death->line);
}

/* Every text that is not UTF-8, at every offset. */
static void spoil(void *unused) {
    static const char *const wrong[] = {"\xff",
                                        "\x80", // no first byte
                                        "\xc3",
                                        "\xf0\x9f\x98", // cut short
                                        "\xe4\xc3\xa9",
                                        "\xc1\xbf", // broken off; overlong
                                        "\xe0\x9f\xbf",
                                        "\xf0\x8f\xbf\xbf", // overlong
                                        "\xed\xa0\x80",
                                        "\xf4\x90\x80\x80", // a surrogate; too high
                                        "\xf8\x88\x80\x80\x80"};
    unsigned char in[64];
    struct text text = {.in = in};
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++)
        for (size_t offset = 0; offset < 48; offset++) {
            char want[96];
            size_t length = strlen(wrong[w]);
            memset(in, 'x', sizeof in);
            memcpy(in + offset, wrong[w], length);
            snprintf(want, sizeof want,
                     "corpus: text: not UTF-8 at byte %zu, 0x%02x (try --level=byte)", offset,
                     in[offset]);
            text.bytes = sizeof in;
            print_unless_refused(text, want);
            text.bytes = offset + length; // at the end of the text
            print_unless_refused(text, want);
            in[offset] = 0;
            snprintf(want, sizeof want, "a NUL byte at byte %zu, so not text", offset);
            print_unless_refused(text, want);
        }
}

Test(utf8, what_is_not_utf_8_is_found_at_every_offset) {
    struct ending ending = call(spoil, NULL);
    cr_expect(!ending.status && !*ending.out, "%s", ending.out);
}

/* A text with V different characters, each of them twice: the first time in descending order. */
static struct text with_vocabulary(size_t V, uint32_t first) {
    struct text text = {.in = malloc(8 * V), .level = LEVEL_CHAR};
    for (size_t i = 0; i < 2 * V; i++) {
        uint32_t code = first + (uint32_t)(i < V ? V - 1 - i : i - V);
        put(&text, code < 0xd800 ? code : code + 0x800); // beyond the surrogates
    }
    return text;
}

Test(utf8, ids_are_as_wide_as_the_vocabulary_needs) {
    static const size_t V[] = {1, 2, 255, 256, 257, 4096, 65535, 65536, 65537, 70000};
    for (size_t v = 0; v < sizeof V / sizeof *V; v++)
        for (uint32_t first = 1; first < 400; first += 199) {
            struct text text = with_vocabulary(V[v], first);
            struct corpus made = encode(&text);
            cr_assert(made.vocabulary.V == V[v] && made.length == 2 * V[v]);
            cr_expect(made.ids.width == (V[v] <= 256     ? 1
                                         : V[v] <= 65536 ? 2
                                                         : 4),
                      "%zu characters: %zu bytes", V[v], made.ids.width);
            expect_same(&text, &made);
            corpus_free(&made);
            free(text.in);
        }
}

static void read_file(void *path) {
    struct corpus corpus;
    corpus_read(&corpus, path, &(struct corpus_options){.level = LEVEL_CHAR, .val_fraction = 0.1});
    printf("%zu %zu %08x", corpus.length, corpus.vocabulary.V, corpus.crc32);
    corpus_free(&corpus);
}

/* A file is read in blocks of 256 KiB: what is at their ends is as elsewhere. */
Test(utf8, characters_across_the_ends_of_a_files_blocks) {
    enum { BLOCK = 1 << 18, BYTES = 2 * BLOCK + 100, WIDTH = 4 }; // bytes of the character
    static char text[BYTES];
    for (size_t offset = 2 * BLOCK - 8; offset < 2 * BLOCK + 3; offset++) {
        uint32_t checksum;
        memset(text, 'x', BYTES);
        for (int i = 0; i < 2; i++) memcpy(text + offset - (size_t)i * BLOCK, "\U0001f600", WIDTH);
        file_put("text", text, BYTES);
        struct ending ending = call(read_file, "text");
        cr_expect_str_eq(ending.out,
                         say("%d 2 %08x", BYTES - 2 * (WIDTH - 1), crc32_of(0, text, BYTES)));
        cr_expect(file_checksum("text", &checksum) && checksum == crc32_of(0, text, BYTES));
        text[offset + WIDTH - 1] = 'y';
        file_put("text", text, BYTES);
        expect_refusal(call(read_file, "text"), STATUS_MACHINE,
                       say("text: not UTF-8 at byte %zu, 0x", offset));
    }
}

Test(utf8, checksums_of_every_length_are_those_of_the_pieces) {
    unsigned char text[300];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (unsigned char)random_below(1, i, 256);
    cr_expect(crc32_of(0, "123456789", 9) == 0xcbf43926, "the usual check");
    for (size_t begin = 0; begin < 17; begin++) {
        uint32_t by_bytes = 0;
        for (size_t end = begin; end < sizeof text; end++) {
            cr_assert(crc32_of(0, text + begin, end - begin) == by_bytes);
            by_bytes = crc32_of(by_bytes, text + end, 1);
        }
    }
}
