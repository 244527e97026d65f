/* The built-in grammar: its texts, its weights, its entropy, and the derivations of its sentences.
   A chart parser reads the strings of the rules: nothing here uses the sampler's reading of
   them. */
#include "data/crc32.h"
#include "data/text/grammar.h"
#include "tests/support.h"
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

/* A chart parser: in how many ways, and with what probability, a head derives the
   text from one place to another. A place is 2 i + 1 if a '^' waits before character i, else 2
   i. */

struct way {
    size_t to;
    double count, p;
};

struct ways {
    size_t size;
    struct way way[];
};

struct chart {
    const char *text;
    size_t length;
    struct ways *
        *memo; // (grammar_rule_count, 2 length + 2), indexed by the head's first row and the place
};

static void add(struct ways **ways, struct way way) {
    size_t size = *ways ? (*ways)->size : 0;
    for (size_t i = 0; i < size; i++)
        if ((*ways)->way[i].to == way.to) {
            (*ways)->way[i].count += way.count;
            (*ways)->way[i].p += way.p;
            return;
        }
    *ways = realloc(*ways, sizeof **ways + (size + 1) * sizeof way);
    (*ways)->size = size + 1;
    (*ways)->way[size] = way;
}

static const struct ways *expand(struct chart *chart, const char *name, size_t from);

/* Adds every way to derive the rest of a body from way.to on. */
static void follow(struct chart *chart, const char *body, struct way way, struct ways **ways) {
    for (; *body && *body != '|'; body++) {
        size_t i = way.to / 2;
        if (*body == '^') {
            way.to |= 1;
        } else if (*body == '<') {
            const struct ways *part = expand(chart, body + 1, way.to);
            for (size_t n = 0; n < part->size; n++) {
                const struct way *step = &part->way[n];
                follow(chart, strchr(body, '>') + 1,
                       (struct way){step->to, way.count * step->count, way.p * step->p}, ways);
            }
            return;
        } else {
            if (i == chart->length || chart->text[i] != (way.to & 1 ? toupper(*body) : *body))
                return;
            way.to = 2 * i + 2;
        }
    }
    add(ways, way);
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

static const struct ways *expand(struct chart *chart, const char *name, size_t from) {
    size_t first = 0;
    while (!heads(&grammar_rules[first], name)) first++;
    struct ways **ways = &chart->memo[first * (2 * chart->length + 2) + from];
    if (*ways) return *ways;
    struct ways *found = calloc(1, sizeof *found);
    double total = 0;
    for (size_t r = first; r < grammar_rule_count; r++) {
        if (!heads(&grammar_rules[r], name)) continue;
        const char *body = grammar_rules[r].bodies;
        for (bool more = true; more; body += strcspn(body, "|") + 1) {
            follow(chart, body, (struct way){from, 1, grammar_rules[r].weight}, &found);
            total += grammar_rules[r].weight;
            more = body[strcspn(body, "|")];
        }
    }
    for (size_t n = 0; n < found->size; n++) found->way[n].p /= total;
    return *ways = found;
}

/* The derivations of the full text from the start symbol. */
static struct way derivations(const char *text, size_t length) {
    const size_t memos = grammar_rule_count * (2 * length + 2);
    struct chart chart = {text, length, calloc(memos, sizeof(struct ways *))};
    const struct ways *ways = expand(&chart, grammar_rules[0].head, 0);
    struct way whole = {0};
    for (size_t n = 0; n < ways->size; n++)
        if (ways->way[n].to == 2 * length) whole = ways->way[n];
    for (size_t i = 0; i < memos; i++) free(chart.memo[i]);
    free(chart.memo);
    return whole;
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

static double entropy, nats, characters, squares; // squared deviations from the entropy
static size_t shortest = SIZE_MAX, longest;

static void measure(const char *sentence, size_t length) {
    struct way way = derivations(sentence, length);
    cr_assert(way.count == 1, "%g derivations: %.*s", way.count, (int)length, sentence);
    double deviation = -log(way.p) - entropy * (double)length;
    nats -= log(way.p);
    characters += (double)length;
    squares += deviation * deviation;
    if (length < shortest) shortest = length;
    if (length > longest) longest = length;
}

Test(grammar, sentences_have_one_derivation_and_the_exact_entropy) {
    const size_t length = sweep() ? 1000000 : 100000;
    char *text = grammar_text(11, length), *at = text;
    size_t count = 0;
    entropy = GRAMMAR_ENTROPY;
    for (char *end; (end = sentence_end(at)); at = end, count++) measure(at, (size_t)(end - at));
    cr_expect(count > length / 200 && (size_t)(at - text) + 5000 > length, "%zu sentences", count);
    free(text);
    cr_expect(shortest < 20 && longest > 400, "lengths %zu to %zu", shortest, longest);
    double error = sqrt(squares) / characters;
    cr_expect(entropy > 0.4 && entropy < 0.9, "%g nats per character", entropy);
    cr_expect(error > 0 && error < (sweep() ? 0.002 : 0.007) * entropy, "standard error %g", error);
    cr_expect(fabs(nats / characters - entropy) < 3 * error, "measured %g, exact %g, error %g",
              nats / characters, entropy, error);
}
