/* The built-in grammar: its texts, its weights, and the entropy of grammars small enough to
   list. */
#include "data/text/grammar.h"
#include "tests/data/sentences.h"
#include <criterion/criterion.h>
#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

Test(grammar, text_has_exactly_its_length_and_begins_as_a_longer_one) {
    enum { LONGEST = 300000 };
    const size_t lengths[] = {0, 1, 2, 3, 63, 64, 65, 997, 100000, LONGEST};
    char *longest = grammar_text(7, LONGEST);
    for (size_t i = 0; i < COUNT(lengths); i++) {
        char *text = grammar_text(7, lengths[i]);
        cr_assert(text);
        cr_expect(strlen(text) == lengths[i]);
        cr_expect(!memcmp(text, longest, lengths[i]), "the first %zu characters differ",
                  lengths[i]);
        free(text);
    }
    free(longest);
    cr_expect(!grammar_text(7, SIZE_MAX));
}

Test(grammar, text_is_given_by_its_seed) {
    enum { LENGTH = 2000, SEEDS = 20 };
    char *text[SEEDS];
    for (size_t i = 0; i < SEEDS; i++) {
        text[i] = grammar_text(i * i << 2 * i, LENGTH);
        for (size_t j = 0; j < i; j++) cr_expect(memcmp(text[i], text[j], LENGTH / 10));
        char *again = grammar_text(i * i << 2 * i, LENGTH);
        cr_expect(!memcmp(text[i], again, LENGTH));
        free(again);
    }
    for (size_t i = 0; i < SEEDS; i++) free(text[i]);
}

Test(grammar, text_is_plain_prose) {
    size_t seen[256] = {0}, different = 0, length = 1000000;
    char *text = grammar_text(1, length);
    for (size_t i = 0; i < length; i++) different += !seen[(unsigned char)text[i]]++;
    for (int c = 0; c < 256; c++)
        cr_expect(!seen[c] || isalpha(c) || strchr(" \n.,:?!\"'()[]", c), "character %d", c);
    cr_expect(different >= 40 && different <= 60, "%zu different characters", different);
    for (int c = 'a'; c <= 'z'; c++) cr_expect(seen[c] > 0, "no %c", c);
    cr_expect(!strstr(text, "  ") && !strstr(text, " \n") && !strstr(text, "\n "));
    free(text);
}

/* Brackets and quotes: a quote closes if the innermost open mark is the same quote, and opens
   otherwise. */

static size_t pairs, nested;

static void check_marks(const char *sentence, size_t length) {
    char open[256] = {0};
    size_t depth = 1; // open[0] stands for none
    for (size_t i = 0; i < length; i++) {
        const char *kind = strchr("()[]\"\"''", sentence[i]);
        if (!kind) continue;
        bool quote = *kind == '"' || *kind == '\'';
        if (quote ? open[depth - 1] == *kind : *kind == ')' || *kind == ']') {
            char want = quote ? *kind : kind[-1];
            cr_assert(open[--depth] == want, "%c in: %.*s", *kind, (int)length, sentence);
            pairs++;
            nested += depth > 1;
            cr_assert(quote || isalpha(sentence[i - 1]) || strchr(")]", sentence[i - 1]));
        } else {
            cr_assert(depth < sizeof open);
            open[depth++] = *kind;
        }
    }
    cr_assert(depth == 1, "%c stays open in: %.*s", open[depth - 1], (int)length, sentence);
    cr_assert(isupper(sentence[0]) || (sentence[0] == '"' && isupper(sentence[1])));
}

Test(grammar, quotes_and_brackets_match) {
    sentence_each(3, 1000000, check_marks);
    cr_expect(pairs > 3000 && nested > 300, "%zu pairs, %zu of them nested", pairs, nested);
}

/* Grammars small enough to list what they say. */

static const struct grammar_rule tiny[] = {
    {"s", 2, "^<x>.|<x><x>!"}, {"s", 1, "q\n"}, {"x", 3, "ab"}, {"x", 1, "c"}};
