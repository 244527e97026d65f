/* A probabilistic context-free grammar of English-like prose, and a sampler for it.

   A model needs a long context in this text. A verb agrees in number with its noun across relative
   clauses and asides ("the dogs that the cat (...) chases sleep."), and so do "itself" and
   "themselves". Brackets of two kinds and quotes of two kinds are closed in the order in which they
   were opened. "does" and "is" at the start need a question mark, "either" needs "or", "if" needs
   "then".

   Entropy. Sentences are independent. Each is a derivation D of the first head with probability
   p(D), the product of the probabilities of its choices, and a length |D| in characters. By renewal
   theory the endless text has the rate

       H = E[-ln p(D)] / E|D|   nats per character,

   if the text has no other derivation. tests/data/test_grammar.c computes it.

   Why a text has only one derivation, reading from the left:
   - ". ", "? ", "! ", and the same with an empty line instead of the space, occur at the end of
     sentences and nowhere else. So it is known where sentences end.
   - Apart from names, capitals occur at the start of a sentence and after an opening quote, and
     always there; no two words differ only in case. So the text with capitals and the text with the
     marks '^' determine each other.
   - A word is in one row of the lexicon, which tells its class. Its form tells its number ("the"
     has the number of its noun). So rules that differ only in number can be told apart, and number
     can be ignored from here on.
   - A noun takes at most one modifier, directly after it. Modifiers start with "that", a
     preposition or an opening bracket. Nothing else that may follow a noun phrase starts with
     these. So what starts like a modifier after a noun is one, and belongs to that noun.
   - "that" after a verb of thinking starts its clause. After a noun it starts a relative clause,
     whose subject is the noun if a verb comes next, and whose object it is if a determiner does.
   - A verb's class says whether a noun phrase, a clause or neither follows. Only verbs of the last
     class take an adverb or a place, directly after them, where there is no noun that it could
     belong to.
   - A second clause is joined only to a statement, only once, and a statement ends at a full stop
     or a quote. Verbs of saying occur only with quotes.
   - A sentence starts with a quote, "if", "either", "how" before an adjective, a question word,
     "does", "do", "is", "are", or a noun phrase; after a noun phrase the verb says whether a quote
     follows.

   The same test counts derivations with a chart parser. */
