/* The built-in grammar: its texts, its weights, its entropy, and the derivations of its sentences.
   A parser reads the strings of the rules: nothing here uses the sampler's reading of them. */
#include "data/crc32.h"
#include "data/text/grammar.h"
#include "tests/support.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

Test(grammar, text_has_exactly_its_length_and_begins_as_a_longer_one) {
    enum { LONGEST = 300000 };
    const size_t lengths[] = {0, 1, 2, 3, 63, 64, 65, 997, 100000, LONGEST};
    char *longest = grammar_text(7, LONGEST);
    for (size_t i = 0; i < COUNT(lengths); i++) {
        char *text = grammar_text(7, lengths[i]);
        cr_expect(strlen(text) == lengths[i]);
        cr_expect(!memcmp(text, longest, lengths[i]), "the first %zu characters differ",
                  lengths[i]);
        free(text);
    }
    free(longest);
}

/* A run on the grammar is repeated by its seed, also by a later version. */
Test(grammar, text_stays_the_same) {
    char *text = grammar_text(1, 1000000);
    cr_expect(crc32_of(0, text, 1000000) == 0x9aad5931, "%08x", crc32_of(0, text, 1000000));
    free(text);
}

static bool heads(const struct grammar_rule *rule, const char *name) {
    size_t length = strcspn(name, ">");
    return strlen(rule->head) == length && !strncmp(rule->head, name, length);
}

/* The expected information in nats and the expected length in characters of each head's derivation,
   by the row where the head occurs first:

     x(A) = sum_r p(r) (c(r) + sum_{heads B in r} x(B)),

   where c is -ln p(r), or the number of characters that the rule itself writes. Repeated
   substitution converges because expected lengths are finite. */
Test(grammar, entropy_is_exact) {
    enum { RULES_MAX = 128, ROUNDS = 2000 };
    static double nats_of[RULES_MAX], length_of[RULES_MAX], weight_of[RULES_MAX];
    const struct grammar_rule *rules = grammar_rules;
    const size_t count = grammar_rule_count;
    cr_assert(count <= RULES_MAX);
    for (size_t first = 0; first < count; first++)
        for (size_t r = 0; r < count; r++)
            for (const char *c = rules[r].bodies; heads(&rules[r], rules[first].head) && c;
                 c = strchr(c, '|') ? strchr(c, '|') + 1 : NULL)
                weight_of[first] += rules[r].weight;
    for (size_t i = 0; i < ROUNDS * count; i++) {
        const size_t first = i % count;
        double information = 0, length = 0;
        for (size_t r = first; r < count; r++) {
            if (!heads(&rules[r], rules[first].head)) continue;
            const double p = rules[r].weight / weight_of[first];
            information -= p * log(p);
            for (const char *c = rules[r].bodies; *c; c++) {
                size_t head = 0;
                if (*c == '|')
                    information -= p * log(p);
                else if (*c == '<') {
                    while (!heads(&rules[head], c + 1)) head++;
                    information += p * nats_of[head];
                    length += p * length_of[head];
                    c += strcspn(c, ">");
                } else if (*c != '^')
                    length += p;
            }
        }
        nats_of[first] = information;
        length_of[first] = length;
    }
    const double got = nats_of[0] / length_of[0];
    cr_expect(fabs(got - GRAMMAR_ENTROPY) < 1e-14, "%.17g", got);
}

/* What a sentence may still consist of: the rest of a body, and what follows that body. */
struct rest {
    const char *body;
    const struct rest *next;
};

static double parse(const struct rest *rest, bool capital, const char *text, const char *end,
                    int *count);

/* The probability that the head `name`, followed by `next`, writes the text. */
static double expand(const char *name, const struct rest *next, bool capital, const char *text,
                     const char *end, int *count) {
    double sum = 0, total = 0;
    for (size_t r = 0; r < grammar_rule_count; r++) {
        const double weight = grammar_rules[r].weight;
        const char *body = heads(&grammar_rules[r], name) ? grammar_rules[r].bodies : NULL;
        for (; body; body = strchr(body, '|') ? strchr(body, '|') + 1 : NULL) {
            sum += weight * parse(&(struct rest){body, next}, capital, text, end, count);
            total += weight;
        }
    }
    return sum / total;
}

/* The same for the rest of a body. Counts the ways in which it does. */
static double parse(const struct rest *rest, bool capital, const char *text, const char *end,
                    int *count) {
    const char *body = rest->body;
    for (; *body && *body != '|'; body++) {
        if (*body == '^') {
            capital = true;
        } else if (*body == '<') {
            const struct rest next = {strchr(body, '>') + 1, rest->next};
            return expand(body + 1, &next, capital, text, end, count);
        } else {
            if (text == end || *text++ != (capital ? toupper(*body) : *body)) return 0;
            capital = false;
        }
    }
    if (rest->next) return parse(rest->next, capital, text, end, count);
    *count += text == end;
    return text == end;
}

/* The end of the sentence at `text`, with the gap: after the space or the line ends that follow a
   full stop, question mark or exclamation mark. NULL if the sentence is cut off. */
static char *sentence_end(char *text) {
    for (char *c = text; *c; c++)
        if (strchr(".?!", *c) && (c[1] == ' ' || (c[1] == '\n' && c[2]))) {
            c++;
            return c + strspn(c, " \n");
        }
    return NULL;
}

/* For every sentence of a long text: one derivation, and -ln of its probability. */
Test(grammar, sentences_have_one_derivation_and_the_exact_entropy) {
    const double entropy = GRAMMAR_ENTROPY;
    const size_t length = sweep() ? 1000000 : 100000;
    char *text = grammar_text(11, length), *start = text;
    double nats = 0, characters = 0, squares = 0; // squared deviations from the entropy
    size_t sentences = 0, shortest = SIZE_MAX, longest = 0;
    for (char *end; (end = sentence_end(start)); start = end, sentences++) {
        const size_t size = (size_t)(end - start);
        int count = 0;
        const double bits = -log(expand(grammar_rules[0].head, NULL, false, start, end, &count));
        cr_assert(count == 1, "%d derivations: %.*s", count, (int)size, start);
        nats += bits;
        characters += (double)size;
        squares += pow(bits - entropy * (double)size, 2);
        if (size < shortest) shortest = size;
        if (size > longest) longest = size;
    }
    cr_expect(sentences > length / 200 && (size_t)(start - text) + 5000 > length, "%zu sentences",
              sentences);
    free(text);
    cr_expect(shortest < 20 && longest > 400, "lengths %zu to %zu", shortest, longest);
    double error = sqrt(squares) / characters;
    cr_expect(entropy > 0.4 && entropy < 0.9, "%g nats per character", entropy);
    cr_expect(error > 0 && error < (sweep() ? 0.002 : 0.007) * entropy, "standard error %g", error);
    cr_expect(fabs(nats / characters - entropy) < 3 * error, "measured %g, exact %g, error %g",
              nats / characters, entropy, error);
}
