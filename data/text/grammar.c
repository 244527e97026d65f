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
#include <ctype.h>
#include <stdbool.h>
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

/* A row as derive() reads it. In a body, the character HEAD + i stands for the head of row i. */
enum { HEAD = 128, CHOICES = 1024, BYTES = 4096 }; // more than the grammar needs
struct rule_head {
    const unsigned char **choice; // the bodies of all its rows, each as often as its weight says
    uint64_t choices;             // 0: it is not the head's first row
};

struct grammar {
    struct rule_head heads[HEAD];
    const unsigned char *choices[CHOICES];
    unsigned char bytes[BYTES];
};

/* The first row of the head whose name has `length` characters. */
static size_t head_row(const char *name, size_t length) {
    size_t row = 0;
    while (strncmp(grammar_rules[row].head, name, length) || grammar_rules[row].head[length]) row++;
    return row;
}

static void read_rules(struct grammar *g) {
    const unsigned char **choice = g->choices;
    unsigned char *to = g->bytes;
    for (size_t row = 0; row < grammar_rule_count; row++) {
        const struct grammar_rule *rule = &grammar_rules[row];
        struct rule_head *head = &g->heads[head_row(rule->head, strlen(rule->head))];
        const char *c = rule->bodies;
        if (!head->choices) head->choice = choice;
        do {
            const unsigned char *body = to;
            for (; *c && *c != '|'; c++) {
                const size_t name = *c == '<' ? strcspn(c + 1, ">") : 0;
                *to++ = name ? (unsigned char)(HEAD + head_row(c + 1, name)) : (unsigned char)*c;
                if (name) c += name + 1;
            }
            *to++ = 0;
            for (unsigned i = 0; i < rule->weight; i++, head->choices++) *choice++ = body;
        } while (*c++);
    }
}

/* A text that is being written. The choices of each derivation are the stream `key`. */
struct writing {
    struct grammar grammar;
    char *text;
    size_t used, length;
    uint64_t key, choices;
    bool capital;
};

/* Writes a derivation of the head, or as much as fits. */
static void derive(struct writing *w, const struct rule_head *head) {
    const unsigned char *c = head->choice[random_below(w->key, w->choices++, head->choices)];
    for (; *c && w->used < w->length; c++) {
        if (*c >= HEAD) {
            derive(w, &w->grammar.heads[*c - HEAD]);
        } else if (*c == '^') {
            w->capital = true;
        } else {
            w->text[w->used++] = (char)(w->capital ? toupper(*c) : *c);
            w->capital = false;
        }
    }
}

char *grammar_text(uint64_t seed, size_t length) {
    struct writing w = {.text = memory_take(length + 1, 1, "the grammar"), .length = length};
    read_rules(&w.grammar);
    for (uint64_t sentence = 0; w.used < length; sentence++) {
        w.key = random_key(seed, "grammar", sentence);
        w.choices = 0;
        derive(&w, &w.grammar.heads[0]);
    }
    return w.text;
}