#include "data/text/grammar.h"
#include "data/die.h"
#include "data/random.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// clang-format off
const struct grammar_rule grammar_rules[] = {
    {"sentence",    36, "^<statement>.<gap>"},
    {"sentence",     8, "^<question>?<gap>"},
    {"sentence",     2, "^how <adjective> <one> is!<gap>|^how <adjective> <many> are!<gap>"},
    {"sentence",     3, "\"^<line>,\" <say>s <speaker>.<gap>|\"^<line>,\" <say> <many>.<gap>"},
    {"sentence",     2, "\"^<question>?\" asks <speaker>.<gap>|\"^<question>?\" ask <many>.<gap>"},
    {"sentence",     3, "^<speaker> <say>s: \"^<line>\".<gap>|^<many> <say>: \"^<line>\".<gap>"},
    {"gap",          5, " "},
    {"gap",          1, "\n\n"},

    {"line",         4, "<statement>"},
    {"line",         1, "<speaker> <say>s: '^<clause>'|<many> <say>: '^<clause>'"},
    {"statement",    8, "<clause><join>"},
    {"statement",    1, "if <clause>, then <clause>|either <clause> or <clause>"},
    {"join",        20, ""},
    {"join",         1, ", and <clause>|, but <clause>| because <clause>| while <clause>"},
    {"question",     3, "<ask>does <one> <act>|<ask>do <many> <act>"},
    {"question",     1, "<ask>is <one> <adjective>|<ask>are <many> <adjective>"},
    {"ask",          6, ""},
    {"ask",          1, "why |when |where "},
    {"clause",       5, "<one> <does>"},
    {"clause",       4, "<many> <do>"},

    // Noun phrases: one, many, either of them as an object, and the speakers.
    {"one",          1, "<a> <adjectives><noun.one><after.one>"},
    {"many",         1, "<some> <adjectives><noun.many><after.many>"},
    {"object",       4, "<one>|<many>"},
    {"object",       1, "<name>"},
    {"speaker",      1, "<one>|<name>"},
    {"adjectives",   3, ""},
    {"adjectives",   1, "<adjective> <adjectives>"},
    {"after.one",   14, ""},
    {"after.one",    3, " that <does>|<after>"},
    {"after.many",  14, ""},
    {"after.many",   3, " that <do>|<after>"},
    {"after",        2, " that <one> <chase>s| that <many> <chase>"},
    {"after",        3, " <near> <object>"},
    {"after",        1, " (<clause>)| [<clause>]"},

    // What one does, what many do, and the infinitive.
    {"does",         7, "<chase>s <object>|<run>s<way>"},
    {"does",         2, "<chase>s itself|is <adjective>|<think>s that <clause>|does not <act>"},
    {"does",         1, "will <act>|can <act>"},
    {"do",           7, "<chase> <object>|<run><way>"},
    {"do",           2, "<chase> themselves|are <adjective>|<think> that <clause>|do not <act>"},
    {"do",           1, "will <act>|can <act>"},
    {"act",          1, "<chase> <object>|<run><way>"},
    {"way",          5, ""},
    {"way",          2, " <adverb>"},
    {"way",          1, " <near> <object>"},

    // The lexicon: every word in one row, except "the", which has the number of its noun.
    {"a",            6, "the"},
    {"a",            1, "every|this|one|another"},
    {"some",         6, "the"},
    {"some",         1, "some|these|many|two"},
    {"noun.one",     9, "<noun>"},
    {"noun.one",     1, "mouse|goose|fox|ox"},
    {"noun.many",    9, "<noun>s"},
    {"noun.many",    1, "mice|geese|foxes|oxen"},
    {"noun",         4, "dog|cat|bird|horse"},
    {"noun",         2, "rabbit|duck|frog|tiger|monkey"},
    {"noun",         1, "zebra|owl|squirrel|beetle|whale|lizard|pig|eagle"},
    {"name",         1, "Anna|Ben|Clara|David|Emma|Felix|Grace|Hugo|Iris|Jack|Kim|Laura"},
    {"adjective",    3, "old|young|happy|small"},
    {"adjective",    1, "lazy|quick|brown|clever|hungry|brave|grey|white"},
    {"chase",        3, "chase|see|follow|like"},
    {"chase",        1, "help|fear|find|hear|greet|trust|avoid|visit"},
    {"run",          3, "sleep|run|sing|wait"},
    {"run",          1, "jump|dance|dream|listen|swim|laugh"},
    {"think",        1, "think|know|hope|believe"},
    {"say",          1, "say|whisper|shout|explain"},
    {"near",         1, "near|behind|beside|with"},
    {"adverb",       1, "quietly|slowly|often|today|here|all day"},
};
// clang-format on
const size_t grammar_rule_count = sizeof grammar_rules / sizeof *grammar_rules;

/* A grammar, read from its rows. In the texts of bodies, which are ended by 0, head i, of at most
   128, is the character HEAD + i. */

enum { HEAD = 0x80 };

struct body {
    const char *text;
    size_t weight;
};

struct head {
    const char *name;
    size_t weight; // the sum over its bodies
    struct body *first;
};

struct grammar {
    struct head *heads; // heads[0] is the start
    size_t head_count;
    struct body *bodies; // of all heads
    char *text;          // of all bodies
};

static void *take(size_t count, size_t size) {
    return memory_take(count, size, "the grammar");
}