static const struct {
    const char *text;
    double p;
} tiny_texts[] = {{"Ab.", 0.3},    {"C.", 0.1},    {"abab!", 0.225}, {"abc!", 0.075},
                  {"cab!", 0.075}, {"cc!", 0.025}, {"q\n", 0.2}};

Test(grammar, entropy_of_a_listed_grammar) {
    double information = 0, length = 0, sum = 0;
    for (size_t i = 0; i < COUNT(tiny_texts); i++) {
        double p = tiny_texts[i].p;
        sum += p;
        information -= p * log(p);
        length += p * (double)strlen(tiny_texts[i].text);
    }
    double got = grammar_entropy_of(tiny, COUNT(tiny));
    cr_assert(fabs(sum - 1) < 1e-12);
    cr_expect(fabs(got - information / length) < 1e-12, "%g", got);
}

Test(grammar, entropy_of_a_recursive_grammar) {
    static const struct grammar_rule nest[] = {{"s", 1, "(<t>)"}, {"s", 2, "x"}, {"t", 1, "<s>"}};
    double information = 0, length = 0, p = 2.0 / 3;
    for (int depth = 0; depth < 100; depth++, p /= 3) {
        information -= p * log(p);
        length += p * (2 * depth + 1);
    }
    double got = grammar_entropy_of(nest, COUNT(nest));
    cr_expect(fabs(got - information / length) < 1e-12, "%g", got);
    static const struct grammar_rule critical[] = {{"s", 1, "<t>"}, {"t", 1, "<s><s>|x"}};
    static const struct grammar_rule growing[] = {{"s", 2, "<s><t>"}, {"s", 1, "x"}, {"t", 1, "y"}};
    static const struct grammar_rule bursting[] = {{"s", 2, "<s><s>"}, {"s", 1, "x"}};
    static const struct grammar_rule inside[] = {
        {"s", 1, "aaa<t>"}, {"t", 2, "<t><t>"}, {"t", 1, "x"}};
    static const struct grammar_rule empty[] = {{"s", 1, "<t>|"}, {"t", 1, ""}};
    cr_expect(isnan(grammar_entropy_of(critical, COUNT(critical))));
    cr_expect(isnan(grammar_entropy_of(inside, COUNT(inside))));
    cr_expect(isnan(grammar_entropy_of(empty, COUNT(empty))));
    cr_expect(!isnan(grammar_entropy_of(growing, COUNT(growing))));
    cr_expect(isnan(grammar_entropy_of(bursting, COUNT(bursting))));
}

Test(grammar, sampler_follows_the_weights) {
    enum { LENGTH = 400000 };
    double count[COUNT(tiny_texts)] = {0}, all = 0;
    char *text = grammar_text_of(tiny, COUNT(tiny), 1, LENGTH);
    for (const char *c = text, *end; (end = strpbrk(c, ".!\n")); c = end + 1, all++)
        for (size_t i = 0; i < COUNT(tiny_texts); i++)
            count[i] += strlen(tiny_texts[i].text) == (size_t)(end + 1 - c) &&
                        !strncmp(c, tiny_texts[i].text, (size_t)(end + 1 - c));
    for (size_t i = 0; i < COUNT(tiny_texts); i++) {
        double p = tiny_texts[i].p, error = sqrt(p * (1 - p) / all);
        cr_expect(fabs(count[i] / all - p) < 4 * error, "%s: %g, not %g", tiny_texts[i].text,
                  count[i] / all, p);
    }
    free(text);
}

Test(grammar, depth_has_no_limit) {
    enum { LENGTH = 3000000 };
    static const struct grammar_rule deep[] = {{"s", 200000, "(<s>)"}, {"s", 1, "x"}};
    char *text = grammar_text_of(deep, COUNT(deep), 1, LENGTH);
    size_t depth = strspn(text, "(");
    cr_expect(depth > 50000 && text[depth] == 'x', "depth %zu", depth);
    cr_expect(strspn(text + depth + 1, ")") == depth);
    free(text);
}