/* The number of a head. */
static size_t head_number(const struct grammar *g, const char *name, size_t length) {
    for (size_t i = 0; i < g->head_count; i++)
        if (strlen(g->heads[i].name) == length && !memcmp(g->heads[i].name, name, length)) return i;
    die(STATUS_MACHINE, "grammar: <%.*s>: no rule has this head", (int)length, name);
}

static struct grammar grammar_read(const struct grammar_rule *rules, size_t count) {
    struct grammar g = {.heads = take(count, sizeof *g.heads)};
    size_t characters = 0;
    for (size_t i = 0; i < count; i++) {
        if (!rules[i].weight) die(STATUS_MACHINE, "grammar: <%s>: weight 0", rules[i].head);
        if (!i || strcmp(rules[i].head, rules[i - 1].head) != 0)
            g.heads[g.head_count++].name = rules[i].head;
        characters += strlen(rules[i].bodies) + 1; // a body has at least the character after it
    }
    struct body *body = g.bodies = take(characters, sizeof *g.bodies);
    char *to = g.text = take(characters, 1);
    for (size_t i = 0; i < count; i++) {
        struct head *head = &g.heads[head_number(&g, rules[i].head, strlen(rules[i].head))];
        if (!head->first) head->first = body;
        for (const char *c = rules[i].bodies; c; c = *c ? c + 1 : NULL) {
            *body++ = (struct body){to, rules[i].weight};
            head->weight += rules[i].weight;
            for (; *c && *c != '|'; c++) {
                const size_t length = *c == '<' ? strcspn(c, ">") : 0;
                *to++ = length ? (char)(HEAD + head_number(&g, c + 1, length - 1)) : *c;
                c += length;
            }
            *to++ = 0;
        }
    }
    return g;
}

static void grammar_free(struct grammar *g) {
    free(g->heads);
    free(g->bodies);
    free(g->text);
}

/* The body at this place of a list that has each body as many times as its weight. */
static const char *body_at(const struct head *head, uint64_t place) {
    const struct body *body = head->first;
    while (place >= body->weight) place -= body++->weight;
    return body->text;
}

/* The rests of bodies that are interrupted by the derivation of a head inside them. The stack grows
   with the depth of the derivation, but a head at the end of its body needs no entry. */
struct stack {
    const char **rest;
    size_t depth, capacity;
};

static void push(struct stack *stack, const char *rest) {
    if (stack->depth == stack->capacity) {
        stack->capacity = 2 * stack->capacity + 64;
        stack->rest = memory_grow(stack->rest, stack->capacity, sizeof *stack->rest, "the grammar");
    }
    stack->rest[stack->depth++] = rest;
}

/* Writes a derivation of the first head to text[at .. length), with choices from stream `key`.
   Returns its end. */
static size_t write_derivation(const struct grammar *g, struct stack *stack, uint64_t key,
                               char *text, size_t at, size_t length) {
    static const char start[] = {(char)HEAD, 0};
    const char *c = start;
    uint64_t choices = 0;
    bool capital = false;
    stack->depth = 0;
    while (at < length) {
        if (*c & HEAD) {
            const struct head *head = &g->heads[*c & (HEAD - 1)];
            if (c[1]) push(stack, c + 1);
            c = body_at(head, random_below(key, choices++, head->weight));
        } else if (!*c) {
            if (!stack->depth) return at;
            c = stack->rest[--stack->depth];
        } else if (*c == '^') {
            capital = true;
            c++;
        } else {
            text[at++] = (char)(capital && *c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
            capital = false;
            c++;
        }
    }
    return at;
}

char *grammar_text(const struct grammar_rule *rules, size_t count, uint64_t seed, size_t length) {
    char *text = take(length + 1, 1);
    struct grammar g = grammar_read(rules, count);
    struct stack stack = {0};
    size_t at = 0;
    for (uint64_t sentence = 0; at < length; sentence++)
        at = write_derivation(&g, &stack, random_key(seed, "grammar", sentence), text, at, length);
    text[length] = 0;
    free(stack.rest);
    grammar_free(&g);
    return text;
}
